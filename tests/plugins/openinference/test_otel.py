"""Spans of other instrumentations are scored like our own."""

import json
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from otlp_collector import running_collector

import llmeval_sdk as llmeval
from llmeval_sdk import config, registry
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter
from llmeval_sdk.exporters.otlp.exporter import OtlpExporter
from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.plugins.openinference import otel as source
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, list_page
from llmeval_sdk.testing import FakeLLM, capture


RECORDS: list[llmeval.Record] = []
QUESTION, ANSWER = "Which roof?", "Slate."
DOCUMENTS = [{"content": "The roof is of slate.", "id": "d1", "score": 0.9}]


@pytest.fixture
def processor():
    """A processor whose one evaluator leaves the record for the test."""
    RECORDS.clear()

    @llmeval.heuristic
    def what_was_seen(record: llmeval.Record) -> float:
        RECORDS.append(record)
        return 1.0

    yield EvaluationSpanProcessor(evaluators=[what_was_seen])
    registry.forget("what_was_seen")


@pytest.fixture
def collector():
    with running_collector() as found:
        yield found


@pytest.fixture
def app(processor):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("another-library")


def text(role, content):
    return [{"role": role, "parts": [{"type": "text", "content": content}]}]


GEN_AI = (
    {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps(text("user", QUESTION)),
        "gen_ai.output.messages": json.dumps(text("assistant", ANSWER)),
    },
    {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.documents": json.dumps(DOCUMENTS),
    },
    {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    },
)
OPENINFERENCE = (
    {
        "openinference.span.kind": "CHAIN",
        "input.value": QUESTION,
        "output.value": ANSWER,
        "output.mime_type": "text/plain",
    },
    {
        "openinference.span.kind": "RETRIEVER",
        "retrieval.documents.0.document.content": DOCUMENTS[0]["content"],
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.score": 0.9,
        "retrieval.documents.0.document.metadata": '{"page": 4}',
    },
    {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.token_count.prompt": 7,
        "llm.token_count.completion": 3,
    },
)
TRACELOOP = (
    {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps({"args": [QUESTION], "kwargs": {}}),
        "traceloop.entity.output": json.dumps(ANSWER),
    },
    {
        "traceloop.span.kind": "task",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.documents": json.dumps(DOCUMENTS),
    },
    {
        "llm.request.type": "chat",
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 3,
    },
)
MLFLOW = (
    {
        "mlflow.spanType": '"CHAIN"',
        "mlflow.spanInputs": json.dumps({"question": QUESTION}),
        "mlflow.spanOutputs": json.dumps(ANSWER),
    },
    {
        "mlflow.spanType": '"RETRIEVER"',
        "mlflow.spanOutputs": json.dumps(
            [{"page_content": DOCUMENTS[0]["content"], "metadata": {"doc_uri": "u"}, "id": "d1"}]
        ),
    },
    {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 7, "output_tokens": 3}),
    },
)


@pytest.mark.parametrize(
    "dialect",
    [GEN_AI, OPENINFERENCE, TRACELOOP, MLFLOW],
    ids=["gen_ai", "oi", "traceloop", "mlflow"],
)
def test_a_request_is_one_record_in_every_dialect(app, dialect):
    """Question, answer, documents and tokens, with spans of no interest in between."""
    root, retrieval, model = dialect
    with capture() as seen:
        with app.start_as_current_span("POST /ask"):
            with app.start_as_current_span("answer", attributes=root) as top:
                with app.start_as_current_span("find", attributes=retrieval):
                    pass
                with app.start_as_current_span("http"), app.start_as_current_span("ask") as below:
                    below.set_attributes(model)
        seen.drain()
    (record,) = RECORDS
    question = record.request
    if isinstance(question, dict):
        (turn,) = question["messages"]
        question = turn["content"]
    assert (question, record.response) == (QUESTION, ANSWER)
    (chunk,) = record.retrieved_context
    assert (chunk.content, chunk.chunk_id) == (DOCUMENTS[0]["content"], "d1")
    assert (record.usage.input_tokens, record.usage.output_tokens) == (7, 3)
    context = top.get_span_context()
    (event,) = [e for e in seen.evaluations if e.evaluation.name == "groundedness_risk"]
    assert event.target.span_id == f"{context.span_id:016x}"
    assert event.target.trace_id == f"{context.trace_id:032x}"
    assert not seen.spans, "others export their spans themselves"


