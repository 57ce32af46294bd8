"""A report as one page of HTML that loads nothing and runs nothing, and as a cell of a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from llmeval_sdk.model import Evaluation, is_stand_in, values
from llmeval_sdk.offline.report.aggregate import Aggregate, EvaluatorTally
from llmeval_sdk.offline.report.ci import wrongs
from llmeval_sdk.offline.report.compare import MAX_TEXT, Change, Comparison, RowPair, says, step_of
from llmeval_sdk.offline.report.gate import Check, ReportGate, above, below, checks
from llmeval_sdk.offline.report.row import Row, metric_called, texts
from llmeval_sdk.offline.report.summary import (
    IN_HTML,
    STOOD_IN,
    MetricLine,
    failures,
    goodness,
    headline,
    lines,
    low,
    shown,
    standing,
    worst,
)
from llmeval_sdk.offline.report.summary import worst as worst_of
from llmeval_sdk.text.terminal import changed_by, number, plural, printable, score


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.aggregate import ReportContents
    from llmeval_sdk.offline.report.compare import Comparison


# Pieces of HTML and the style sheet of a report's page.
#
# Whatever rows and apps say goes through `text`. The page is light or dark as the reader's
# system is set, and it needs no script and no font file.


def text(said: str) -> str:
    """Return a text that is no markup, in any encoding's worst case."""
    return escape(said.encode("utf-8", "replace").decode())


def metric(path: str, evaluator: str) -> str:
    """Return a metric's path with the evaluator's name standing out; it may break at slashes."""
    parts = (
        f"<b>{text(part)}</b>" if evaluator in (part, f"total_{part}") else text(part)
        for part in path.split("/")
    )
    return f'<code title="{text(path)}">{"/<wbr>".join(parts)}</code>'


def mark(said: str, *, good: bool | None) -> str:
    """Make a few words in a coloured field; grey where they are neither good nor bad."""
    kind = "soft" if good is None else "good" if good else "bad"
    return f'<span class="mark {kind}">{text(said)}</span>'


def cells(row: Iterable[tuple[str, str]], tag: str = "td") -> str:
    """Make a row of a table of classes and cells that are HTML already."""
    inside = (
        f'<{tag} class="{kind}">{cell}</{tag}>' if kind else f"<{tag}>{cell}</{tag}>"
        for kind, cell in row
    )
    return f"<tr>{''.join(inside)}</tr>"


def table(head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """Make a table of classes and titles, and of rows that are HTML already."""
    return f"<table>{cells(head, 'th')}{''.join(rows)}</table>"


STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fafaf8; --surface: #ffffff; --ink: #1c2027; --muted: #646b76; --line: #e4e4df;
  --accent: #4450c8; --track: #ececf4;
  --good: #1f7a4d; --good-soft: #e3f3ea; --bad: #b3261e; --bad-soft: #fbe7e5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #121417; --surface: #191c20; --ink: #e5e7ea; --muted: #9aa2ad; --line: #2b3037;
    --accent: #9aa5ff; --track: #262a33;
    --good: #6fcf9c; --good-soft: #173126; --bad: #ff8f85; --bad-soft: #3b1d1c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 76rem; padding: 2rem 1.5rem 4rem; color: var(--ink);
  background: var(--paper); font: 14px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0; display: flex; gap: .75rem; align-items: center; }
