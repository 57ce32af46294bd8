"""A report as a cell of a notebook shows it: a sentence, the metrics, the worst rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llmeval_sdk.offline.report._page import cells, text
from llmeval_sdk.offline.report.markdown import wrongs
from llmeval_sdk.offline.report.row import texts
from llmeval_sdk.offline.report.summary import headline, lines, worst
from llmeval_sdk.text.terminal import printable


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.contents import ReportContents

MOST_METRICS = 40
MOST_ROWS = 5
MOST_READ = 5_000
"""Rows that are read to find the worst ones: a cell is drawn at once."""
_LONGEST = 120


def notebook(report: ReportContents) -> str:
    """Return HTML without scripts and styles of its own; all texts are escaped and cut."""
    metrics = lines(report)
    parts = [
        f"<p><b>{_cut(report.experiment or 'Evaluation')}</b>: {_cut(headline(report), 1_000)}</p>",
        _table(
            ("metric", "value", "rated", "failed", "n/a", "why not rated"),
            (line.cells() for line in metrics[:MOST_METRICS]),
        ),
    ]
    if len(metrics) > MOST_METRICS:
        parts.append(f"<p>… and {len(metrics) - MOST_METRICS:,} more: <code>.metrics</code></p>")
    if len(report.rows) > MOST_READ:
        parts.append("<p>The worst rows are in <code>.to_html()</code>.</p>")
    else:
        bad = [(row, wrong) for row in worst(report.rows, MOST_ROWS) if (wrong := wrongs(row))]
        rows = [(row.id, dict(texts(row)).get("request", ""), "; ".join(w)) for row, w in bad]
        parts += [_table(("worst rows", "request", "what is wrong"), rows)] if rows else []
    return f"<div>{''.join(parts)}</div>"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = cells((("", _cut(title)) for title in titles), "th")
    body = "".join(cells(("", _cut(cell)) for cell in row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _cut(said: str, limit: int = _LONGEST) -> str:
    return text(printable(said, limit))
