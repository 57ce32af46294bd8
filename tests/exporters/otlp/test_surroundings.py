"""Context both ways, with the exporter that sends OTLP itself."""

import threading

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.exporters.otlp.exporter import OtlpExporter
from llmeval_sdk.testing import capture


class App:
    """An instrumented app: its provider is the global one for the test."""

    def __init__(self, sampler, monkeypatch):
        self.out = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(sampler), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.out))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        self.tracer = provider.get_tracer("app")

    def names(self):
        return [span.name for span in self.out.get_finished_spans()]


@pytest.fixture
def app(monkeypatch):
    return App(ALWAYS_ON, monkeypatch)


@pytest.fixture
def exporter(collector):
    return OtlpExporter(config.Settings(otlp_endpoint=collector.url))


def here():
    return trace.get_current_span().get_span_context()


def test_our_root_joins_the_apps_trace(app, exporter):
    """Its parent is the active span of the app, and afterwards that is active again."""
    with capture(exporters=[exporter]) as seen:
        with app.tracer.start_as_current_span("request") as request:
            mine = request.get_span_context()
            with llmeval.workflow("answer"):
                pass
            assert here().span_id == mine.span_id
        seen.drain()
    span = seen.span("answer")
    assert span.trace_id == f"{mine.trace_id:032x}"
    assert span.parent_id == f"{mine.span_id:016x}"
    assert context.get_current() == {}


def test_libraries_nest_under_ours_and_ours_under_theirs(app, exporter):
    """Ours, theirs, ours: each is the child of the one around it."""
    with capture(exporters=[exporter]) as seen:
        with app.tracer.start_as_current_span("request"), llmeval.workflow("answer") as outer:
            with app.tracer.start_as_current_span("http") as http, llmeval.task("parse"):
                pass
        seen.drain()
    assert f"{http.parent.span_id:016x}" == outer.span_id
    assert seen.span("parse").parent_id == f"{http.get_span_context().span_id:016x}"
    assert seen.span("parse").trace_id == outer.trace_id


def test_an_unsampled_request_of_the_app_is_not_recorded(monkeypatch, exporter):
    """The flags come along: no span of ours, no score, and none below."""
    app = App(ALWAYS_OFF, monkeypatch)
    with capture(exporters=[exporter]) as seen:
        with app.tracer.start_as_current_span("request"), llmeval.workflow("answer"):
            with app.tracer.start_as_current_span("http"):
                pass
        stats = seen.drain()
    assert (stats.spans, stats.evaluations) == (0, 0)
    assert app.names() == []


def test_the_apps_sampler_is_not_overruled_by_our_roots(monkeypatch, exporter):
    """Of 300 traces that begin with ours, an app that samples 10 % keeps about 10 % of its own."""
    app = App(TraceIdRatioBased(0.1), monkeypatch)
    with capture(exporters=[exporter]) as seen:
        for _ in range(300):
            with llmeval.workflow("answer"), app.tracer.start_as_current_span("http"):
                pass
        seen.drain()
    assert len(seen.spans) == 300
    assert 5 <= len(app.names()) <= 70


def test_without_a_provider_nothing_is_attached(exporter):
    """Nobody there to nest below us: the app's context stays as it is."""
    with capture(exporters=[exporter]) as seen:
        with llmeval.workflow("answer"):
            assert context.get_current() == {}
        seen.drain()
    assert seen.span("answer").parent_id is None


def test_baggage_and_traceparent_travel(app, exporter):
    """What the app's propagator writes inside a span of ours names it, and keeps the baggage."""
    token = context.attach(baggage.set_baggage("tenant", "t1"))
    try:
        with capture(exporters=[exporter]) as seen:
            with app.tracer.start_as_current_span("request"), llmeval.workflow("answer") as span:
                headers = {}
                propagate.inject(headers)
            seen.drain()
    finally:
        context.detach(token)
    version, trace_id, span_id, flags = headers["traceparent"].split("-")
    assert (version, trace_id, span_id) == ("00", span.trace_id, span.span_id)
    assert int(flags, 16) & 1
    assert headers["baggage"] == "tenant=t1"


def test_a_thread_with_only_their_context_stays_in_our_trace(app, exporter):
    """An instrumentation that carries OpenTelemetry's context carries ours with it."""
    with capture(exporters=[exporter]) as seen:

        def work(carried):
            token = context.attach(carried)
            with llmeval.task("below"):
                pass
            context.detach(token)

        with app.tracer.start_as_current_span("request"), llmeval.workflow("answer") as span:
            thread = threading.Thread(target=work, args=(context.get_current(),))
            thread.start()
            thread.join()
        seen.drain()
    assert seen.span("below").parent_id == span.span_id


@pytest.mark.parametrize("is_returned", [False, True], ids=["yielded", "returned"])
def test_a_stream_does_not_leak_between_its_steps(app, exporter, is_returned):
    """Between two yields the caller's span is active, inside ours."""
    inside = []

    def words():
        for word in ("a", "b"):
            inside.append(here().span_id)
            yield word

    def returned():
        return words()

    stream = llmeval.workflow(name="stream")(returned if is_returned else words)
    with capture(exporters=[exporter]) as seen:
        with app.tracer.start_as_current_span("request") as request:
            streamed = stream()
            assert here().span_id == request.get_span_context().span_id
            for _ in streamed:
                assert here().span_id == request.get_span_context().span_id
            assert here().span_id == request.get_span_context().span_id
        seen.drain()
    assert inside == [int(seen.span("stream").span_id, 16)] * 2


def test_an_async_stream_does_not_leak_between_its_steps(app, exporter):
    """The same for an async generator that is left early."""
    import asyncio

    @llmeval.workflow
    async def stream():
        yield "a"
        yield "b"

    async def use():
        with app.tracer.start_as_current_span("request") as request:
            answers = stream()
            async for _ in answers:
                assert here().span_id == request.get_span_context().span_id
                break
            await answers.aclose()
            assert here().span_id == request.get_span_context().span_id

    with capture(exporters=[exporter]) as seen:
        asyncio.run(use())
        seen.drain()
    assert seen.span("stream").parent_id is not None


def test_a_sampler_that_fails_costs_the_app_nothing(monkeypatch, exporter):
    """The app's sampler raises: our span is recorded all the same."""

    class Broken(TraceIdRatioBased):
        def should_sample(self, *args, **kwargs):
            raise RuntimeError("sampler")

    app = App(ALWAYS_ON, monkeypatch)
    app.tracer.sampler = None
    trace.get_tracer_provider().sampler = Broken(0.5)
    with capture(exporters=[exporter], raise_again=False) as seen:
        with llmeval.workflow("answer"):
            pass
        seen.drain()
    assert seen.span("answer")