h1 .mark { font-size: .85rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .75rem; }
h2 .soft { font-weight: 400; font-size: .9rem; margin-left: .4rem; }
p { margin: .25rem 0; }
code { font: .92em ui-monospace, monospace; color: var(--muted); }
code b { color: var(--ink); }
.soft, .unsure, .unchanged, .changed { color: var(--muted); }
.bad, .worse { color: var(--bad); }
.good, .better { color: var(--good); }
.mark {
  display: inline-block; padding: 0 .5rem; border-radius: 1rem; font-size: .8rem;
  font-weight: 500; white-space: nowrap;
}
.mark.bad { background: var(--bad-soft); }
.mark.good { background: var(--good-soft); }
.mark.soft { background: var(--track); }
.gate { list-style: none; margin: 1rem 0 0; padding: 0; }
.gate li { margin: .3rem 0; padding: .25rem .75rem; border-left: 3px solid; color: var(--ink); }
.gate li { overflow-wrap: anywhere; }
.gate .good { border-color: var(--good); }
.gate .bad { border-color: var(--bad); background: var(--bad-soft); }
.gate b { display: inline-block; min-width: 4rem; }
.gate .good b { color: var(--good); }
.gate .bad b { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
body > .wide { margin: 1.25rem 0; }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--muted); font-size: .85rem; }
.section th { padding-top: 1.1rem; color: var(--ink); font-weight: 600; font-size: .95rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: block; position: relative; width: 9rem; height: .6rem; background: var(--track); }
.bar i { display: block; height: 100%; background: var(--accent); }
.bar.missed i { background: var(--bad); }
.bar .bound { position: absolute; top: -.2rem; width: 2px; height: 1rem; }
.bar .bound, .bar.missed .bound { background: var(--ink); }
svg { vertical-align: middle; width: 6.5rem; height: 1.3rem; }
.spark rect { fill: var(--accent); }
.forest path { fill: none; stroke: currentColor; stroke-width: 1.5; }
.forest circle { fill: currentColor; }
.forest .zero { stroke: var(--line); }
details {
  border: 1px solid var(--line); border-radius: 8px; margin: .4rem 0; background: var(--surface);
}
summary {
  cursor: pointer; padding: .5rem .9rem; display: flex; gap: .75rem; align-items: baseline;
}
summary::before { content: "▸"; color: var(--muted); }
details[open] > summary::before { content: "▾"; }
details[open] > summary { border-bottom: 1px solid var(--line); }
details > .wide, details > ol { padding: .5rem .9rem; margin: 0; }
.id { font-weight: 600; white-space: nowrap; }
.asked {
  flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--muted);
}
.marks { display: flex; gap: .3rem; }
.inside { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; padding: .75rem .9rem; }
.inside > div { min-width: 0; }
.inside.both { border-bottom: 1px solid var(--line); }
.inside h3 { font-size: .8rem; margin: .75rem 0 .1rem; color: var(--muted); font-weight: 500; }
.inside h3:first-child { margin-top: 0; }
.inside td { vertical-align: top; font-size: .92rem; overflow-wrap: anywhere; }
.inside td:nth-child(-n+2) { white-space: nowrap; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
ol { margin: .1rem 0; padding-left: 1.4rem; }
@media (max-width: 60rem) {
  body { padding: 1.25rem 1rem 3rem; }
  .desk { display: none; }
  .inside { grid-template-columns: 1fr; }
  .inside tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line); }
  .inside td, .inside th { border: none; }
  .inside td:first-child { flex: 1; }
  .inside td:nth-child(3) { flex-basis: 100%; padding-top: 0; color: var(--muted); }
  .inside td:empty, .inside th { display: none; }
  summary { flex-wrap: wrap; }
  .asked { flex-basis: 100%; order: 3; }
  .marks { flex-wrap: wrap; margin-left: auto; }
}
@media (max-width: 30rem) { th, td { padding-right: .5rem; } }
"""


# The table of metrics on a report's page: values, distributions and changes.
#
# Each drawing is one cell of the table and is written as SVG by hand: a chart library would need
# ten times the text for it.

BINS = 20
WIDTH, HEIGHT = 100, 20


def bar(value: float | None, bound: float | None) -> str:
    """Draw a share or a mean within 0..1, and the bound that was asked for."""
    if value is None or not 0 <= value <= 1:
        return ""
    mark = f'<i class="bound" style="left:{bound:.1%}"></i>' if bound is not None else ""
    kind = " missed" if bound is not None and value < bound else ""
    return f'<span class="bar{kind}"><i style="width:{value:.1%}"></i>{mark}</span>'


class Histograms:
    """How the numbers of each evaluator are distributed, counted while rows stream by."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._ends = {
            name: ends
            for name, tally in aggregate.tallies.items()
            if (ends := _ends(tally)) is not None
        }
        self._bins: dict[str, Counter[int]] = {name: Counter() for name in self._ends}

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass rows on and count their values."""
        for row in rows:
            for name, (least, most) in self._ends.items():
                evaluation = row.evaluations.get(name)
                if evaluation is not None and type(evaluation.value) is float:
                    place = int((evaluation.value - least) / (most - least) * BINS)
                    self._bins[name][min(place, BINS - 1)] += 1
            yield row

    def draw(self, name: str) -> str:
        """Draw an evaluator's values; empty where they are no numbers."""
        bins = self._bins.get(name)
        if not bins:
            return ""
        low, high = self._ends[name]
        step, most = (high - low) / BINS, max(bins.values())
        columns = []
        for place, times in sorted(bins.items()):
            tall = max(1.0, times / most * (HEIGHT - 1))
            begins, ends = number(low + place * step), number(low + (place + 1) * step)
            columns.append(
                f'<rect x="{place * WIDTH / BINS:g}" y="{HEIGHT - tall:.1f}" width="4" '
                f'height="{tall:.1f}"><title>{begins} to {ends}: {times:,} rows</title></rect>'
            )
        about = number(low) if len(bins) == 1 else f"{number(low)} to {number(high)}"
        return _svg("spark", f"distribution: {about}", "".join(columns)) + (
            "" if (low, high) == (0, 1) else f' <small class="soft">{about}</small>'
        )