CACHES = {
    "gen_ai": {
        "gen_ai.usage.cache_read.input_tokens": 400, "gen_ai.usage.cache_write.input_tokens": 100,
    },
    "gen_ai of 1.41": {
        "gen_ai.usage.cache_read.input_tokens": 400,
        "gen_ai.usage.cache_creation.input_tokens": 100,
    },
    "strands": {
        "gen_ai.usage.cache_read_input_tokens": 400, "gen_ai.usage.cache_write_input_tokens": 100,
    },
    "pydantic": {
        "gen_ai.usage.details.cache_read_tokens": 400,
        "gen_ai.usage.details.cache_write_tokens": 100,
    },
    "oi": {
        "llm.token_count.prompt_details.cache_read": 400,
        "llm.token_count.prompt_details.cache_write": 100,
    },
    "mlflow": {
        "mlflow.chat.tokenUsage": json.dumps({
            "input_tokens": 1_000, "output_tokens": 10, "total_tokens": 1_010,
            "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100,
        }),
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", CACHES)
def test_what_a_cache_had_and_keeps_has_its_own_price_in_every_dialect(app, dialect):
    """Both are part of the input, and cost what the price list says of them."""
    tokens = {"gen_ai.usage.input_tokens": 1_000, "gen_ai.usage.output_tokens": 10}
    call = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(text("user", QUESTION)),
        "gen_ai.output.messages": json.dumps(text("assistant", ANSWER)),
        **({} if dialect == "mlflow" else tokens), **CACHES[dialect],
    }  # fmt: skip
    with capture(prices={"m": (2.0, 10.0, 0.5, 4.0)}) as seen:
        with app.start_as_current_span("ask", attributes=call):
            pass
        seen.drain()
    (record,) = RECORDS
    assert record.usage.input_tokens == 1_000
    usd = (500 * 2 + 400 * 0.5 + 100 * 4 + 10 * 10) / 1e6
    assert record.usage.cost_usd == pytest.approx(usd)


@pytest.mark.parametrize(
    "names",
    [
        ("gen_ai.usage.audio.input_tokens", "gen_ai.usage.audio.output_tokens"),
        ("llm.token_count.prompt_details.audio", "llm.token_count.completion_details.audio"),
    ],
)
def test_sound_has_its_own_price_in_every_dialect(app, names):
    """Its tokens are part of the input and of the output."""
    call = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-realtime",
        "gen_ai.input.messages": json.dumps(text("user", QUESTION)),
        "gen_ai.output.messages": json.dumps(text("assistant", ANSWER)),
        "gen_ai.usage.input_tokens": 1_000, "gen_ai.usage.output_tokens": 10,
        **dict(zip(names, (400, 4), strict=True)),
    }  # fmt: skip
    with capture() as seen:
        with app.start_as_current_span("ask", attributes=call):
            pass
        seen.drain()
    (record,) = RECORDS
    price = price_of("gpt-realtime")
    sound = 400 * price.input_audio + 4 * price.output_audio
    usd = (600 * price.input + 6 * price.output + sound) / 1e6
    assert record.usage.cost_usd == pytest.approx(usd)


LLM_SPANS = {
    "gen_ai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps(text("user", QUESTION)),
        "gen_ai.output.messages": json.dumps(text("assistant", ANSWER)),
    },
    "gen_ai of old": {
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": QUESTION,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
    },
    "openinference": {
        "openinference.span.kind": "LLM",
        "input.value": "{}",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    },
    "logfire": {
        "gen_ai.request.model": "gpt-4o",
        "request_data": json.dumps(
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": QUESTION},
                ],
                "model": "gpt-4o",
            }
        ),
        "response_data": json.dumps({"message": {"role": "assistant", "content": ANSWER}}),
    },
    "mlflow": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": json.dumps(
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": QUESTION},
                ]
            }
        ),
        "mlflow.spanOutputs": json.dumps(
            {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}
        ),
    },
}


