"""The rows of two reports side by side, as part of a report's page."""

from __future__ import annotations

from collections.abc import Iterator

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report._page_markup import cells, mark, table, text
from llmeval_sdk.offline.report.compare import Comparison
from llmeval_sdk.offline.report.pairs import MOST_TEXT, RowPair, says, step_of
from llmeval_sdk.offline.report.row import Row, texts
from llmeval_sdk.text.terminal import plural, printable, score


MOST_PAIRS = 25
MOST_MARKS = 4
_ANSWERS = ("response", "value")


def side_by_side(compared: Comparison) -> str:
    """List the rows that changed, the worst change first, with both answers side by side."""
    if not compared.rows:
        return ""
    shown = compared.rows[:MOST_PAIRS]
    worse = plural(compared.regressed, "row")
    count = f"{len(shown):,} of {compared.changed:,}"
    pairs = "".join(_pair(pair, is_open=not place) for place, pair in enumerate(shown))
    return (
        f'<h2>Before and now <span class="soft">{worse} got worse; {count} that changed, '
        f"the worst first</span></h2>{pairs}"
    )


def _pair(pair: RowPair, *, is_open: bool) -> str:
    request = dict(texts(pair.after)).get("request", "")
    expected = dict(texts(pair.after)).get("expected_response", "")
    told = f'<h3>expected response</h3><p class="text">{text(expected[:MOST_TEXT])}</p>'
    return (
        f"<details{' open' if is_open else ''}><summary>"
        f'<span class="id">{text(pair.after.id)}</span>'
        f'<span class="asked">{text(printable(request, 160))}</span>'
        f'<span class="marks">{"".join(_marks(pair))}</span></summary>'
        f'<div class="inside both"><div>{_answer("before", pair.before)}</div>'
        f"<div>{_answer('now', pair.after)}</div></div>"
        f'<div class="inside"><div><h3>request</h3>'
        f'<p class="text">{text(request[:MOST_TEXT])}</p>{told if expected else ""}</div>'
        f"<div>{_scores(pair)}</div></div></details>"
    )


def _answer(when: str, row: Row) -> str:
    if row.error is not None:
        said = f'<p class="bad">{text(f"{row.error.type}: {row.error.message}")}</p>'
    else:
        values = dict(texts(row))
        answer = next((values[name] for name in _ANSWERS if name in values), "")
        said = f'<p class="text">{text(answer[:MOST_TEXT])}</p>'
        said = said if answer else '<p class="soft">no answer</p>'
    return f"<h3>{when}</h3>{said}"


def _marks(pair: RowPair) -> Iterator[str]:
    if pair.after.error is not None and pair.before.error is None:
        yield mark(f"raised {pair.after.error.type}", good=False)
        return
    steps = []
    for name, after in pair.after.evaluations.items():
        before = pair.before.evaluations.get(name)
        by = step_of(before, after)
        if before is not None and by is not None:
            steps.append((by, f"{name} {score(before.value)} → {score(after.value)}"))
    steps.sort()
    for by, step in steps[:MOST_MARKS]:
        yield mark(step, good=by > 0)
    if len(steps) > MOST_MARKS:
        yield mark(f"+{len(steps) - MOST_MARKS}", good=None)
    if not steps and pair.before.record.response != pair.after.record.response:
        yield mark("another answer", good=None)


def _scores(pair: RowPair) -> str:
    names = dict.fromkeys((*pair.after.evaluations, *pair.before.evaluations))
    rows = []
    for name in names:
        before, after = pair.before.evaluations.get(name), pair.after.evaluations.get(name)
        if says(before) or says(after):
            why = "" if after is None else after.explanation or ""
            row = [("", text(name)), ("", _step(before, after)), ("", text(printable(why, 300)))]
            rows.append(cells(row))
    if not rows:
        return ""
    return table([("", "evaluator"), ("", "before → now"), ("", "why")], rows)


def _step(before: Evaluation | None, after: Evaluation | None) -> str:
    """Say what an evaluator said before and says now, the latter in colour if it changed."""
    by = step_of(before, after)
    kind = "" if by is None else "good" if by > 0 else "bad"
    return f'{_value(before)} → <span class="{kind}">{_value(after)}</span>'


def _value(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "–"
    if evaluation.error is not None:
        return f'<span class="bad">{text(evaluation.error.type)}</span>'
    return text(score(evaluation.value))