def _ends(tally: EvaluatorTally) -> tuple[float, float] | None:
    if tally.low is None or tally.high is None or len(tally.sums) > 1:
        return None
    if tally.low >= 0 and tally.high <= 1:
        return 0.0, 1.0
    return (tally.low, tally.high) if tally.high > tally.low else (tally.low, tally.low + 1)


def difference(change: Change, reach: float) -> str:
    """Draw a difference and its interval around zero, on a scale of ``-reach..reach``."""
    if change.low is None or change.high is None or not reach:
        return ""

    def at(value: float) -> str:
        return f"{WIDTH / 2 * (1 + 0.94 * max(-1, min(1, value / reach))):.1f}"

    middle = HEIGHT / 2
    return _svg(
        f"forest {change.verdict}",
        f"{change.difference:+.3g}, 95 % interval {change.low:+.3g} to {change.high:+.3g}",
        f'<path class="zero" d="M{WIDTH / 2:g} 0V{HEIGHT}"/>'
        f'<path d="M{at(change.low)} {middle:g}H{at(change.high)}"/>'
        f'<circle cx="{at(change.difference)}" cy="{middle:g}" r="3"/>',
    )


def _svg(kind: str, title: str, inside: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
        f"{inside}</svg>"
    )


_SECTIONS = {"response": "Response", "retrieval": "Retrieval", "agent": "Cost and time"}
_OTHERS = "Heuristics and your own"
_FAILED = "Failed"


def metrics(
    report: ReportContents,
    histograms: Histograms,
    gate: ReportGate,
) -> str:
    """Make the table, in the sections of the schema; above them what failed."""
    sections: dict[str, list[MetricLine]] = {}
    failed = {
        *map(metric_called, below(report, gate.at_least, gate.min_rated)),
        *map(metric_called, above(report, gate.at_most, gate.min_rated)),
    }
    bounds = {metric_called(path): bound for path, bound in gate.at_least.items()}
    failed |= set() if gate.compared is None else {each.path for each in gate.compared.worse}
    for line in lines(report):
        part = line.path.partition("/")[0]
        title = _FAILED if line.path in failed else _SECTIONS.get(part, _OTHERS)
        sections.setdefault(title, []).append(line)
    changes = _Changes(gate.compared)
    head = [("", "metric"), ("number", "value"), ("desk", ""), ("desk", "distribution")]
    head += [("number", "rows"), *changes.titles]
    rows = []
    for title in (_FAILED, *_SECTIONS.values(), _OTHERS):
        if title in sections:
            rows.append(f'<tr class="section"><th colspan="{len(head)}">{title}</th></tr>')
        rows += [
            cells([*_about(line, histograms, bounds), *changes.of(line.path)])
            for line in sections.get(title, ())
        ]
    return table(head, rows)


