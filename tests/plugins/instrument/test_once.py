"""What both we and somebody else see is counted once, and what is not the app's is not traced."""

import json
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.instrument.patching import uninstrument
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor


@pytest.fixture(autouse=True)
def _instrumented():
    llmeval.instrument("openai")


@pytest.fixture
def apps_tracing():
    """Another tracer of the app, with the same instrumentation and a provider of its own."""
    from openinference.instrumentation.openai import OpenAIInstrumentor

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield provider, exporter
    instrumentor.uninstrument()


def test_a_call_inside_an_llm_span_completes_that_span(ask, seen, records):
    """One span, with the tokens, the model and the time to the first token of the call."""

    @llmeval.llm
    def answer(question):
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return "".join(
            part.choices[0].delta.content or "" for part in ask(**options) if part.choices
        )

    with llmeval.workflow("request", request="Which roof?") as span:
        span.response = answer("Which roof?")
    seen.drain()
    assert [each.name for each in seen.spans] == ["answer", "request"]
    call = seen.span("answer")
    assert (call.response, call.usage.input_tokens, call.model_name) == ("Slate.", 5, "gpt-4o-2026")
    assert call.metrics["time_to_first_token"] > 0
    assert records[-1].usage.input_tokens == 5


def test_several_calls_inside_an_llm_span_are_summed_up(ask, seen, records):
    """A call that is tried again costs twice."""

    @llmeval.llm
    def answer(question):
        ask()
        return ask().choices[0].message.content

    with llmeval.workflow("request", request="Which roof?") as span:
        span.response = answer("Which roof?")
    seen.drain()
    assert seen.span("answer").usage.total_tokens == records[-1].usage.total_tokens == 14


def test_tokens_that_the_app_annotated_count_alone(ask, seen, records):
    """The app knows best, before the call and after it."""
    for is_before in (True, False):
        with llmeval.llm("answer", model_name="mine") as span:
            numbers = {"input_tokens": 100, "output_tokens": 1}
            if is_before:
                span.annotate(metrics=numbers)
            ask()
            if not is_before:
                span.annotate(metrics=numbers)
        seen.drain()
        assert seen.span("answer").usage.input_tokens == 100
        assert seen.span("answer").model_name == "mine"


def test_a_stream_that_outlives_the_llm_span_is_a_span_of_its_own(ask, seen):
    """The function returned the stream itself: its tokens are not lost, and not counted twice."""

    @llmeval.llm
    def answer(question):
        return ask(stream=True, stream_options={"include_usage": True})

    list(answer("Which roof?"))
    seen.drain()
    assert [span.usage for span in seen.spans if span.name == "answer"] == [None]
    assert seen.span("ChatCompletion").usage.total_tokens == 7


def test_a_call_inside_a_workflow_belongs_to_its_record(ask, seen, records):
    """The tokens are the request's, and the call is no request of its own."""
    with llmeval.workflow("request", request="Which roof?") as span:
        ask()
        span.response = "Slate."
    seen.drain()
    assert [record.usage.total_tokens for record in records] == [7]
    call = seen.span("ChatCompletion")
    assert (call.trace_id, call.parent_id) == (span.trace_id, span.span_id)


def test_a_wrapped_client_of_a_patched_library_is_traced_once(openai_client, ask, seen):
    """Also when it is wrapped twice, and when `instrument` is called twice."""
    llmeval.instrument("openai")
    assert llmeval.wrap_openai(llmeval.wrap_openai(openai_client)) is openai_client
    ask()
    seen.drain()
    assert len(seen.spans) == 1


def test_nothing_is_traced_where_tracing_is_off(ask, seen):
    """Inside `disabled()`, after `uninstrument`, and in a trace that is not sampled."""
    with llmeval.disabled():
        ask()
    uninstrument("openai")
    uninstrument("openai")
    ask()
    llmeval.instrument("openai")
    unsampled = trace.NonRecordingSpan(trace.SpanContext(7, 7, False, trace.TraceFlags(0)))
    with trace.use_span(unsampled):
        ask()
    seen.drain()
    assert seen.spans == []


