"""A report as JUnit XML, which every CI shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from llmeval_sdk._terminal import printable
from llmeval_sdk.offline.report.bounds import below, describe
from llmeval_sdk.offline.report.change import describe as describe_change
from llmeval_sdk.offline.report.worst import failures
from llmeval_sdk.offline.results.row import Row, texts


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.report import Report


def junit(report: Report, at_least: Mapping[str, float], compared: Comparison | None) -> str:
    """See `Report.to_junit`.

    A row fails by a rating of no or a value of fail or False, and is an error where the model or
    an evaluator raised. Where there are bounds or a baseline they decide: rows are told, but only
    those fail on which the model raised.
    """
    gate = {**_bounds(report, at_least), **({} if compared is None else _against(compared))}
    rows, failed, errors = [], 0, 0
    for row in report.rows:
        kind, body = _outcome(row, decides=not gate)
        failed += kind == "failure"
        errors += kind == "error"
        rows.append(_case(row.id, body))
    suites = [_suite("rows", rows, failed, errors)]
    if gate:
        cases = [
            _case(name, f"<failure message={quoteattr(said)}/>" if said else "")
            for name, said in gate.items()
        ]
        suites.insert(0, _suite("metrics", cases, sum(map(bool, gate.values())), 0))
    name = quoteattr(report.experiment or "llmeval")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={name}>\n' + (
        "".join(suites) + "</testsuites>\n"
    )


def _bounds(report: Report, at_least: Mapping[str, float]) -> dict[str, str]:
    """Return a case for each bound, and what is wrong with it."""
    missed = below(report, at_least)
    return {
        f"{path} >= {bound:g}": describe(report, path, missed[path], bound)
        if path in missed
        else ""
        for path, bound in at_least.items()
    }


def _against(compared: Comparison) -> dict[str, str]:
    """Return a case for each metric that has a baseline, and by how much it got worse."""
    worse = {change.path: describe_change(change) for change in compared.worse}
    cases = {f"{each.path} no worse": worse.get(each.path, "") for each in compared.changes}
    return cases | {f"{name} rates rows": "it rated rows before" for name in compared.lost}


def _suite(name: str, cases: list[str], failed: int, errors: int) -> str:
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{errors}"'
    return f"<testsuite name={quoteattr(name)} {counts}>\n{''.join(cases)}</testsuite>\n"


def _case(name: str, body: str) -> str:
    return f'<testcase classname="llmeval" name={quoteattr(_clean(name))}>{body}</testcase>\n'


def _outcome(row: Row, *, decides: bool) -> tuple[str, str]:
    """Return how a row went, and the element that says so."""
    if row.error is not None:
        kind, said = "error", [f"{row.error.type}: {row.error.message}"]
    else:
        wrong = failures(row)
        if not wrong:
            return "", ""
        kind = "error" if any(each.error for each in wrong) else "failure"
        said = [
            f"{each.name}: "
            + (f"{each.error.type}: {each.error.message}" if each.error else str(each.value))
            + (f" ({each.explanation})" if each.explanation else "")
            for each in wrong
        ]
    shown = [f"{name}: {printable(text, 300)}" for name, text in texts(row)]
    body = escape(_clean("\n".join([*said, *shown])))
    if not decides and row.error is None:
        return "", f"<system-out>{body}</system-out>"
    return kind, f"<{kind} message={quoteattr(_clean(printable(said[0], 200)))}>{body}</{kind}>"


def _clean(text: str) -> str:
    """Leave out what XML cannot hold."""
    return "".join(
        each
        for each in text
        if each in "\t\n"
        or (each >= " " and not "\ud800" <= each <= "\udfff" and each < "\ufffe")
        or each > "\uffff"
    )