def _about(
    line: MetricLine, histograms: Histograms, at_least: Mapping[str, float]
) -> Iterable[tuple[str, str]]:
    less = ' <span class="soft" title="less is better">↓</span>'
    by = f" {mark(STOOD_IN, good=None)}" if line.stood_in else ""
    yield "", metric(line.path, line.evaluator) + less * values.high_is_bad(line.evaluator) + by
    yield "number", shown(line.value)
    is_share = not line.path.startswith("agent/")
    yield "desk", bar(line.value, at_least.get(line.path)) if is_share else ""
    yield "desk", histograms.draw(line.evaluator)
    why = ""
    if line.why:
        kind = "bad" if line.failed else "soft"
        why = f'<br><small class="{kind}">{text(line.why)}</small>'
    yield "number", f"{line.rated:,}{why}"


class _Changes:
    """The columns that stand there only where there is a baseline."""

    def __init__(self, compared: Comparison | None) -> None:
        changes = () if compared is None else compared.changes
        self._by_path: dict[str, Change] = {each.path: each for each in changes}
        self._is_shown = compared is not None
        ends = [
            abs(end) for each in changes if _is_share(each) for end in (each.low, each.high) if end
        ]
        self._reach = max(ends, default=0.0)

    @property
    def titles(self) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        return [("number desk", "before"), ("number", "difference"), ("desk", "95 % interval")]

    def of(self, path: str) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        change = self._by_path.get(path)
        if change is None:
            return [("desk", ""), ("", ""), ("desk", "")]
        by = changed_by(change.difference)
        shown_difference = f'<span class="{change.verdict}">{by}</span>'
        drawn = difference(change, self._reach) if _is_share(change) else ""
        return [
            ("number soft desk", shown(change.before)),
            ("number", shown_difference),
            ("desk", drawn),
        ]


def _is_share(change: Change) -> bool:
    return 0 <= change.before <= 1 and 0 <= change.after <= 1


# The rows of two reports side by side, as part of a report's page.

MAX_PAIRS = 25
MAX_MARKS_OF_PAIR = 4
_ANSWERS = ("response", "value")


def side_by_side(compared: Comparison) -> str:
    """List the rows that changed, the worst change first, with both answers side by side."""
    if not compared.rows:
        return ""
    shown = compared.rows[:MAX_PAIRS]
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
    told = f'<h3>expected response</h3><p class="text">{text(expected[:MAX_TEXT])}</p>'
    return (
        f"<details{' open' if is_open else ''}><summary>"
        f'<span class="id">{text(pair.after.id)}</span>'
        f'<span class="asked">{text(printable(request, 160))}</span>'
        f'<span class="marks">{"".join(_marks_of_pair(pair))}</span></summary>'
        f'<div class="inside both"><div>{_answer("before", pair.before)}</div>'
        f"<div>{_answer('now', pair.after)}</div></div>"
        f'<div class="inside"><div><h3>request</h3>'
        f'<p class="text">{text(request[:MAX_TEXT])}</p>{told if expected else ""}</div>'
        f"<div>{_scores(pair)}</div></div></details>"
    )


def _answer(when: str, row: Row) -> str:
    if row.error is not None:
        said = f'<p class="bad">{text(f"{row.error.type}: {row.error.message}")}</p>'
    else:
        values = dict(texts(row))
        answer = next((values[name] for name in _ANSWERS if name in values), "")
        said = f'<p class="text">{text(answer[:MAX_TEXT])}</p>'
        said = said if answer else '<p class="soft">no answer</p>'
    return f"<h3>{when}</h3>{said}"


def _marks_of_pair(pair: RowPair) -> Iterator[str]:
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
    for by, step in steps[:MAX_MARKS_OF_PAIR]:
        yield mark(step, good=by > 0)
    if len(steps) > MAX_MARKS_OF_PAIR:
        yield mark(f"+{len(steps) - MAX_MARKS_OF_PAIR}", good=None)
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
    return f'{_value_of_pair(before)} → <span class="{kind}">{_value_of_pair(after)}</span>'


