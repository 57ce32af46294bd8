"""A report as one page: metrics, charts, what changed, and the worst rows first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from llmeval_sdk._terminal import printable, score
from llmeval_sdk.errors import MissingExtraError
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report import charts
from llmeval_sdk.offline.report.change import Change
from llmeval_sdk.offline.report.compare import Comparison
from llmeval_sdk.offline.report.markdown import wrongs
from llmeval_sdk.offline.report.style import STYLE
from llmeval_sdk.offline.report.summary import headline, lines, shown
from llmeval_sdk.offline.report.worst import goodness, worst
from llmeval_sdk.offline.results.row import Row, texts


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.report import Report


MOST_TEXT = 4_000
MOST_CHUNKS = 20
MOST_REGRESSIONS = 50


def page(report: Report, *, worst: int, compared: Comparison | None) -> str:
    """See `Report.to_html`. Texts of rows are escaped; nothing is loaded and nothing runs."""
    title = report.experiment or "Evaluation"
    histograms = charts.Histograms(report.aggregate)
    rows = _rows(report, worst, histograms)
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(headline(report))}</p>',
        _problems(report),
        "<h2>Metrics</h2>",
        _metrics(report),
        _charts(report, histograms),
        "" if compared is None else _comparison(compared),
        "<h2>Rows, the worst first</h2>",
        f'<p class="soft">{min(worst, len(report.rows)):,} of {len(report.rows):,}.</p>',
        *rows,
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _problems(report: Report) -> str:
    if not report.problems:
        return ""
    items = "".join(f"<li>{_text(problem)}</li>" for problem in report.problems)
    return (
        f"<details><summary>{report.skipped:,} bad rows were skipped</summary>"
        f'<div class="inside"><ol>{items}</ol></div></details>'
    )


def _metrics(report: Report) -> str:
    rows = [
        (
            f"<code>{_text(line.path)}</code>",
            shown(line.value),
            f"{line.rated:,}",
            f'<span class="bad">{line.failed:,}</span>' if line.failed else "0",
            f"{line.not_applicable:,}",
            f'<span class="soft">{_text(line.why)}</span>',
        )
        for line in lines(report)
    ]
    titles = ("metric", "value", "rows rated", "failed", "not applicable", "why not rated")
    return _table(titles, rows, numbers=(1, 2, 3, 4))


def _charts(report: Report, histograms: charts.Histograms) -> str:
    drawn = _drawn(lambda: charts.shares(lines(report)))
    spread = _drawn(histograms.draw)
    found = f'<div class="charts">{drawn}</div>' if drawn else ""
    if spread and spread != drawn:
        found += f'<h2>Distributions</h2><div class="charts">{spread}</div>'
    return found


def _drawn(draw: Callable[[], str]) -> str:
    try:
        return draw()
    except MissingExtraError as error:
        return f'<p class="soft">{_text(str(error))}</p>'


def _comparison(compared: Comparison) -> str:
    rows = [
        (
            f"<code>{_text(change.path)}</code>",
            shown(change.before),
            shown(change.after),
            f"{change.difference:+.3g}",
            _interval(change),
            f"{change.pairs:,}",
            _verdict(change),
        )
        for change in compared.changes
    ]
    titles = ("metric", "before", "after", "difference", "95 % interval", "rows", "")
    regressions = [
        (
            f"<b>{_text(each.row.id)}</b>",
            _text(each.evaluator),
            _text(score(each.before.value)),
            _text("the model raised" if each.after is None else score(each.after.value)),
            _text(printable((each.after and each.after.explanation) or "", 300)),
        )
        for each in compared.regressions[:MOST_REGRESSIONS]
    ]
    only = f"{compared.only_before:,} only before, {compared.only_after:,} only now"
    found = [
        "<h2>Against the baseline</h2>",
        f'<p class="soft">{compared.pairs:,} rows in both; {only}.</p>',
        f'<div class="charts">{_drawn(lambda: charts.changes(compared))}</div>',
        _table(titles, rows, numbers=(1, 2, 3, 4, 5)),
    ]
    if regressions:
        found += [
            f"<h2>{compared.regressed:,} rows that got worse</h2>",
            _table(("row", "evaluator", "before", "now", "why"), regressions),
        ]
    return "\n".join(found)


def _interval(change: Change) -> str:
    if change.low == change.high:
        return "-"
    return f"{change.low:+.3g} .. {change.high:+.3g}"


def _verdict(change: Change) -> str:
    kind = {"better": "good", "worse": "bad"}.get(change.verdict, "soft")
    return f'<span class="{kind}">{change.verdict}</span>'


def _rows(report: Report, count: int, histograms: charts.Histograms) -> list[str]:
    found = worst(histograms.count(report.rows), max(count, 0))
    return [_row(row, is_open=place == 0) for place, row in enumerate(found)]


def _row(row: Row, *, is_open: bool) -> str:
    said = list(texts(row))
    asked = next((text for name, text in said if name == "request"), "")
    wrong = len(wrongs(row))
    mark = f'<span class="bad">{wrong} wrong</span>' if wrong else '<span class="good">good</span>'
    inside = []
    if row.error is not None:
        inside.append(f'<p class="bad">{_text(f"{row.error.type}: {row.error.message}")}</p>')
    for name, text in said:
        inside.append(f"<h3>{_text(name)}</h3>")
        inside.append(f'<p class="text">{_text(text[:MOST_TEXT])}</p>')
    inside += [_chunks(row), _evaluations(row)]
    return (
        f"<details{' open' if is_open else ''}><summary>"
        f'<span class="id">{_text(row.id)}</span>'
        f'<span class="asked">{_text(printable(asked, 160))}</span>{mark}</summary>'
        f'<div class="inside">{"".join(inside)}</div></details>'
    )


def _chunks(row: Row) -> str:
    chunks = row.record.retrieved_context
    if not chunks:
        return ""
    items = "".join(
        f'<li><span class="text">{_text((chunk.content or "")[:600])}</span> '
        f'<span class="soft">{_text(chunk.doc_uri or "")}</span></li>'
        for chunk in chunks[:MOST_CHUNKS]
    )
    return f"<h3>retrieved context ({len(chunks):,} chunks)</h3><ol>{items}</ol>"


def _evaluations(row: Row) -> str:
    rows = [
        (_text(each.name), _value(each), _text(_why(each))) for each in row.evaluations.values()
    ]
    return _table(("evaluator", "value", "why"), rows) if rows else ""


def _value(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return f'<span class="bad">{_text(evaluation.error.type)}</span>'
    good = goodness(evaluation)
    kind = "" if good is None else "bad" if good < 0.5 else "good"
    label = f" {evaluation.label}" if evaluation.label else ""
    return f'<span class="{kind}">{_text(score(evaluation.value) + label)}</span>'


def _why(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return printable(evaluation.error.message, 600)
    return printable(evaluation.explanation or "", 600)


def _table(
    titles: Sequence[str], rows: Sequence[tuple[str, ...]], *, numbers: tuple[int, ...] = ()
) -> str:
    """Make a table of cells that are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="number">{cell}</{tag}>' if at in numbers else f"<{tag}>{cell}</{tag}>"
            for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = cells("th", titles)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
