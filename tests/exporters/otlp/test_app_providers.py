"""``otel="global"``: the app's providers, sampler and processors decide."""

import subprocess
import sys

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter
from llmeval_sdk.model import Evaluation
from llmeval_sdk.testing import FakeLLM, capture


CHUNKS = [{"content": "Slate.", "chunk_id": "1", "score": 0.9, "retrieval_method": "bm25"}]


class App:
    """An app's providers, and what they exported."""

    def __init__(self, sampler):
        self.spans_out = InMemorySpanExporter()
        self.logs_out = InMemoryLogRecordExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=ParentBased(sampler), shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_out))
        self.loggers = LoggerProvider(shutdown_on_exit=False)
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs_out))
        self.tracer = self.tracers.get_tracer("app")
        self.exporter = AppOtelExporter(
            config.Settings(),
            tracer_provider=self.tracers,
            logger_provider=self.loggers,
            meter_provider=MeterProvider([self.reader], shutdown_on_exit=False),
        )

    def span(self, name):
        return next(span for span in self.spans_out.get_finished_spans() if span.name == name)

    def events(self):
        return [log.log_record for log in self.logs_out.get_finished_logs()]


@pytest.fixture
def app():
    return App(ALWAYS_ON)


def test_our_spans_nest_among_the_apps(app):
    """Theirs above ours, ours above theirs, all in one trace, seen by their processor."""

    @llmeval.workflow
    def answer(question):
        with app.tracer.start_as_current_span("http"):
            return inner(question)

    @llmeval.task
    def inner(question):
        return "slate"

    with capture(exporters=[app.exporter]) as seen:
        with app.tracer.start_as_current_span("request"):
            answer("Roof?")
        seen.drain()
    request, ours = app.span("request"), app.span("invoke_workflow answer")
    http, task = app.span("http"), app.span("inner")
    assert ours.parent.span_id == request.context.span_id
    assert http.parent.span_id == ours.context.span_id
    assert task.parent.span_id == http.context.span_id
    assert {span.context.trace_id for span in (request, ours, http, task)} == {
        request.context.trace_id
    }
    assert ours.attributes["output.value"] == "slate"
    assert seen.span("answer").span_id == f"{ours.context.span_id:016x}"
    assert context.get_current() == {}


def test_scores_are_log_events_on_the_span(app):
    """Each evaluation is a log record with the ids of the span it is about."""

    @llmeval.workflow
    def answer(question):
        with llmeval.retrieval("find") as step:
            step.retrieved_context = CHUNKS
        return "slate"

    with capture(exporters=[app.exporter]) as seen:
        answer("Roof?")
        seen.drain()
    ours = app.span("invoke_workflow answer")
    events = {event.attributes["gen_ai.evaluation.name"]: event for event in app.events()}
    event = events["context_relevance"]
    assert (event.trace_id, event.span_id) == (ours.context.trace_id, ours.context.span_id)
    assert event.event_name == "gen_ai.evaluation.result"
    metrics = app.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    points = {
        point.attributes["gen_ai.evaluation.name"]: point for point in metrics[0].data.data_points
    }
    assert points["context_relevance"].sum == pytest.approx(0.45)


def test_a_trace_that_the_apps_sampler_drops_leaves_nothing():
    """No span, no orphan score, and libraries below are dropped with it."""
    app = App(ALWAYS_OFF)

    @llmeval.workflow
    def answer(question):
        with app.tracer.start_as_current_span("http") as http:
            assert not http.get_span_context().trace_flags.sampled
        with llmeval.retrieval("find") as step:
            step.retrieved_context = CHUNKS
        return "slate"

    with capture(exporters=[app.exporter]) as seen:
        answer("Roof?")
        assert not trace.get_current_span().get_span_context().is_valid
        stats = seen.drain()
    assert not app.spans_out.get_finished_spans()
    assert not app.events()
    assert (stats.spans, stats.evaluations) == (0, 0)


