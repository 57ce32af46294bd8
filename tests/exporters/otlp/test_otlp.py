"""What arrives at an OTLP collector, and what becomes of it when the collector misbehaves."""

import json
from time import monotonic

import pytest
from otlp_collector import attributes_of

import llmeval_sdk as llmeval
from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.exporters.otlp import make, names
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Failure, SpanData, Target
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM


COMPLETION = {
    "id": "chatcmpl-1",
    "model": "gpt-4o-2026",
    "choices": [{"message": {"role": "assistant", "content": "Slate."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 2},
}
CHUNKS = [
    {"content": "The roof is of slate.", "doc_uri": "survey.pdf", "chunk_id": "c1", "score": 0.9},
    {"content": "The annex has tiles.", "doc_uri": "annex.pdf", "chunk_id": "c2", "score": 0.4},
]


@llmeval.retrieval
def find(query, top_k):
    return CHUNKS


@llmeval.llm(model_name="gpt-4o", model_provider="openai")
def ask(messages):
    return COMPLETION


@llmeval.tool
def look_up(key):
    return {"value": key}


@llmeval.task
def tidy(text):
    return text.strip()


@llmeval.workflow
def answer(question):
    find(question, top_k=5)
    ask([{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}])
    look_up("roof")
    llmeval.annotate(
        tags={"session_id": "s-1", "user_id": "u-1", "team": "survey"},
        metadata={"tier": 1},
        expected_response="slate",
    )
    return tidy(" Slate. ")


def send(collector, **settings):
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url, **settings)
    answer("Which roof?")
    return runtime.flush(20)


def test_the_environment_alone_turns_it_on(collector, monkeypatch):
    """An endpoint in the standard variable is enough."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=se%20cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "surveyor")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    answer("Which roof?")
    stats = runtime.flush(20)
    assert stats.exporters["otlp"].delivered == stats.exporters["otlp"].created > 0
    path, headers, _ = collector.requests[0]
    assert path == "/v1/traces"
    assert headers["api-key"] == "se cret"
    assert headers["content-encoding"] == "gzip"
    about = collector.resources[0]
    assert about["service.name"] == "surveyor"
    assert about["deployment.environment.name"] == "test"
    assert collector.scopes[0] == ("llmeval_sdk", names.SCHEMA_URL)


def test_what_is_said_of_one_signal_holds_for_it_alone(collector, monkeypatch):
    """Spans with a header of their own, scores plain."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-for=spans")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2500")
    answer("Which roof?")
    runtime.flush(20)
    found = {path: headers for path, headers, _ in collector.requests}
    traces, logs = found["/v1/traces"], found["/v1/logs"]
    assert (traces["content-encoding"], traces["x-for"]) == ("gzip", "spans")
    assert {"content-encoding", "x-for"}.isdisjoint(logs)
    assert runtime.settings().otlp_logs_timeout == 2.5


def test_a_protocol_that_is_not_spoken_is_told(collector, monkeypatch, caplog):
    """With what to do; spans are sent as they can be."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    answer("Which roof?")
    runtime.flush(20)
    assert collector.span("invoke_workflow answer")
    assert "did you mean 'http/protobuf'?" in caplog.text


def test_a_disabled_sdk_sends_nothing(collector, monkeypatch):
    """OTEL_SDK_DISABLED wins over the endpoint."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    answer("Which roof?")
    runtime.flush(20)
    assert not collector.requests


