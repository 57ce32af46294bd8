"""The page as a whole: how it went, the metrics, what got worse, the worst rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.offline.report.compare import Comparison
from llmeval_sdk.offline.report.gate import Check, Gate, checks
from llmeval_sdk.offline.report.page.drawings import Histograms
from llmeval_sdk.offline.report.page.markup import mark, text
from llmeval_sdk.offline.report.page.metrics import metrics
from llmeval_sdk.offline.report.page.rows import regressed, row_of
from llmeval_sdk.offline.report.page.style import STYLE
from llmeval_sdk.offline.report.summary import headline, plural
from llmeval_sdk.offline.report.worst import failures
from llmeval_sdk.offline.report.worst import worst as worst_of
from llmeval_sdk.offline.report.written import IN_HTML


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.report import Report


_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)
"""Nothing is loaded and nothing runs, whatever a row could smuggle in."""


def page(report: Report, *, worst: int, gate: Gate) -> str:
    """See `Report.to_html`. Texts of rows are escaped; nothing is loaded and nothing runs."""
    title = report.experiment or "Evaluation"
    histograms = Histograms(report.aggregate)
    asked = checks(report, gate)
    blamed = {check.evaluator for check in asked if not check.passed}
    rows = worst_of(histograms.count(report.rows), max(worst, 0), blamed)
    has_failed = any(not check.passed for check in asked) if asked else bool(rows)
    first = [row for row in rows[:1] if has_failed and (row.error or failures(row))]
    parts = [
        _head(report, title, asked),
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


def _head(report: Report, title: str, asked: list[Check]) -> str:
    passed = all(check.passed for check in asked)
    badge = mark("passed" if passed else "failed", good=passed) if asked else ""
    shown = [check for check in asked if check.word != "WORSE"]
    worse = plural(len(asked) - len(shown), "metric")
    if len(shown) < len(asked):
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


def _problems(report: Report) -> str:
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
        f'<p class="soft">Against a baseline: {compared.pairs:,} rows in both, {only}.</p>'
        + regressed(compared)
    )