def _value_of_pair(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "–"
    if evaluation.error is not None:
        return f'<span class="bad">{text(evaluation.error.type)}</span>'
    return text(score(evaluation.value))


MAX_CHUNKS = 20
MAX_MARKS = 4
MIN_FOLDED = 4
"""Evaluations that found nothing bad and are not worth folding away."""


def row_of(row: Row, *, is_open: bool) -> str:
    """Make one row that opens when it is clicked."""
    columns = list(texts(row))
    request = next((text for name, text in columns if name == "request"), "")
    return (
        f"<details{' open' if is_open else ''}><summary>"
        f'<span class="id">{text(row.id)}</span>'
        f'<span class="asked">{text(printable(request, 160))}</span>'
        f'<span class="marks">{"".join(_marks(row))}</span></summary>'
        f'<div class="inside"><div>{"".join(_texts(row, columns))}</div>'
        f"<div>{_evaluations(row)}</div></div></details>"
    )


def _marks(row: Row) -> Iterator[str]:
    """Name what plainly went wrong, else the low scores."""
    if row.error is not None:
        yield mark(row.error.type, good=False)
        return
    wrong = failures(row)
    marks = [mark(each.name, good=False) for each in wrong]
    if not wrong:
        marks = [mark(f"{each.name} {score(each.value)}", good=None) for each in low(row)]
    yield from marks[:MAX_MARKS]
    if len(marks) > MAX_MARKS:
        yield mark(f"+{len(marks) - MAX_MARKS}", good=None)


def _texts(row: Row, columns: list[tuple[str, str]]) -> Iterator[str]:
    if row.error is not None:
        yield f'<p class="bad">{text(f"{row.error.type}: {row.error.message}")}</p>'
    for name, value in columns:
        yield f"<h3>{text(name.replace('_', ' '))}</h3>"
        yield f'<p class="text">{text(value[:MAX_TEXT])}</p>'
    chunks = row.record.retrieved_context
    if chunks:
        yield f"<h3>retrieved context, {plural(len(chunks), 'chunk')}</h3><ol>"
        for chunk in chunks[:MAX_CHUNKS]:
            source = f' <span class="soft">{text(chunk.doc_uri)}</span>' if chunk.doc_uri else ""
            yield f'<li><span class="text">{text((chunk.content or "")[:600])}</span>{source}</li>'
        yield "</ol>"


def _evaluations(row: Row) -> str:
    """Make a table of what was said, the worst first; what is well folds away behind the rest."""
    ordered = sorted(row.evaluations.values(), key=_place)
    bad = [each for each in ordered if each.error is not None or standing(each) == "bad"]
    well = [each for each in ordered if each not in bad]
    if not bad or len(well) < MIN_FOLDED:
        return _table(ordered)
    return (
        f"{_table(bad)}<details><summary>{len(well)} more that found nothing bad</summary>"
        f'<div class="wide">{_table(well)}</div></details>'
    )


def _table(evaluations: list[Evaluation]) -> str:
    if not evaluations:
        return ""
    rows = (
        cells([("", text(each.name)), ("", _value(each)), ("", text(_why(each)))])
        for each in evaluations
    )
    return table([("", "evaluator"), ("", "value"), ("", "why")], rows)


def _place(evaluation: Evaluation) -> float:
    good = goodness(evaluation)
    return -1.0 if evaluation.error is not None else 1.0 if good is None else good


def _value(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return f'<span class="bad">{text(evaluation.error.type)}</span>'
    how = standing(evaluation)
    kind = how if how in ("good", "bad") else ""
    label = f" {evaluation.label}" if evaluation.label else ""
    label += " (stand-in)" if is_stand_in(evaluation) else ""
    return f'<span class="{kind}">{text(score(evaluation.value) + label)}</span>'


def _why(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return printable(evaluation.error.message, 600)
    return printable(evaluation.explanation or "", 600)


_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)
"""Nothing is loaded and nothing runs, whatever a row could smuggle in."""


def page(report: ReportContents, *, worst: int, gate: ReportGate) -> str:
    """See `Report.to_html`. Texts of rows are escaped; nothing is loaded and nothing runs."""
    title = report.experiment or "Evaluation"
    histograms = Histograms(report.aggregate)
    gate_checks = checks(report, gate)
    blamed = {check.evaluator for check in gate_checks if not check.passed}
    rows = worst_of(histograms.count(report.rows), max(worst, 0), blamed)
    has_failed = any(not check.passed for check in gate_checks) if gate_checks else bool(rows)
    first = [row for row in rows[:1] if has_failed and (row.error or failures(row))]
    parts = [
        _head(report, title, gate_checks),
        _problems(report),
        *(f"<h2>The first failure</h2>{row_of(row, is_open=True)}" for row in first),
        f'<div class="wide">{metrics(report, histograms, gate)}</div>',
        "" if gate.compared is None else _against(gate.compared),
        f'<h2>The worst rows <span class="soft">{len(rows):,} of {len(report.rows):,}</span></h2>',
        *(
            row_of(row, is_open=not (place or first))
            for place, row in enumerate(rows[len(first) :])
        ),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{IN_HTML}{_POLICY}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _head(report: ReportContents, title: str, gate_checks: list[Check]) -> str:
    passed = all(check.passed for check in gate_checks)
    badge = mark("passed" if passed else "failed", good=passed) if gate_checks else ""
    shown = [check for check in gate_checks if check.word != "WORSE"]
    worse = plural(len(gate_checks) - len(shown), "metric")
    if len(shown) < len(gate_checks):
        said = f"{worse} surely got worse than in the baseline"
        shown.insert(0, Check("WORSE", said, "no metric is worse"))
    items = "".join(
        f'<li class="{"good" if check.passed else "bad"}"><b>{check.word}</b> '
        f"{text(check.said)}</li>"
        for check in shown
    )
    return (
        f'<h1>{text(title)} {badge}</h1><p class="soft">{text(headline(report))}</p>'
        f'<ul class="gate">{items}</ul>'
    )


def _problems(report: ReportContents) -> str:
    if not report.problems:
        return ""
    items = "".join(f"<li>{text(problem)}</li>" for problem in report.problems)
    return (
        f"<details><summary>{report.skipped:,} bad rows were skipped</summary>"
        f"<ol>{items}</ol></details>"
    )


def _against(compared: Comparison) -> str:
    only = f"{compared.only_before:,} only there, {compared.only_after:,} only here"
    return (
        f'<p class="soft">Against a baseline: {plural(compared.pairs, "row")} in both, {only}.</p>'
        + side_by_side(compared)
    )


MAX_METRICS = 40
MAX_ROWS = 5
MAX_ROWS_READ = 5_000
"""Rows that are read to find the worst ones: a cell is drawn at once."""
_MAX_CELL = 120


def notebook(report: ReportContents) -> str:
    """Return HTML without scripts and styles of its own; all texts are escaped and cut."""
    metrics = lines(report)
    parts = [
        f"<p><b>{_cut(report.experiment or 'Evaluation')}</b>: {_cut(headline(report), 1_000)}</p>",
        _notebook_table(
            ("metric", "value", "rated", "failed", "n/a", "why not rated"),
            (line.cells() for line in metrics[:MAX_METRICS]),
        ),
    ]
    if len(metrics) > MAX_METRICS:
        parts.append(f"<p>… and {len(metrics) - MAX_METRICS:,} more: <code>.metrics</code></p>")
    if len(report.rows) > MAX_ROWS_READ:
        parts.append("<p>The worst rows are in <code>.to_html()</code>.</p>")
    else:
        bad = [(row, wrong) for row in worst(report.rows, MAX_ROWS) if (wrong := wrongs(row))]
        rows = [(row.id, dict(texts(row)).get("request", ""), "; ".join(w)) for row, w in bad]
        parts += [_notebook_table(("worst rows", "request", "what is wrong"), rows)] if rows else []
    return f"<div>{''.join(parts)}</div>"


def _notebook_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = cells((("", _cut(title)) for title in titles), "th")
    body = "".join(cells(("", _cut(cell)) for cell in row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _cut(said: str, limit: int = _MAX_CELL) -> str:
    return text(printable(said, limit))