def test_each_kind_has_its_name_kind_and_attributes(collector):
    """Names and attributes are those of the conventions, with the OpenInference twin."""
    send(collector)
    workflow = collector.span("invoke_workflow answer")
    expected = {
        "retrieval find": (3, "RETRIEVER", "retrieval"),
        "chat gpt-4o": (3, "LLM", "chat"),
        "execute_tool look_up": (1, "TOOL", "execute_tool"),
        "tidy": (1, "CHAIN", None),
        "invoke_workflow answer": (1, "CHAIN", "invoke_workflow"),
    }
    for name, (kind, twin, operation) in expected.items():
        span = collector.span(name)
        about = attributes_of(span)
        assert (span.kind, about["openinference.span.kind"]) == (kind, twin)
        assert about.get("gen_ai.operation.name") == operation
        assert span.trace_id == workflow.trace_id
        assert name == "invoke_workflow answer" or span.parent_span_id == workflow.span_id
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    about = attributes_of(workflow)
    assert about["gen_ai.workflow.name"] == "answer"
    assert about["session.id"] == about["gen_ai.conversation.id"] == "s-1"
    assert about["user.id"] == "u-1"
    assert about["llmeval.tag.team"] == "survey"
    assert json.loads(about["metadata"]) == {"tier": 1}
    assert about["llmeval.expected_response"] == "slate"
    assert (about["input.value"], about["output.value"]) == ("Which roof?", "Slate.")
    assert about["output.mime_type"] == "text/plain"


def test_a_retrieval_carries_its_documents_in_both_families(collector):
    """OpenTelemetry's documents, and the form that MLflow shows."""
    send(collector)
    about = attributes_of(collector.span("retrieval find"))
    assert about["gen_ai.retrieval.query.text"] == "Which roof?"
    documents = json.loads(about["gen_ai.retrieval.documents"])
    assert documents[0]["id"] == "c1"
    assert documents[0]["content"] == CHUNKS[0]["content"]
    pages = json.loads(about["output.value"])
    assert pages[1]["page_content"] == CHUNKS[1]["content"]
    assert pages[1]["metadata"]["doc_uri"] == "annex.pdf"


def test_agents_embeddings_and_a_named_source(collector):
    """The remaining kinds; a retrieval is called after the source that it searched."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    with llmeval.agent("surveyor", request="Which roof?") as agent:
        with llmeval.embedding(model_name="small", name="embed", request="Which roof?"):
            pass
        with llmeval.retrieval("find") as step:
            step.retrieved_context = CHUNKS
            llmeval.annotate(step, metadata={"data_source": "surveys", "top_k": 2})
        agent.response = "Slate."
    runtime.flush(20)
    expected = {
        "invoke_agent surveyor": (1, "AGENT", "invoke_agent"),
        "embeddings small": (3, "EMBEDDING", "embeddings"),
        "retrieval surveys": (3, "RETRIEVER", "retrieval"),
    }
    for name, found in expected.items():
        span = collector.span(name)
        about = attributes_of(span)
        assert found == (
            span.kind, about["openinference.span.kind"], about["gen_ai.operation.name"]
        )  # fmt: skip
    assert attributes_of(collector.span("invoke_agent surveyor"))["gen_ai.agent.name"] == "surveyor"
    about = attributes_of(collector.span("retrieval surveys"))
    assert (about["gen_ai.data_source.id"], about["gen_ai.retrieval.top_k"]) == ("surveys", 2)
    assert about["llmeval.span.kind"] == "retrieval"


def test_a_model_call_carries_messages_tokens_and_answer(collector):
    """Messages are JSON strings, the system's apart."""
    send(collector)
    about = attributes_of(collector.span("chat gpt-4o"))
    (turn,) = json.loads(about["gen_ai.input.messages"])
    assert turn == {"role": "user", "parts": [{"type": "text", "content": "Which roof?"}]}
    assert json.loads(about["gen_ai.system_instructions"])[0]["content"] == "Be brief."
    (reply,) = json.loads(about["gen_ai.output.messages"])
    assert (reply["parts"][0]["content"], reply["finish_reason"]) == ("Slate.", "stop")
    assert about["gen_ai.usage.input_tokens"] == 11
    assert about["gen_ai.usage.output_tokens"] == 2
    assert about["gen_ai.response.id"] == "chatcmpl-1"
    assert about["gen_ai.provider.name"] == "openai"
    assert about["output.value"] == "Slate."