def test_the_calls_of_judges_are_not_the_apps(ask, records):
    """A judge that asks by the client of OpenAI is not traced as the app."""
    asked = []

    @llmeval.judge
    def polite(record: llmeval.Record, llm: llmeval.LLM) -> bool:
        asked.append(ask().choices[0].message.content)
        return True

    from llmeval_sdk.testing import capture

    with capture(
        evaluators=[polite], llm="stand-in", judge_base_url="http://127.0.0.1:9/v1"
    ) as seen:
        with llmeval.workflow("request", request="Which roof?") as span:
            span.response = "Slate."
        seen.drain()
    assert asked == ["Slate."]
    assert [each.name for each in seen.spans if each.name == "ChatCompletion"] == []


def test_the_apps_own_instrumentation_goes_on_beside_ours(ask, seen, apps_tracing):
    """Each gets the call once, whoever came first; taking ours back leaves the app's."""
    _, exporter = apps_tracing
    ask()
    seen.drain()
    assert (len(seen.spans), len(exporter.get_finished_spans())) == (1, 1)
    uninstrument("openai")
    ask()
    seen.drain()
    assert (len(seen.spans), len(exporter.get_finished_spans())) == (1, 2)


def test_a_call_that_reaches_us_by_the_apps_provider_too_is_one(ask, seen, records, apps_tracing):
    """The app has added our span processor to its provider, and instruments the client."""
    provider, _ = apps_tracing
    provider.add_span_processor(EvaluationSpanProcessor())
    ask()
    seen.drain()
    assert len(records) == 1


def test_the_apps_spans_keep_parents_and_sampling(ask, seen, provider):
    """What the app traces inside of a call stands where it stands without us."""
    exporter, apps = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    apps.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = apps.get_tracer("app")
    import openai

    class Transport(openai.DefaultHttpxClient):
        def send(self, *args, **options):
            with tracer.start_as_current_span("POST"):
                return super().send(*args, **options)

    with openai.OpenAI(
        base_url=provider.base_url, api_key="none", http_client=Transport()
    ) as client:
        with tracer.start_as_current_span("GET /answer") as above:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
    inner, outer = exporter.get_finished_spans()
    assert inner.parent.span_id == outer.context.span_id
    seen.drain()
    call = seen.span("ChatCompletion")
    assert int(call.trace_id, 16) == above.get_span_context().trace_id
    assert int(call.parent_id or "0", 16) in (0, above.get_span_context().span_id)


def test_threads_and_forks_are_traced(ask, seen, tmp_path):
    """A call in a thread is a span; a forked child goes on with the patch."""
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.drain()
    assert len(seen.spans) == 4


FORKING = """
import json, os, sys
import llmeval_sdk as llmeval
from openai import OpenAI
sys.path[:0] = sys.argv[2:]
from provider_server import running_provider

llmeval.instrument("openai")
llmeval.configure(exporters=["local"], store=sys.argv[1])
with running_provider() as provider:
    client = OpenAI(base_url=provider.base_url, api_key="none", max_retries=0)
    ask = lambda: client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
    ask()
    child = os.fork()
    if not child:
        ask()
        llmeval.shutdown(10)
        os._exit(0)
    os.waitpid(child, 0)
llmeval.shutdown(10)
import sqlite3
print(json.dumps(sqlite3.connect(sys.argv[1]).execute("SELECT COUNT(*), COUNT(DISTINCT trace_id) FROM spans").fetchone()))
"""


def test_a_forked_child_is_traced(tmp_path, request):
    """Parent and child each store their call, in traces of their own."""
    support = request.config.rootpath / "tests" / "support"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "s.db"), str(support)],
        capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, 2]