@pytest.mark.parametrize("dialect", LLM_SPANS)
def test_a_lone_model_call_is_scored(app, dialect):
    """Messages and answer of a chat call, whoever wrote them."""
    with capture() as seen:
        with app.start_as_current_span("chat", attributes=LLM_SPANS[dialect]):
            pass
        seen.drain()
    (record,) = RECORDS
    assert record.request == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": QUESTION},
        ]
    }
    assert record.response == ANSWER
    assert record.span_kind == "llm"


def test_the_record_names_the_model_that_was_asked(app):
    """Of the call itself, or of the last one below; MLflow writes its names as JSON."""
    asked = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.llm.model": '"gpt-4o"',
        "mlflow.llm.provider": '"openai"',
    }
    with capture() as seen:
        with app.start_as_current_span("answer", attributes=MLFLOW[0]):
            with app.start_as_current_span("ask", attributes=asked):
                pass
        seen.drain()
    (record,) = RECORDS
    assert record.attributes == {"model_name": "gpt-4o", "model_provider": "openai"}


def test_a_stream_that_logfire_tells_in_two_spans_is_one_record(app):
    """The first ends when the stream begins and has no answer; a failed call has one span only."""
    question = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(text("user", QUESTION)),
        "logfire.span_type": "span",
    }
    told = {
        **question,
        "logfire.span_type": "log",
        "gen_ai.output.messages": json.dumps(text("assistant", ANSWER)),
    }
    with capture() as seen:
        with app.start_as_current_span("Chat Completion", attributes=question):
            pass
        with app.start_as_current_span("streaming response", attributes=told):
            pass
        with app.start_as_current_span("Chat Completion", attributes=question) as failed:
            failed.set_status(StatusCode.ERROR, "no route to the model")
        seen.drain()
    assert [record.response for record in RECORDS] == [ANSWER, None]


STREAMS = [
    "<generator object>",  # as OpenInference writes it for LlamaIndex
    "<async_generator object tokens at 0x7f3c1c2e5b10>",
    "<generator object answer.<locals>.<genexpr> at 0x7f3c1c2e5b10>",
    "<openai.Stream object at 0x7f3c1c2e5b10>",
    "StreamingResponse(response_gen=<generator object g at 0x7f3c1c2e5b10>, source_nodes=[])",
    '{"response_gen": "<generator object>", "source_nodes": [], "response_txt": null}',
    '{"response": "<async_generator object>"}',
]


@pytest.mark.parametrize("output", STREAMS)
@pytest.mark.parametrize("name", ["output.value", "traceloop.entity.output", "mlflow.spanOutputs"])
def test_a_stream_is_no_answer_and_that_of_the_model_below_is(app, output, name):
    """Instrumentations write what Python prints for a stream; the model's span has its text."""
    model = {**OPENINFERENCE[2], "output.value": ANSWER}
    top = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, name: output}
    with capture() as seen:
        with (
            app.start_as_current_span("query", attributes=top),
            app.start_as_current_span("synthesize", attributes=top),
            app.start_as_current_span("chat", attributes=model),
        ):
            pass
        with app.start_as_current_span("query left unread", attributes=top):
            pass
        seen.drain()
    assert [record.response for record in RECORDS] == [ANSWER, None]


def test_what_is_printed_for_a_passage_is_no_passage(app):
    """OpenInference writes it on the inner one of two spans, and the documents on the outer one."""
    inner = {
        "openinference.span.kind": "RETRIEVER",
        "output.value": json.dumps(["<NodeWithScore(node=TextNode(id_=6a13), score=None)>"]),
    }
    with capture() as seen:
        with (
            app.start_as_current_span("query", attributes=OPENINFERENCE[0]),
            app.start_as_current_span("retrieve", attributes=OPENINFERENCE[1]),
            app.start_as_current_span("_retrieve", attributes=inner),
        ):
            pass
        seen.drain()
    (record,) = RECORDS
    assert [chunk.content for chunk in record.retrieved_context] == [DOCUMENTS[0]["content"]]