def test_a_model_call_carries_cached_and_reasoning_tokens(collector):
    """By the names of the conventions, and by the former one of what was written to a cache."""
    counts = {
        "cache_read_input_tokens": 40, "cache_write_input_tokens": 10.0,
        "reasoning_output_tokens": 5, "time_to_first_token": 1, "retries": 2,
    }  # fmt: skip
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    with llmeval.llm(model_name="gpt-4o") as call:
        call.annotate(metrics=counts, prompt={"id": "ask", "version": "3", "template": "{q}"})
    runtime.flush(20)
    about = attributes_of(collector.span("chat gpt-4o"))
    tokens = {name: value for name, value in about.items() if name.startswith("gen_ai.usage.")}
    assert tokens == {
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_write.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
    }
    assert all(type(value) is int for value in tokens.values())
    assert repr(about["gen_ai.response.time_to_first_chunk"]) == "1.0"
    assert (about["gen_ai.prompt.name"], about["gen_ai.prompt.version"]) == ("ask", "3")
    own = {name: value for name, value in about.items() if name.startswith("llmeval.metric.")}
    assert own == {"llmeval.metric.retries": 2}


def test_numbers_that_are_no_tokens_stay_the_apps(collector):
    """Sums of a workflow, which would count twice, and what no call can have used."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    with llmeval.workflow("answer") as workflow:
        workflow.annotate(metrics={"cache_read_input_tokens": 40})
        with llmeval.llm(model_name="gpt-4o") as call:
            call.annotate(metrics={"cache_read_input_tokens": -1, "reasoning_output_tokens": 1e18})
    runtime.flush(20)
    whole = attributes_of(collector.span("invoke_workflow answer"))
    part = attributes_of(collector.span("chat gpt-4o"))
    assert whole["llmeval.metric.cache_read_input_tokens"] == 40
    assert part["llmeval.metric.cache_read_input_tokens"] == -1
    assert part["llmeval.metric.reasoning_output_tokens"] == 1e18
    assert not any(name.startswith("gen_ai.usage.") for name in (*whole, *part))


def test_a_score_is_a_log_event_on_its_span(collector):
    """With the ids of the target, and flat on the span where the heuristic ran inline."""
    send(collector)
    span = collector.span("invoke_workflow answer")
    log, about = collector.events()["context_relevance"]
    assert log.event_name == "gen_ai.evaluation.result"
    assert (log.trace_id, log.span_id) == (span.trace_id, span.span_id)
    assert about["gen_ai.evaluation.score.value"] == pytest.approx(0.325)
    assert about["gen_ai.evaluation.score.label"] == "investigate"
    assert about["gen_ai.evaluation.target"] == "answer"
    assert about["llmeval.evaluator.kind"] == "code"
    flat = attributes_of(span)
    assert flat["llmeval.score.context_relevance"] == pytest.approx(0.325)


def test_a_failed_evaluator_has_an_error_and_no_score(collector):
    """A failure is a warning, never a zero."""
    judge = llmeval.LLMJudge("polite", "Is it polite?\n\n{response}")
    send(collector, evaluators=[judge], llm=FakeLLM("no verdict at all"))
    log, about = collector.events()["polite"]
    assert log.severity_text == "WARN"
    assert about["error.type"]
    assert "gen_ai.evaluation.score.value" not in about
    assert about["llmeval.evaluator.kind"] == "llm_judge"


def test_a_judges_run_is_its_own_trace_with_one_link(collector):
    """Never a late child of what it judged."""
    judge = llmeval.LLMJudge("polite", "Is it polite?\n\n{response}")
    send(collector, evaluators=[judge], llm=FakeLLM('{"rationale": "r", "rating": "yes"}'))
    judged, run = collector.span("invoke_workflow answer"), collector.span("evaluation polite")
    (link,) = run.links
    assert (link.trace_id, link.span_id) == (judged.trace_id, judged.span_id)
    assert run.trace_id != judged.trace_id
    assert not run.parent_span_id
    assert attributes_of(run)["openinference.span.kind"] == "EVALUATOR"


def test_an_exception_is_a_status_and_an_event(collector):
    """With the type as ``error.type``."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    with pytest.raises(ValueError), llmeval.workflow("broken"):
        raise ValueError("no roof")
    runtime.flush(20)
    span = collector.span("invoke_workflow broken")
    assert (span.status.code, span.status.message) == (2, "no roof")
    assert span.events[0].name == "exception"
    assert attributes_of(span)["error.type"] == "ValueError"


