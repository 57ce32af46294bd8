"""A report as Markdown, for a pull request's comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmeval_sdk.offline.report.gate import ReportGate, checks
from llmeval_sdk.offline.report.row import Row, texts
from llmeval_sdk.offline.report.summary import (
    IN_TEXT,
    STOOD_IN,
    failures,
    headline,
    lines,
    low,
    shown,
    worst,
)
from llmeval_sdk.text.terminal import changed_by, printable, score


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.contents import ReportContents


def markdown(report: ReportContents, *, worst: int, gate: ReportGate) -> str:
    """See `Report.to_markdown`."""
    gate_checks = checks(report, gate)
    parts = [
        IN_TEXT,
        f"### {_line(report.experiment or 'Evaluation')}",
        "",
        f"{_line(headline(report))}.",
        "",
    ]
    parts += [f"- **{check.word}** {_line(check.said)}" for check in gate_checks] + [""] * bool(
        gate_checks
    )
    parts += _metrics(report, gate.compared)
    rows = _rows(report, worst)
    if rows:
        parts += ["", "| worst rows | request | what is wrong |", "| --- | --- | --- |", *rows]
    return "\n".join(parts) + "\n"


def _metrics(report: ReportContents, compared: Comparison | None) -> Iterator[str]:
    """Make the table; with a baseline it has two columns more."""
    titles = "| metric | value | rows rated | failed | not applicable |"
    changes = {} if compared is None else {each.path: each for each in compared.changes}
    more = compared is not None
    yield titles + " before | difference |" * more + " why not rated |"
    yield "| --- | ---: | ---: | ---: | ---: |" + " ---: | ---: |" * more + " --- |"
    for line in lines(report):
        by = f" ({STOOD_IN})" if line.stood_in else ""
        change = changes.get(line.path)
        against = "- | -"
        if change is not None:
            against = f"{shown(change.before)} | {changed_by(change.difference)}"
        yield (
            f"| {_code(line.path)}{by} | {shown(line.value)} | {line.rated:,} | {line.failed:,} | "
            f"{line.not_applicable:,} |" + f" {against} |" * more + f" {_cell(line.why)} |"
        )


def _rows(report: ReportContents, count: int) -> list[str]:
    table_rows = []
    for row in worst(report.rows, count) if count > 0 else ():
        said = dict(texts(row))
        wrong = wrongs(row)
        if wrong:
            cells = (row.id, said.get("request", ""), "; ".join(wrong))
            table_rows.append(f"| {' | '.join(_cell(cell, 160) for cell in cells)} |")
    return table_rows


def wrongs(row: Row) -> list[str]:
    """Say what is wrong with a row: errors and failed ratings, else the scores below one half."""
    if row.error is not None:
        return [f"{row.error.type}: {row.error.message}"]
    problems = []
    for each in failures(row):
        said = f"{each.error.type}" if each.error else score(each.value)
        why = (each.error and each.error.message) or each.explanation
        problems.append(f"{each.name}: {said}" + (f" ({why})" if why else ""))
    if not problems:
        problems = [f"{each.name}: {score(each.value)}" for each in low(row)]
    return problems


def _cell(text: str, limit: int = 200) -> str:
    """Show a text of a row, an app or a model: as it is if it can do no harm, else as code.

    Inside code no link, image, mention of a person, reference to an issue or tag takes effect.
    """
    text = printable(text, limit)
    return text if _PLAIN.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """Make code of a text: pipes would end the cell, backticks the code."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{ticks}{pad}{text.replace('|', _PIPE)}{pad}{ticks}"


def _line(text: str) -> str:
    """Show a sentence of ours, which may quote a name or type of the app's, without any markup."""
    text = _MARKUP.sub(r"\\\1", printable(text, 600)).replace("&", "&amp;").replace("<", "&lt;")
    return _ALIVE.sub(lambda found: f"{found[0]}\u200b", text)


_PLAIN = re.compile(r"(?!.*\b(?:[0-9a-f]{7,40}|GH-\d+)\b)[A-Za-z0-9(][A-Za-z0-9 ,;:()_-]*|-?")
_TICKS = re.compile(r"`+")
_PIPE = "\\|"
_MARKUP = re.compile(r"([\\`*\[\]!|~])")
_ALIVE = re.compile(r"[@#]|:(?=//)|\bwww(?=\.)")
"""What services make a link of without any markup; a space of no width ends it."""
