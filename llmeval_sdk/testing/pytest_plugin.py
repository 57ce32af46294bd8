"""Evaluations as tests: ``@pytest.mark.llmeval("data.jsonl", evaluators=[…], at_least={…})``.

    @pytest.mark.llmeval(
        "golden.jsonl",
        evaluators=["document_recall"],
        at_least={"retrieval/ground_truth/document_recall/average": 0.9},
    )
    def test_the_right_documents_are_found(llmeval_report):
        assert not llmeval_report.errors

The data is evaluated once, before the test's body; the bounds are checked after it. A test that
needs no more than the bounds has an empty body. pytest loads this by its entry point; nothing of
the package is imported until a test is marked.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest


if TYPE_CHECKING:
    from llmeval_sdk.offline import Report


_key: pytest.StashKey[Any] = pytest.StashKey()
MARKER = (
    "llmeval(data, *, at_least={path: number}, at_most={path: number}, min_rated=0.9, model=…, "
    "evaluators=[…], llm=…, **options): evaluate a data set (options of llmeval_sdk.evaluate); "
    "the test fails when a metric is beyond its bound, its evaluator rated less than min_rated of "
    "the rows that have its inputs, or the model raised. A path is relative to the test's file, "
    "else to the root folder."
)
MAX_WORST = 5


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def llmeval_report(request: pytest.FixtureRequest) -> Report:
    """The `llmeval_sdk.Report` of the data set that the test is marked with."""
    return _report_of(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Evaluate a marked test's data, and check the bounds once its body has passed."""
    if pyfuncitem.get_closest_marker("llmeval") is None:
        return (yield)
    report = _report_of(pyfuncitem)
    result = yield
    _check(report, _marked(pyfuncitem))
    return result


def _report_of(item: Any) -> Report:
    if _key not in item.stash:
        from llmeval_sdk.errors import LlmevalError
        from llmeval_sdk.offline import check_bounds, evaluate

        marked = _marked(item)
        options = marked.options
        chosen = {name: options[name] for name in ("evaluators", "llm") if name in options}
        problem = None
        try:
            check_bounds((*marked.at_least, *marked.at_most), **chosen)
            item.stash[_key] = evaluate(marked.data, progress=False, **options)
        except LlmevalError as error:
            problem = error
        if problem is not None:  # outside the handler, whose error pytest would print as well
            pytest.fail(f"llmeval: {problem}", pytrace=False)
    found: Report = item.stash[_key]
    return found


class Marked(NamedTuple):
    """What a test's marker says."""

    data: Any
    at_least: Mapping[str, float]
    at_most: Mapping[str, float]
    gate: dict[str, Any]
    """What else the gate is told."""
    options: dict[str, Any]
    """Of ``evaluate``."""


def _marked(item: Any) -> Marked:
    """Read the marker of a test."""
    marker = item.get_closest_marker("llmeval")
    if marker is None or len(marker.args) != 1:
        pytest.fail(
            'llmeval: mark the test with its data: @pytest.mark.llmeval("data.jsonl", '
            "evaluators=[…], at_least={…})",
            pytrace=False,
        )
    options = dict(marker.kwargs)
    at_least, at_most = options.pop("at_least", {}), options.pop("at_most", {})
    gate = {name: options.pop(name) for name in ("min_rated",) if name in options}
    return Marked(_found(item, marker.args[0]), at_least, at_most, gate, options)


def _found(item: Any, data: Any) -> Any:
    if not isinstance(data, (str, Path)):
        return data
    beside, root = item.path.parent / data, item.config.rootpath / data
    return beside if beside.exists() or not root.exists() else root


def _check(report: Report, marked: Marked) -> None:
    from llmeval_sdk.errors import ConfigurationError
    from llmeval_sdk.offline.report.gate import ReportGate, checks

    try:
        gate = ReportGate(marked.at_least, at_most=marked.at_most, **marked.gate)
        failed = [check for check in checks(report, gate) if not check.passed]
        lines = [check.said for check in failed]
        lines += _worst(report, {check.evaluator for check in failed}) if failed else []
    except ConfigurationError as error:
        lines = [f"llmeval: {error}"]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def _worst(report: Report, about: set[str | None]) -> list[str]:
    """Show the rows on which the evaluators of missed bounds are least content."""
    from llmeval_sdk.offline.report.ci import wrongs
    from llmeval_sdk.offline.report.row import only, texts
    from llmeval_sdk.offline.report.summary import worst
    from llmeval_sdk.text.terminal import printable

    found = [
        f"  {row.id}: {printable(dict(texts(row)).get('request', ''), 60)}\n"
        + "\n".join(f"    {printable(each, 200)}" for each in wrong)
        for row in worst((only(row, about) for row in report.rows), MAX_WORST)
        if (wrong := wrongs(row))
    ]
    return ["worst rows:", *found] if found else []