@pytest.mark.parametrize(
    "answer",
    [
        "It prints <generator object g at 0x7f3c1c2e5b10>.",
        "<b>An object at 0x10</b>",
        "StreamingResponse(gen) is how FastAPI streams.",
        json.dumps({"answer": ANSWER, "stream": "<generator object>"}),
        json.dumps({"verdict": "kept", "client": "<openai.OpenAI object at 0x7f3c1c2e5b10>"}),
    ],
)
def test_an_answer_that_speaks_of_streams_is_one(app, answer):
    """Only a text that is nothing else is left out, and only where there is no answer beside it."""
    with capture() as seen:
        about = {"openinference.span.kind": "CHAIN", "output.value": answer}
        with app.start_as_current_span("query", attributes=about):
            pass
        seen.drain()
    assert [record.response for record in RECORDS] == [ANSWER if ANSWER in answer else answer]


def test_a_call_that_outlives_its_request_is_scored_when_it_ends(app):
    """A handler returns a stream and ends; the model's span ends when the stream was read."""
    with capture() as seen:
        with app.start_as_current_span("GET /answer"):
            late = app.start_span("chat", attributes=LLM_SPANS["gen_ai"])
        seen.drain()
        assert not RECORDS
        late.end()
        seen.drain()
    assert [record.response for record in RECORDS] == [ANSWER]


def test_what_outlives_a_scored_request_is_no_second_record(app):
    """The workflow above it was scored; a late span below only has less to tell."""
    root, _, model = GEN_AI
    with capture() as seen:
        with app.start_as_current_span("answer", attributes=root):
            late = app.start_span("chat", attributes=model)
        late.end()
        seen.drain()
    (record,) = RECORDS
    assert record.span_kind == "agent"


def test_spans_that_are_never_ended_do_not_end_the_scoring(app, monkeypatch):
    """The oldest open ones are given up, and counted."""
    monkeypatch.setattr(source, "MAX_OPEN", 5)
    with capture() as seen:
        leaked = [app.start_span("left unread") for _ in range(10)]
        with app.start_as_current_span("chat", attributes=LLM_SPANS["gen_ai"]):
            pass
        stats = seen.drain()
    assert len(RECORDS) == 1
    assert stats.problems["sources: too many open spans"] == len(leaked) + 1 - 5


def test_messages_in_events_are_read(app):
    """Older instrumentations put the messages on the span as events."""
    with capture() as seen:
        about = {"gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o"}
        with app.start_as_current_span("chat", attributes=about) as span:
            span.add_event("gen_ai.user.message", {"content": QUESTION})
            message = json.dumps({"role": "assistant", "content": ANSWER})
            span.add_event("gen_ai.choice", {"index": 0, "message": message})
        seen.drain()
    (record,) = RECORDS
    assert record.request == {"messages": [{"role": "user", "content": QUESTION}]}
    assert record.response == ANSWER


def test_judges_run_on_spans_of_others(app):
    """The same pipeline: rules, budget, judges."""
    judge = llmeval.LLMJudge("polite", "Is it polite?\n\n{response}")
    with capture(evaluators=[judge], llm=FakeLLM('{"rationale": "r", "rating": "yes"}')) as seen:
        with app.start_as_current_span("chat", attributes=LLM_SPANS["gen_ai"]):
            pass
        seen.drain()
    assert seen.scores("chat")["polite"].value == "yes"


def test_spans_that_speak_of_no_model_are_left_alone(app):
    """Requests, queries and evaluators' own spans are nobody's answer."""
    with capture() as seen:
        with app.start_as_current_span("GET /", attributes={"http.request.method": "GET"}):
            with app.start_as_current_span(
                "judge", attributes={"openinference.span.kind": "EVALUATOR"}
            ):
                pass
        seen.drain()
    assert not RECORDS


def test_our_own_spans_are_not_scored_twice(processor):
    """What comes from our own scope has its scores already."""
    with capture() as seen:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        ours = provider.get_tracer("llmeval_sdk")
        with ours.start_as_current_span("x", attributes=LLM_SPANS["gen_ai"]):
            pass
        seen.drain()
    assert not RECORDS