def test_without_content_no_text_leaves(collector):
    """Structure, tokens and scores stay; what was asked and answered does not."""
    send(collector, capture_content=False)
    everything = b"".join(span.SerializeToString() for span in collector.spans)
    everything += b"".join(log.SerializeToString() for log in collector.logs)
    for text in (b"Which roof?", b"Slate", b"slate", b"Be brief"):
        assert text not in everything
    assert attributes_of(collector.span("chat gpt-4o"))["gen_ai.usage.input_tokens"] == 11


# -- delivery ---------------------------------------------------------------------------------------


def test_what_the_server_rejects_is_counted(collector):
    """A good answer may say that some records were not taken."""
    collector.reject = 2
    stats = send(collector).exporters["otlp"]
    assert stats.dropped == {"rejected": 2}
    assert stats.delivered == stats.created - 2
    assert stats.balanced


def test_what_the_server_rejects_is_read_from_json_too(collector):
    """Some collectors answer in JSON whatever they were sent."""
    body = b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}'
    collector.answers = [(200, {"content-type": "application/json"}, body), (200, {}, b"{}")]
    stats = send(collector).exporters["otlp"]
    assert stats.dropped == {"rejected": 2}
    assert stats.delivered == stats.created - 2


@pytest.mark.parametrize(
    ("kind", "body"), [("text/html", b""), ("application/x-protobuf", b"<p>Sign in"), ("", b"OK")]
)
def test_a_good_status_of_something_else_delivers_nothing(collector, kind, body):
    """A sign-in page, a proxy, a wrong address: 200 alone does not say that anything was taken."""
    collector.always = (200, {"content-type": kind}, body)
    stats = send(collector).exporters["otlp"]
    assert stats.dropped == {"not_a_backend": stats.created}
    assert stats.balanced


def test_a_refusal_is_counted_by_its_status_and_not_repeated(collector):
    """A wrong key is no reason to try again."""
    collector.answers = [(401, {}, b"who are you?")]
    stats = send(collector).exporters["otlp"]
    assert stats.dropped == {"http_401": 5}
    assert stats.balanced
    assert [path for path, _, _ in collector.requests] == ["/v1/traces", "/v1/logs"]


@pytest.mark.parametrize(
    ("status", "asked"), [(429, "1"), (502, "0.3"), (503, "0.3"), (504, "0.3")]
)
def test_a_passing_failure_is_tried_again_after_the_time_asked_for(collector, status, asked):
    """Retry-After is honoured, and nothing is sent twice or lost."""
    collector.answers = [(status, {"retry-after": asked}, b"")]
    begun = monotonic()
    stats = send(collector).exporters["otlp"]
    assert monotonic() - begun >= float(asked)
    assert stats.delivered == stats.created
    assert len(collector.spans) == 5


def test_a_failure_between_two_requests_of_a_batch_repeats_only_the_second(collector):
    """The spans were taken; only the scores are sent again."""
    collector.answers = [(200, {}, b""), (503, {"retry-after": "0.1"}, b"")]
    stats = send(collector).exporters["otlp"]
    assert stats.delivered == stats.created
    paths = [path for path, _, _ in collector.requests]
    assert paths == ["/v1/traces", "/v1/logs", "/v1/logs"]


