"""The console exporter: one readable line per trace."""

import io
import sys

import pytest

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.console import ConsoleExporter
from llmeval_sdk.model import (
    Batch,
    Evaluation,
    EvaluationEvent,
    Failure,
    NotRun,
    SpanData,
    Target,
)
from llmeval_sdk.registry import exporter_factory


TRACE = "ab" * 16


def span(name="extract_field", *, parent=None, trace=TRACE, took=1_240_000_000, **given):
    return SpanData(trace, "cd" * 8, parent, name, "workflow", 0, took, **given)


def score(name, value, *, trace=TRACE, span_name="extract_field", **given):
    target = Target(trace, "cd" * 8, span_name, "workflow")
    return EvaluationEvent(name, target, Evaluation(name, value, **given), 0)


@pytest.fixture
def printed(capsys):
    def run(*batches):
        exporter = exporter_factory("console")(Settings())
        for batch in batches:
            exporter.export(batch)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return run


def test_a_trace_is_one_line_with_its_scores(printed):
    """Name, duration, every score with its label, and the id to look further."""
    batch = Batch(
        (span("find_chunks", parent="ee" * 8), span()),
        (
            score("context_precision", 0.6, label="good"),
            score("cites_a_page", True),
            score("recall_warning", "HIT_RETRIEVAL_LIMIT"),
            score("document_recall", None),
            score("semantic_validation", None, error=Failure("ValueError", "boom")),
        ),
        (NotRun("n", Target(TRACE), "safety", "no_judge_model", "", 0),),
    )
    assert printed(batch) == (
        "llmeval extract_field 1.24 s | context_precision 0.60 good | cites_a_page pass | "
        "recall_warning HIT_RETRIEVAL_LIMIT | document_recall n/a | "
        "semantic_validation failed: ValueError | not run: safety (no_judge_model) | "
        f"trace {TRACE}\n"
    )


def test_a_request_below_another_service_has_its_line(printed):
    """Its parent is not here to print one; its steps print none of their own."""
    request = span(parent="ee" * 8, outside_parent=True)
    said = printed(Batch((span("find_chunks", parent="cd" * 8), request)))
    assert said == f"llmeval extract_field 1.24 s | trace {TRACE}\n"


def test_two_traces_are_two_lines(printed):
    """Each with its own scores."""
    batch = Batch(
        (span("one"), span("two", trace="ff" * 16, took=12_000_000, error=Failure("KeyError"))),
        (score("p", 0.25, trace="ff" * 16),),
    )
    assert printed(batch) == (
        f"llmeval one 1.24 s | trace {TRACE}\n"
        f"llmeval two 12 ms | failed: KeyError | p 0.25 | trace {'ff' * 16}\n"
    )


def test_a_late_score_has_a_line_of_its_own(printed):
    """A judge answers after the trace was printed."""
    assert printed(Batch((span(),)), Batch((), (score("context_recall_llm", 0.4),))) == (
        f"llmeval extract_field 1.24 s | trace {TRACE}\n"
        f"llmeval extract_field | context_recall_llm 0.40 | trace {TRACE}\n"
    )


def test_many_scores_of_one_name_are_folded(printed):
    """A document of twelve fields is still one line: means and counts."""
    events = [score("p", value) for value in (0.2, 0.4)]
    events += [score("q", value) for value in ("mixed", "mixed", "unanimous")]
    events += [score("r", True), score("r", None, error=Failure("x")), score("r", 1.0)]
    assert printed(Batch((span(),), tuple(events))) == (
        "llmeval extract_field 1.24 s | p 0.30 (mean of 2) | q 2x mixed, 1x unanimous | "
        f"r 1.00 (mean of 1), 1x pass, 1x failed | trace {TRACE}\n"
    )


def test_a_score_outside_any_span_is_printed(printed):
    """There is no trace to name."""
    event = EvaluationEvent("x", Target(), Evaluation("p", 0.5), 0)
    assert printed(Batch((), (event,))) == "llmeval (no span) | p 0.50\n"


def test_spans_below_a_root_alone_print_nothing(printed):
    """The line comes with the root."""
    assert printed(Batch((span(parent="ee" * 8),))) == ""


def test_names_cannot_steer_the_terminal(printed):
    """One line, no escape sequences, half characters as their codes."""
    line = printed(Batch((span("a\x1b[31m\nb"),), (score("p\r", "\ud83d"),)))
    assert line == rf"llmeval a\x1b[31m b 1.24 s | p  \ud83d | trace {TRACE}" + "\n"


def test_a_closed_stderr_is_an_export_error(monkeypatch):
    """Delivery counts what could not be printed; a process without stderr prints nothing."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    with pytest.raises(ExportError) as caught:
        ConsoleExporter().export(Batch((span(),)))
    assert (caught.value.reason, caught.value.retryable) == ("stderr_closed", False)
    monkeypatch.setattr(sys, "stderr", None)
    ConsoleExporter().export(Batch((span(),)))