@pytest.mark.parametrize("exporter", ["own", "global"])
def test_what_is_below_an_evaluated_span_of_ours_is_not_judged_beside_it(
    monkeypatch, processor, collector, exporter
):
    """One answer, one judgement; below a mere step of ours it is scored as anywhere."""
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    provider.add_span_processor(processor)
    app = provider.get_tracer("another-library")
    if exporter == "own":
        ours = OtlpExporter(config.Settings(otlp_endpoint=collector.url))
    else:
        ours = AppOtelExporter(config.Settings(), tracer_provider=provider)
    with capture(exporters=[ours]) as seen:
        with llmeval.workflow("answer"), llmeval.task("step"):
            with app.start_as_current_span("http"):
                with app.start_as_current_span("chat", attributes=LLM_SPANS["gen_ai"]):
                    pass
        with llmeval.task("step"):
            with app.start_as_current_span("chat", attributes=LLM_SPANS["openinference"]):
                pass
        seen.drain()
    assert sorted(record.span_kind for record in RECORDS) == ["llm", "workflow"]


@pytest.mark.parametrize("way", ["force_flush", "shutdown"])
@pytest.mark.parametrize("exporter", ["memory", "the app's provider"])
def test_a_provider_that_is_flushed_or_shut_down_has_delivered_the_scores(processor, way, exporter):
    """An app that knows OpenTelemetry calls nothing of ours before it ends."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    more = [] if exporter == "memory" else [
        AppOtelExporter(config.Settings(), tracer_provider=provider)
    ]  # fmt: skip
    with capture(exporters=more, shutdown_timeout=20.0) as seen:
        tracer = provider.get_tracer("another-library")
        for _ in range(10):
            with tracer.start_as_current_span("chat", attributes=LLM_SPANS["gen_ai"]):
                pass
        assert getattr(provider, way)() in (True, None)
        scored = {
            event.target.span_id
            for event in seen.evaluations
            if event.evaluation.name == "what_was_seen"
        }
    assert len(scored) == 10


@pytest.mark.parametrize("by", ["the processor", "the global provider", "the setting"])
def test_scores_are_of_the_service_that_the_app_s_own_spans_are_of(
    monkeypatch, processor, collector, by
):
    """Its resource describes it to both; a name that our settings give wins."""
    about = Resource.create({"service.name": "estate", "deployment.environment.name": "test"})
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    if by == "the global provider":
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    else:
        provider.add_span_processor(processor)
    if by == "the setting":
        monkeypatch.setenv("OTEL_SERVICE_NAME", "surveyor")
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    if by == "the global provider":
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(response="slate")
    else:
        with provider.get_tracer("t").start_as_current_span("c", attributes=LLM_SPANS["gen_ai"]):
            pass
    assert llmeval.flush(20).complete
    described = collector.log_resources[-1]
    assert described["service.name"] == ("surveyor" if by == "the setting" else "estate")
    assert described["deployment.environment.name"] == "test"
    assert described["telemetry.sdk.name"] == "llmeval_sdk"


def test_a_provider_without_a_name_does_not_hide_the_name_of_the_global_one(
    monkeypatch, app, collector
):
    """An app may trace one library by a provider that nobody described."""
    about = Resource.create({"service.name": "estate"})
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    with app.start_as_current_span("c", attributes=LLM_SPANS["gen_ai"]):
        pass
    assert llmeval.flush(20).complete
    assert collector.log_resources[-1]["service.name"] == "estate"


def test_what_an_app_says_by_openinference_of_user_session_and_tags_is_kept(app, tmp_path):
    """On each of its spans, so that costs by user, sessions and deletions work."""
    openinference = pytest.importorskip(
        "openinference.instrumentation", reason="is no package of every Python's environment"
    )
    path = tmp_path / "traces.db"
    llmeval.configure(exporters=["local"], store=str(path), escalations=[])
    tracer = openinference.OITracer(app, config=openinference.TraceConfig())
    about = {"session_id": "chat-7", "user_id": "ann", "metadata": {"deal": 3}}
    with openinference.using_attributes(**about, tags=["team:roofs", "beta"]):
        with tracer.start_as_current_span("answer", openinference_span_kind="chain"):
            for kind in ("llm", "tool", "retriever"):
                with tracer.start_as_current_span(kind, openinference_span_kind=kind):
                    pass
    assert llmeval.flush(20).complete
    with StoreReader(path) as reader:
        whose = "SELECT session_id, tags, attributes FROM spans"
        spans = list(reader.read(lambda db: db.execute(whose)))
    assert len(spans) == 4
    for session, tags, attributes in spans:
        assert session == "chat-7"
        assert json.loads(tags) == {"user_id": "ann", "team": "roofs", "beta": "true"}
        assert json.loads(attributes)["deal"] == 3


def test_a_flush_that_is_not_done_in_time_says_so(processor):
    """As the protocol of span processors asks."""
    going = threading.Event()

    @llmeval.heuristic
    def slow(record: llmeval.Record) -> float:
        going.wait(20)
        return 1.0

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=[slow]))
    with capture() as seen:
        with provider.get_tracer("t").start_as_current_span("c", attributes=LLM_SPANS["gen_ai"]):
            pass
        assert provider.force_flush(50) is False
        going.set()
        assert provider.force_flush() is True
        seen.drain()
    registry.forget("slow")


def test_an_unsampled_trace_is_not_scored(processor):
    """It is not exported, so its scores would belong to nothing."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    with capture() as seen:
        with provider.get_tracer("t").start_as_current_span("c", attributes=LLM_SPANS["gen_ai"]):
            pass
        seen.drain()
    assert not RECORDS