def test_a_batch_that_is_too_large_is_split(collector):
    """413 halves it until it fits; a record that never fits is counted."""
    collector.max_body = 2_500
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url)
    for number in range(8):
        with llmeval.task(f"step {number}", request="x" * 600):
            pass
    with llmeval.task("huge", request="x" * 9_000):
        pass
    stats = runtime.flush(20).exporters["otlp"]
    assert sorted(span.name for span in collector.spans) == [f"step {n}" for n in range(8)]
    assert stats.dropped == {"http_413": 1}
    assert stats.balanced


@pytest.mark.parametrize("way", ["hang", "trickle"])
def test_a_server_that_never_finishes_its_answer_is_left_at_the_timeout(collector, way):
    """One deadline holds for a request as a whole, and the caller never waits.

    The server goes on for as long as the test.
    """
    if way == "hang":
        collector.hang.set()
    else:
        collector.trickle = True
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url, otlp_timeout=0.3)
    answer("Which roof?")
    stats = runtime.shutdown(2.0)
    collector.hang.set()
    assert stats.exporters["otlp"].unknown + stats.exporters["otlp"].undelivered > 0
    assert stats.exporters["otlp"].balanced


def test_a_dead_endpoint_holds_nobody_up():
    """Refused connections: the exit does not wait for another try, and the account says so."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint="http://127.0.0.1:9")
    answer("Which roof?")
    stats = runtime.shutdown(1.0)
    account = stats.exporters["otlp"]
    assert account.delivered == 0
    assert account.balanced
    assert set(account.dropped) <= {"unreachable"}


def test_a_server_that_closes_kept_connections_loses_nothing(collector):
    """The first request on a closed connection is made again on a new one."""
    send(collector)
    collector.answers = [(200, {"connection": "close"}, b"")]
    answer("Which roof?")
    runtime.flush(20)
    answer("Which roof?")
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.delivered == stats.created


def test_only_the_signal_with_an_endpoint_is_sent(collector):
    """A traces endpoint alone: scores stay here, and are not counted as lost."""
    llmeval.configure(exporters=["otlp"], otlp_traces_endpoint=f"{collector.url}/v1/traces")
    answer("Which roof?")
    stats = runtime.flush(20).exporters["otlp"]
    assert {path for path, _, _ in collector.requests} == {"/v1/traces"}
    assert stats.delivered == stats.created


def test_odd_values_are_written(collector):
    """Lone surrogates, huge numbers, foreign ids and no target at all."""
    from llmeval_sdk.config import Settings
    from llmeval_sdk.exporters.otlp import make

    exporter = make(Settings(otlp_endpoint=collector.url, otlp_headers={"x": Secret("y")}))
    span = SpanData(
        "0" * 31 + "1", "0" * 15 + "1", None, "odd \ud800", "workflow", 1, 2,
        request="\ud800", response={"n": float("nan")}, metrics={"big": 1 << 70, "small": -1},
        error=Failure("E", "\ud800"),
    )  # fmt: skip
    events = (
        EvaluationEvent("1", Target(), Evaluation("a", 1.0), 1),
        EvaluationEvent("2", Target("datadog", "12345"), Evaluation("b", "yes"), 1),
    )
    assert not exporter.export(Batch((span,), events))
    assert len(collector.spans) == 1
    assert [log.trace_id for log in collector.logs] == [b"", b""]
    assert attributes_of(collector.spans[0])["llmeval.metric.small"] == -1
    exporter.close(1.0)


def test_a_decision_carries_its_probability(collector):
    """As an attribute of the event; the score is that of the rating."""
    exporter = make(from_environment({}, otlp_endpoint=collector.url))
    evaluation = Evaluation("polite", "yes", evaluator_kind="decision", probability=0.875)
    target = Target("a" * 32, "b" * 16, "answer", "workflow")
    exporter.export(Batch((), (EvaluationEvent("id", target, evaluation, 1),)))
    exporter.flush(10.0)
    _, about = collector.events()["polite"]
    assert about["llmeval.evaluation.probability"] == 0.875
    assert about["llmeval.evaluator.kind"] == "decision_model"
    assert about["gen_ai.evaluation.score.label"] == "yes"
    exporter.close(1.0)
