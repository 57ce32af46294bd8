"""A report for CI: Markdown for the comment of a pull request, and JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import escape, quoteattr

from llmeval_sdk.model import STAND_IN, Evaluation
from llmeval_sdk.offline.report.gate import Check, ReportGate, checks
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
    from llmeval_sdk.offline.report.aggregate import ReportContents
    from llmeval_sdk.offline.report.compare import Comparison


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


RowOutcome = Literal["passed", "failure", "error", "skipped"]


def junit(report: ReportContents, gate: ReportGate) -> str:
    """See `Report.to_junit`.

    A row fails by a rating of no or a value of fail or False, and is an error where the model or
    an evaluator raised. Where there are bounds or a baseline they decide: what rows were rated is
    told and fails none. There a row is an error where the model raised, or an evaluator of which
    the gate says that it failed too often; one that failed seldom enough shows as skipped.
    """
    gate_checks = checks(report, gate)
    blamed = {check.evaluator for check in gate_checks if not check.passed}
    kinds: Counter[RowOutcome] = Counter()
    rows = []
    for row in report.rows:
        kind, body = _outcome(row, gate, blamed)
        kinds[kind] += 1
        rows.append(_case(row.id, body))
    about = quoteattr(_clean(headline(report)))
    properties = f'<properties><property name="report" value={about}/></properties>\n'
    suites = [_suite("rows", rows, kinds, properties)]
    if gate_checks:
        suites.insert(0, _metric_suite(gate_checks, gate))
    name = quoteattr(_clean(report.experiment or "llmeval"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{IN_TEXT}\n<testsuites name={name}>\n' + (
        "".join(suites) + "</testsuites>\n"
    )


def _metric_suite(gate_checks: list[Check], gate: ReportGate) -> str:
    """Return a case for each thing that was asked, and each metric that has a baseline."""
    changes = () if gate.compared is None else gate.compared.changes
    failures_by_name = {f"{each.path} no worse": "" for each in changes}
    failures_by_name |= {check.name: "" if check.passed else check.said for check in gate_checks}
    cases = [
        _case(name, f"<failure message={quoteattr(_clean(why))}/>" if why else "")
        for name, why in failures_by_name.items()
    ]
    return _suite("metrics", cases, Counter({"failure": sum(map(bool, failures_by_name.values()))}))


def _suite(name: str, cases: list[str], kinds: Counter[RowOutcome], properties: str = "") -> str:
    counts = (
        f'tests="{len(cases)}" failures="{kinds["failure"]}" errors="{kinds["error"]}" '
        f'skipped="{kinds["skipped"]}"'
    )
    return (
        f"<testsuite name={quoteattr(name)} {counts}>\n{properties}{''.join(cases)}</testsuite>\n"
    )


def _case(name: str, body: str) -> str:
    return f'<testcase classname="llmeval" name={quoteattr(_clean(name))}>{body}</testcase>\n'


def _outcome(row: Row, gate: ReportGate, blamed: Container[str | None]) -> tuple[RowOutcome, str]:
    """Return how a row went, and the element that says so."""
    wrong = failures(row)
    if row.error is not None:
        kind: RowOutcome = "error"
        lines = [f"{row.error.type}: {row.error.message}"]
    elif not wrong:
        return "passed", ""
    else:
        wrong.sort(key=lambda each: each.error is None)
        kind = _kind(wrong, gate, blamed)
        lines = [_said(each) for each in wrong]
    shown = [f"{name}: {printable(text, 300)}" for name, text in texts(row)]
    body = escape(_clean("\n".join([*lines, *shown])))
    message = f"message={quoteattr(_clean(printable(lines[0], 200)))}"
    if kind == "passed":
        return kind, f"<system-out>{body}</system-out>"
    if kind == "skipped":  # it has a message and no body in the schemas that CI servers read by
        return kind, f"<skipped {message}/><system-out>{body}</system-out>"
    return kind, f"<{kind} {message}>{body}</{kind}>"


def _kind(wrong: list[Evaluation], gate: ReportGate, blamed: Container[str | None]) -> RowOutcome:
    failed = [each.name for each in wrong if each.error is not None]
    if not gate.decides:
        return "error" if failed else "failure"
    if any(name in blamed for name in failed):
        return "error"
    return "skipped" if failed else "passed"


def _said(evaluation: Evaluation) -> str:
    error = evaluation.error
    value = f"{error.type}: {error.message}" if error else str(evaluation.value)
    why = f" ({evaluation.explanation})" if evaluation.explanation else ""
    why += f" {STOOD_IN}" if evaluation.metadata.get("model") == STAND_IN else ""
    return f"{evaluation.name}: {value}{why}"


def _clean(text: str) -> str:
    """Leave out what XML cannot hold."""
    return "".join(
        each
        for each in text
        if each in "\t\n"
        or (each >= " " and not "\ud800" <= each <= "\udfff" and each < "\ufffe")
        or each > "\uffff"
    )