@pytest.mark.parametrize(
    "odd",
    [
        {"openinference.span.kind": "EMBEDDING", "embedding.embeddings.0.0.text": "x"},
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.0.content": "x"},
        {"openinference.span.kind": "LLM", "llm.invocation_parameters": '["model"]'},
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[[[]]]"},
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '{"messages": 3}'},
        {"openinference.span.kind": "CHAIN", "input.value": "{not json"},
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document": "text"},
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.x.y": "text"},
        {"mlflow.spanType": "7", "mlflow.spanInputs": "null"},
        {"traceloop.span.kind": "workflow", "traceloop.entity.output": "[" * 5000},
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "many"},
    ],
)
def test_odd_attributes_cost_nothing_but_the_reading(app, odd):
    """Nothing is raised, in the app or in the worker; the test kit would show it."""
    with capture() as seen:
        with app.start_as_current_span("x", attributes=odd):
            pass
        stats = seen.drain()
    assert not stats.problems.get("sources")


@pytest.fixture
def kept(app, tmp_path):
    """Return a function that stores one request of an app whose code never mentions us."""

    def run(dialect=GEN_AI, **options):
        path = tmp_path / "own" / "llmeval.db"
        llmeval.configure(store=str(path), **options)
        with app.start_as_current_span("POST /ask") as outer:
            with app.start_as_current_span("answer", attributes=dialect[0]) as top:
                with app.start_as_current_span("find", attributes=dialect[1]):
                    pass
                with app.start_as_current_span("http"):
                    with app.start_as_current_span("ask", attributes=dialect[2]):
                        pass
        stats = llmeval.flush(20)
        return StoreReader(path), top.get_span_context(), outer.get_span_context(), stats

    return run


@pytest.mark.parametrize("redact", [(), ("all",)])
@pytest.mark.parametrize(
    "dialect",
    [GEN_AI, OPENINFERENCE, TRACELOOP, MLFLOW],
    ids=["gen_ai", "oi", "traceloop", "mlflow"],
)
def test_the_store_keeps_the_spans_it_has_scores_of(kept, dialect, redact):
    """Without another exporter the store has the trace: a root, what is below it, and its scores."""
    reader, top, _, stats = kept(dialect, redact=redact)
    with reader:
        spans = reader.trace(f"{top.trace_id:032x}")
        by_name = {span.name: span for span in spans}
        assert set(by_name) == {"answer", "find", "ask"}
        root = by_name["answer"]
        assert root.is_local_root
        assert {by_name["find"].parent_id, by_name["ask"].parent_id} == {root.span_id}
        assert root.span_id == f"{top.span_id:016x}"
        assert root.response == ANSWER
        assert by_name["find"].retrieved_context[0].content == DOCUMENTS[0]["content"]
        assert by_name["ask"].usage.input_tokens == 7
        page = reader.read(lambda c: list_page(c, Query()))
        assert [item.span_id for item in page.items] == [root.span_id]
        assert reader.evaluations_of(root.span_id)
        assert not reader.evaluations_of(by_name["ask"].span_id)
    assert stats.exporters["local"].undelivered == 0
    assert len(RECORDS) == 1


