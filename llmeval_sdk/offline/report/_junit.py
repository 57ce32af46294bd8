"""A report as JUnit XML, which every CI shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import escape, quoteattr

from llmeval_sdk.model import STAND_IN, Evaluation
from llmeval_sdk.offline.report.gate import Check, ReportGate, checks
from llmeval_sdk.offline.report.row import Row, texts
from llmeval_sdk.offline.report.summary import IN_TEXT, STOOD_IN, failures, headline
from llmeval_sdk.text.terminal import printable


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.contents import ReportContents

Kind = Literal["passed", "failure", "error", "skipped"]


def junit(report: ReportContents, gate: ReportGate) -> str:
    """See `Report.to_junit`.

    A row fails by a rating of no or a value of fail or False, and is an error where the model or
    an evaluator raised. Where there are bounds or a baseline they decide: what rows were rated is
    told and fails none. There a row is an error where the model raised, or an evaluator of which
    the gate says that it failed too often; one that failed seldom enough shows as skipped.
    """
    gate_checks = checks(report, gate)
    blamed = {check.evaluator for check in gate_checks if not check.passed}
    kinds: Counter[Kind] = Counter()
    rows = []
    for row in report.rows:
        kind, body = _outcome(row, gate, blamed)
        kinds[kind] += 1
        rows.append(_case(row.id, body))
    about = quoteattr(_clean(headline(report)))
    properties = f'<properties><property name="report" value={about}/></properties>\n'
    suites = [_suite("rows", rows, kinds, properties)]
    if gate_checks:
        suites.insert(0, _metrics(gate_checks, gate))
    name = quoteattr(_clean(report.experiment or "llmeval"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{IN_TEXT}\n<testsuites name={name}>\n' + (
        "".join(suites) + "</testsuites>\n"
    )


def _metrics(gate_checks: list[Check], gate: ReportGate) -> str:
    """Return a case for each thing that was asked, and each metric that has a baseline."""
    changes = () if gate.compared is None else gate.compared.changes
    failures_by_name = {f"{each.path} no worse": "" for each in changes}
    failures_by_name |= {check.name: "" if check.passed else check.said for check in gate_checks}
    cases = [
        _case(name, f"<failure message={quoteattr(_clean(why))}/>" if why else "")
        for name, why in failures_by_name.items()
    ]
    return _suite("metrics", cases, Counter({"failure": sum(map(bool, failures_by_name.values()))}))


def _suite(name: str, cases: list[str], kinds: Counter[Kind], properties: str = "") -> str:
    counts = (
        f'tests="{len(cases)}" failures="{kinds["failure"]}" errors="{kinds["error"]}" '
        f'skipped="{kinds["skipped"]}"'
    )
    return (
        f"<testsuite name={quoteattr(name)} {counts}>\n{properties}{''.join(cases)}</testsuite>\n"
    )


def _case(name: str, body: str) -> str:
    return f'<testcase classname="llmeval" name={quoteattr(_clean(name))}>{body}</testcase>\n'


def _outcome(row: Row, gate: ReportGate, blamed: Container[str | None]) -> tuple[Kind, str]:
    """Return how a row went, and the element that says so."""
    wrong = failures(row)
    if row.error is not None:
        kind: Kind = "error"
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


def _kind(wrong: list[Evaluation], gate: ReportGate, blamed: Container[str | None]) -> Kind:
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
