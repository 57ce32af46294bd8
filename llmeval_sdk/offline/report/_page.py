"""A report as one page of HTML that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmeval_sdk.model import Evaluation, is_stand_in
from llmeval_sdk.offline.report._page_markup import STYLE, cells, mark, table, text
from llmeval_sdk.offline.report._page_metrics import Histograms, metrics
from llmeval_sdk.offline.report._page_pairs import side_by_side
from llmeval_sdk.offline.report.compare import Comparison
from llmeval_sdk.offline.report.gate import Check, ReportGate, checks
from llmeval_sdk.offline.report.pairs import MOST_TEXT
from llmeval_sdk.offline.report.row import Row, texts
from llmeval_sdk.offline.report.summary import (
    IN_HTML,
    failures,
    goodness,
    headline,
    low,
    standing,
)
from llmeval_sdk.offline.report.summary import worst as worst_of
from llmeval_sdk.text.terminal import plural, printable, score


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.contents import ReportContents


MOST_CHUNKS = 20
MOST_MARKS = 4
FEW = 4
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
    yield from marks[:MOST_MARKS]
    if len(marks) > MOST_MARKS:
        yield mark(f"+{len(marks) - MOST_MARKS}", good=None)


def _texts(row: Row, columns: list[tuple[str, str]]) -> Iterator[str]:
    if row.error is not None:
        yield f'<p class="bad">{text(f"{row.error.type}: {row.error.message}")}</p>'
    for name, value in columns:
        yield f"<h3>{text(name.replace('_', ' '))}</h3>"
        yield f'<p class="text">{text(value[:MOST_TEXT])}</p>'
    chunks = row.record.retrieved_context
    if chunks:
        yield f"<h3>retrieved context, {plural(len(chunks), 'chunk')}</h3><ol>"
        for chunk in chunks[:MOST_CHUNKS]:
            source = f' <span class="soft">{text(chunk.doc_uri)}</span>' if chunk.doc_uri else ""
            yield f'<li><span class="text">{text((chunk.content or "")[:600])}</span>{source}</li>'
        yield "</ol>"


def _evaluations(row: Row) -> str:
    """Make a table of what was said, the worst first; what is well folds away behind the rest."""
    ordered = sorted(row.evaluations.values(), key=_place)
    bad = [each for each in ordered if each.error is not None or standing(each) == "bad"]
    well = [each for each in ordered if each not in bad]
    if not bad or len(well) < FEW:
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