def test_all_that_a_handler_does_is_one_request(app, tmp_path):
    """Two calls below one span that is not kept are listed once; a call alone is a request."""
    path = tmp_path / "own" / "llmeval.db"
    llmeval.configure(store=str(path))
    with app.start_as_current_span("POST /ask") as outer:
        with app.start_as_current_span("first", attributes=GEN_AI[2]):
            pass
        with app.start_as_current_span("second", attributes=GEN_AI[2]):
            pass
    with app.start_as_current_span("alone", attributes=GEN_AI[2]):
        pass
    llmeval.flush(20)
    with StoreReader(path) as reader:
        trace = reader.trace(f"{outer.get_span_context().trace_id:032x}")
        page = reader.read(lambda c: list_page(c, Query(order="oldest")))
    assert {span.parent_id for span in trace} == {f"{outer.get_span_context().span_id:016x}"}
    assert [span.name for span in trace] == ["first", "second"]
    assert [item.name for item in page.items] == ["first", "alone"]


def test_with_scores_only_the_names_of_others_spans_stay_at_home(kept, tmp_path):
    """``capture_content="scores"`` holds for the spans of other libraries that the store keeps."""
    attributes = {**GEN_AI[0], "session.id": "session-of-theirs"}
    reader, top, *_ = kept((attributes, *GEN_AI[1:]), capture_content="scores")
    with reader:
        spans = reader.trace(f"{top.trace_id:032x}")
        assert len(spans) == 3
        assert all(span.name == span.kind and span.session_id is None for span in spans)
        assert all(span.retrieved_context is None for span in spans)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "own").glob("llmeval.db*"))
    for word in (b"session-of-theirs", b"POST /ask", QUESTION.encode()):
        assert word not in stored


def test_a_kept_span_below_ours_has_ours_as_its_parent(app, tmp_path):
    """A mere step of ours and what another library did below it are one trace."""
    path = tmp_path / "own" / "llmeval.db"
    llmeval.configure(store=str(path), otel="own")
    with llmeval.task("step") as step:
        with app.start_as_current_span("chat", attributes=LLM_SPANS["openinference"]) as below:
            pass
    llmeval.flush(20)
    with StoreReader(path) as reader:
        span = reader.span(f"{below.get_span_context().span_id:016x}")
        assert span is not None
        assert span.parent_id in (None, step.span_id)
        assert reader.span(step.span_id) is not None


def test_a_call_that_outlives_its_request_is_kept_too(app, tmp_path):
    """What is handed over later joins the trace that is there."""
    path = tmp_path / "own" / "llmeval.db"
    llmeval.configure(store=str(path))
    with app.start_as_current_span("answer", attributes=GEN_AI[0]) as top:
        late = app.start_span("chat", attributes=GEN_AI[2])
    llmeval.flush(20)
    late.end()
    llmeval.flush(20)
    with StoreReader(path) as reader:
        spans = {
            span.name: span for span in reader.trace(f"{top.get_span_context().trace_id:032x}")
        }
    assert spans["chat"].parent_id == spans["answer"].span_id


def test_where_an_agent_does_the_work_what_is_not_scored_is_counted(app, monkeypatch, tmp_path):
    """The spool holds our own records only, and without a worker nobody reads these spans here."""
    monkeypatch.setenv("LLMEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("LLMEVAL_WORKER", "off")
    for _ in range(3):
        with app.start_as_current_span("agent", attributes=GEN_AI[0]):
            pass
    assert llmeval.flush(5).problems["sources: no_worker"] == 3
    assert RECORDS == []