def test_a_judges_run_is_a_trace_of_its_own_with_one_link(app):
    """It never becomes a child of the span it judged, and its model call nests below it."""

    @llmeval.workflow(evaluators=["relevance_to_query"])
    def answer(question):
        return "slate"

    with capture(exporters=[app.exporter], llm=FakeLLM('{"rationale": "r", "rating": "yes"}')) as s:
        answer("Roof?")
        s.drain()
    judged, run = app.span("invoke_workflow answer"), app.span("evaluation relevance_to_query")
    assert run.parent is None
    assert run.context.trace_id != judged.context.trace_id
    assert [link.context.span_id for link in run.links] == [judged.context.span_id]
    assert run.attributes["openinference.span.kind"] == "EVALUATOR"
    below = [
        span
        for span in app.spans_out.get_finished_spans()
        if span.parent and span.parent.span_id == run.context.span_id
    ]
    assert [span.attributes["openinference.span.kind"] for span in below] == ["LLM"]


def test_a_failed_step_has_status_and_exception(app):
    """An exception of the app is on the span, and reaches the app unchanged."""

    @llmeval.workflow
    def answer(question):
        raise KeyError("roof")

    with capture(exporters=[app.exporter]) as seen:
        with pytest.raises(KeyError):
            answer("Roof?")
        seen.drain()
    ours = app.span("invoke_workflow answer")
    assert ours.status.status_code is trace.StatusCode.ERROR
    assert ours.attributes["error.type"] == "KeyError"
    assert ours.events[0].name == "exception"


def test_without_providers_nothing_is_claimed_to_be_delivered():
    """The API alone has no provider: spans and scores are refused with the reason."""
    exporter = AppOtelExporter(config.Settings())

    @llmeval.workflow
    def answer(question):
        llmeval.submit_evaluation(label="nice", value=1.0)
        return "slate"

    with capture(exporters=[exporter]) as seen:
        answer("Roof?")
        stats = seen.drain()
    account = stats.exporters["otlp"]
    assert account.dropped == {"no_tracer_provider": 1, "no_logger_provider": account.created - 1}
    assert account.balanced
    assert isinstance(seen.scores()["nice"], Evaluation)


@pytest.mark.parametrize("is_returned", [False, True], ids=["yielded", "returned"])
def test_a_stream_does_not_leak_its_span_between_its_steps(app, is_returned):
    """Between two yields the caller's own context is current; inside, the span's is."""
    inside = []

    def words(question):
        for word in ("a", "b"):
            inside.append(trace.get_current_span().get_span_context().span_id)
            yield word

    def returned(question):
        return words(question)

    stream = llmeval.workflow(name="stream")(returned if is_returned else words)
    with capture(exporters=[app.exporter]) as seen:
        with app.tracer.start_as_current_span("request") as request:
            mine = request.get_span_context().span_id
            streamed = stream("q")
            assert trace.get_current_span().get_span_context().span_id == mine
            for _ in streamed:
                assert trace.get_current_span().get_span_context().span_id == mine
            assert trace.get_current_span().get_span_context().span_id == mine
        seen.drain()
    ours = app.span("invoke_workflow stream").context.span_id
    assert inside == [ours, ours]


PROGRAM = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
import llmeval_sdk as llmeval

def instrument():
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(sys.argv[1] + "/v1/traces")))
    trace.set_tracer_provider(provider)

if sys.argv[2] == "before":
    instrument()
llmeval.configure(otel="global")
if sys.argv[2] == "after":
    instrument()

@llmeval.workflow
def answer(question):
    return "slate"

answer("Roof?")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_just_ends_loses_no_span(collector, when):
    """Ours end before the app's provider does, whoever was set up first."""
    subprocess.run([sys.executable, "-c", PROGRAM, collector.url, when], check=True, timeout=30)
    assert [span.name for span in collector.spans] == ["invoke_workflow answer"]
