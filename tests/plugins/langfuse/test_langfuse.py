"""What Langfuse is sent, when, and what becomes of it; every request is checked by the far end."""

import json

import pytest
from langfuse_server import PUBLIC, SECRET, Invalid, check, langfuse_server

import llmeval_sdk as llmeval
from llmeval_sdk.config import from_environment
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import (
    Batch,
    Evaluation,
    EvaluationEvent,
    Failure,
    Prompt,
    SpanData,
    Target,
    Usage,
)
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.langfuse.exporter import LangfuseExporter, _RecentSpans


TRACE, SPAN = "a" * 32, "b" * 16
TARGET = Target(TRACE, SPAN, "answer", "workflow")
KEYS = {"langfuse_public_key": PUBLIC, "langfuse_secret_key": SECRET}


@pytest.fixture
def langfuse():
    """Run Langfuse's stand-in."""
    with langfuse_server() as running:
        yield running


def exporter(langfuse, **options):
    return LangfuseExporter(from_environment({}, langfuse_url=langfuse.url, **KEYS, **options))


def span(kind="workflow", parent=None, **more):
    return SpanData(TRACE, SPAN, parent, "answer", kind, 1, 2_000_000_000, "q", "a", **more)


def event(name="polite", value=1.0, target=TARGET, serial="", time_ns=5, **more):
    more.setdefault("evaluator_kind", "judge")
    evaluation = Evaluation(name, value, **more)
    return EvaluationEvent(f"{target.span_id}-{name}{serial}", target, evaluation, time_ns)


def test_the_environment_alone_sends_spans_and_scores(langfuse, monkeypatch):
    """By the names of Langfuse's own library."""
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "langfuse")
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)
    monkeypatch.setenv("LANGFUSE_HOST", langfuse.url)
    monkeypatch.setenv("LANGFUSE_TRACING_ENVIRONMENT", "staging")
    monkeypatch.setenv("LANGFUSE_RELEASE", "v7")
    with llmeval.workflow("answer", request="Which roof?", session_id="s-1") as workflow:
        workflow.response = "Slate."
        llmeval.annotate(tags={"user_id": "u-1", "team": "survey"}, metadata={"tier": 1})
        llmeval.submit_evaluation(label="nice", value="yes", reasoning="It is short.")
    stats = runtime.flush(20).exporters["langfuse"]
    assert stats.balanced
    assert stats.delivered == stats.created > 0
    sent = langfuse.spans["invoke_workflow answer"]
    assert sent["langfuse.observation.type"] == "chain"
    assert sent["langfuse.trace.name"] == "answer"
    assert (sent["input.value"], sent["output.value"]) == ("Which roof?", "Slate.")
    assert (sent["session.id"], sent["user.id"]) == ("s-1", "u-1")
    assert "team:survey" in sent["langfuse.trace.tags"]
    assert json.loads(sent["langfuse.observation.metadata"]) == {"tier": 1}
    assert langfuse.resource["langfuse.environment"] == "staging"
    assert langfuse.resource["langfuse.release"] == "v7"
    score = langfuse.score("nice")
    assert (score["traceId"], score["observationId"]) == (sent["trace"], sent["id"])
    assert (score["value"], score["dataType"]) == ("yes", "CATEGORICAL")
    assert score["comment"] == "It is short."
    assert score["environment"] == "staging", "else the score is not among those of its span"


@pytest.mark.parametrize(
    ("outcome", "value", "data_type"),
    [
        ({"value": 0.25}, 0.25, "NUMERIC"),
        ({"value": True}, 1, "BOOLEAN"),
        ({"value": False}, 0, "BOOLEAN"),
        ({"value": "yes"}, "yes", "CATEGORICAL"),
        ({"value": "x" * 900}, "x" * 500, "CATEGORICAL"),
        ({"value": ""}, "(empty)", "CATEGORICAL"),
        ({"value": None}, "not applicable", "CATEGORICAL"),
        ({"value": float("nan")}, "nan", "CATEGORICAL"),
        (
            {"value": None, "error": Failure("timeout", "no answer")},
            "error: timeout",
            "CATEGORICAL",
        ),
    ],
)
def test_an_outcome_has_the_type_that_its_value_has(langfuse, outcome, value, data_type):
    """What is no result is a word, so that no mean counts it."""
    sender = exporter(langfuse, otel="global")
    assert not sender.export(Batch((), (event(**outcome),)))
    score = langfuse.score("polite")
    assert (score["value"], score["dataType"]) == (value, data_type)
    sender.close(1.0)


def test_what_was_rated_and_why_comes_along(langfuse):
    """The rationale as the comment; ratings of chunks, model, cost and chance in the metadata."""
    rated = event(
        "on_topic", 0.5, explanation="One of two.", usage=Usage(10, 2, 12, 0.001),
        inclusion_probability=0.05, evaluator_version="2",
        metadata={"ratings": ["yes", "no"], "rationales": ["r", "s"], "model": "luna", "odd": float("inf")},
    )  # fmt: skip
    sender = exporter(langfuse)
    assert not sender.export(Batch((span(),), (rated,)))
    score = langfuse.score("on_topic")
    assert score["comment"] == "One of two."
    assert score["metadata"] == {
        "evaluator_kind": "judge", "evaluator_version": "2", "inclusion_probability": 0.05,
        "span_name": "answer", "ratings": ["yes", "no"], "rationales": ["r", "s"], "model": "luna",
        "odd": "Infinity", "usage": {"input_tokens": 10, "output_tokens": 2}, "cost_usd": 0.001,
    }  # fmt: skip
    sender.close(1.0)


def test_a_score_that_comes_again_is_the_same_score(langfuse):
    """Its id and its time follow from its span, so that Langfuse keeps it once."""
    for time_ns in (5, 9):
        sender = exporter(langfuse)
        assert not sender.export(Batch((span(),), (event(value=time_ns / 10, time_ns=time_ns),)))
        sender.close(1.0)
    assert langfuse.score("polite")["value"] == 0.9
    assert langfuse.score("polite")["id"] == f"{TRACE}-{SPAN}-polite"


def test_what_may_be_said_twice_is_kept_twice(langfuse):
    """Two users' thumbs on one answer, and a judge beside a decision model of its name."""
    decided = event("safe", "yes", serial="-decision", evaluator_kind="decision", probability=0.9)
    thumbs = [
        event("thumbs", True, serial=f"-{number}", evaluator_kind="human") for number in (1, 2)
    ]
    sender = exporter(langfuse)
    assert not sender.export(Batch((span(),), (event("safe", "no"), decided, *thumbs)))
    assert len(langfuse.scores) == 4
    assert {score["metadata"]["evaluator_kind"] for score in langfuse.scores.values()} == {
        "judge", "decision", "human",
    }  # fmt: skip
    sender.close(1.0)


def test_feedback_of_a_user_is_a_score_with_the_users_words(langfuse):
    """Given with the ids that the app handed out, in another request."""
    llmeval.configure(exporters=["langfuse"], langfuse_url=langfuse.url, **KEYS)
    with llmeval.workflow("answer", request="q"):
        ids = llmeval.export_span()
    llmeval.submit_feedback(label="thumbs", value=False, span=ids, reasoning="Wrong roof.")
    runtime.flush(20)
    score = langfuse.score("thumbs")
    assert (score["value"], score["dataType"]) == (0, "BOOLEAN")
    assert score["comment"] == "Wrong roof."
    assert score["observationId"] == langfuse.spans["invoke_workflow answer"]["id"]
    assert score["metadata"]["evaluator_kind"] == "human"


def test_feedback_may_name_a_trace_a_session_or_a_span_alone(langfuse):
    """Langfuse wants the trace of a span, which is known of recent ones."""
    llmeval.configure(exporters=["langfuse"], langfuse_url=langfuse.url, **KEYS)
    with llmeval.workflow("answer", request="q"):
        ids = llmeval.export_span()
    llmeval.submit_feedback(label="of_trace", value=1.0, trace_id=ids["trace_id"])
    llmeval.submit_feedback(label="of_session", value=1.0, session_id="s-1")
    llmeval.submit_feedback(label="of_span", value=1.0, span_id=ids["span_id"])
    llmeval.submit_feedback(label="of_nothing", value=1.0, feedback_join_key="k")
    stats = runtime.flush(20).exporters["langfuse"]
    assert stats.dropped == {"no_target": 1}
    assert langfuse.score("of_trace")["traceId"] == ids["trace_id"]
    assert "observationId" not in langfuse.score("of_trace")
    assert langfuse.score("of_session")["sessionId"] == "s-1"
    assert langfuse.score("of_span")["traceId"] == ids["trace_id"]
    assert langfuse.score("of_span")["observationId"] == ids["span_id"]


def test_only_so_many_spans_are_remembered():
    """The memory of recent spans is bounded."""
    spans = _RecentSpans()
    for number in range(_RecentSpans.MAX_SPANS + 5):
        spans.note(SpanData(TRACE, f"{number:016x}", None, "a", "task", 1, 2))
    assert spans.trace_of(f"{4:016x}") is None
    assert spans.trace_of(f"{5:016x}") == TRACE


def test_the_verdict_on_a_session_is_a_score_of_the_session(langfuse):
    """One for each of its pauses, whoever delivers it."""
    sender = exporter(langfuse)
    for period in (1, 2, 2):
        about = {"scope": "session", "session_id": "s-1", "period": period}
        last = Target(TRACE, f"{period}" * 16)
        assert not sender.export(Batch((), (event("goal", 1.0, last, metadata=about),)))
    scores = list(langfuse.scores.values())
    assert [score["sessionId"] for score in scores] == ["s-1", "s-1"]
    assert not any("traceId" in score for score in scores)
    sender.close(1.0)


def test_a_call_of_a_model_has_its_cost_and_prompt(langfuse):
    """Langfuse reads tokens, cost and prompt by names of its own."""
    prompt = Prompt(id="extract", version="3", template="Answer {question}")
    usage = Usage(11, 2, 13, 0.002)
    llm = span("llm", "c" * 16, usage=usage, prompt=prompt, model_name="gpt-4o")
    sender = exporter(langfuse)
    assert not sender.export(Batch((llm,)))
    sent = langfuse.spans["chat gpt-4o"]
    assert sent["langfuse.observation.type"] == "generation"
    assert json.loads(sent["langfuse.observation.cost_details"]) == {"total": 0.002}
    tokens = json.loads(sent["langfuse.observation.usage_details"])
    assert tokens == {"input": 11, "output": 2, "total": 13}
    assert sent["langfuse.observation.prompt.name"] == "extract"
    assert sent["langfuse.observation.prompt.version"] == 3
    assert (sent["gen_ai.usage.input_tokens"], sent["gen_ai.usage.output_tokens"]) == (11, 2)
    assert "langfuse.trace.name" not in sent, "the root's name is the trace's"
    sender.close(1.0)


def test_a_request_below_another_service_names_its_trace(langfuse):
    """Langfuse would list a trace without a name: the service that called is not sent there."""
    sender = exporter(langfuse)
    assert not sender.export(Batch((span(parent="c" * 16, outside_parent=True),)))
    assert langfuse.spans["invoke_workflow answer"]["langfuse.trace.name"] == "answer"
    sender.close(1.0)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {
                "cache_read_input_tokens": 40, "cache_write_input_tokens": 10,
                "reasoning_output_tokens": 5,
            },
            {
                "input": 50, "output": 15, "input_cached_tokens": 40, "input_cache_creation": 10,
                "output_reasoning_tokens": 5, "total": 120,
            },
        ),
        (
            {"cache_read_input_tokens": 1_000, "cache_write_input_tokens": 10},
            {"input": 0, "output": 20, "input_cached_tokens": 100, "total": 120},
        ),
        (
            {"cache_read_input_tokens": -1, "reasoning_output_tokens": float("nan")},
            {"input": 100, "output": 20, "total": 120},
        ),
    ],
)  # fmt: skip
def test_parts_of_the_tokens_do_not_overlap(langfuse, counts, expected):
    """Langfuse adds them up, so cached and reasoning tokens are taken out of the others."""
    sender = exporter(langfuse)
    call = span("llm", "c" * 16, usage=Usage(100, 20, 120), metrics=counts, model_name="gpt-4o")
    assert not sender.export(Batch((call,)))
    sent = langfuse.spans["chat gpt-4o"]
    assert json.loads(sent["langfuse.observation.usage_details"]) == expected
    sender.close(1.0)


def test_sums_are_not_counted_twice(langfuse):
    """A workflow's usage is the sum of its calls, which Langfuse adds up itself."""
    sender = exporter(langfuse)
    assert not sender.export(Batch((span(usage=Usage(11, 2, 13, 0.002)),)))
    sent = langfuse.spans["invoke_workflow answer"]
    assert "langfuse.observation.cost_details" not in sent
    assert "langfuse.observation.usage_details" not in sent
    assert "gen_ai.usage.input_tokens" not in sent
    sender.close(1.0)


def test_the_apps_own_provider_may_send_the_spans(langfuse):
    """Such as Langfuse's own library: then only scores are sent."""
    sender = exporter(langfuse, otel="global")
    assert not sender.export(Batch((span(),), (event(),)))
    assert [path for path, _ in langfuse.requests] == ["/api/public/scores"]
    sender.close(1.0)


def test_langfuse_3_gets_its_scores_one_by_one():
    """It refuses a list; what was learnt from that is not asked again."""
    with langfuse_server(3) as langfuse:
        sender = exporter(langfuse)
        names = [f"score_{number}" for number in range(5)]
        assert not sender.export(Batch((span(),), tuple(map(event, names))))
        assert {score["name"] for score in langfuse.scores.values()} == set(names)
        before = len(langfuse.requests)
        assert not sender.export(Batch((), tuple(map(event, names))))
        assert len(langfuse.requests) == before + 5
        assert len(langfuse.scores) == 5
        sender.close(1.0)


def test_scores_go_in_requests_that_langfuse_takes(langfuse):
    """A megabyte each: the stand-in refuses a larger one."""
    events = tuple(event(f"score_{n}", metadata={"text": "é" * 5_000}) for n in range(300))
    sender = exporter(langfuse)
    assert not sender.export(Batch((), events))
    assert len(langfuse.scores) == 300
    assert 2 < len(langfuse.requests) < 10
    sender.close(1.0)


def test_what_langfuse_takes_only_in_part_is_counted(langfuse):
    """It says how many scores of a list it rejected, but not which."""
    partial = {"accepted": 1, "rejected": 2, "errors": [{"message": "no such config"}]}
    langfuse.answers = [(207, partial)]
    sender = exporter(langfuse)
    events = (event("a"), event("b"), event("c"))
    assert sender.export(Batch((), events)) == {"rejected": 2}
    sender.close(1.0)


@pytest.mark.parametrize(
    "answer",
    [[], 3, {"rejected": "many"}, {"rejected": -4, "errors": []}, {"rejected": 1, "errors": 7}],
)
def test_an_answer_that_makes_no_sense_raises_nothing(langfuse, answer):
    """A list or a number is counted as another server's answer."""
    langfuse.answers = [(202, answer)]
    sender = exporter(langfuse)
    refused = sender.export(Batch((), (event(),)))
    assert refused == ({} if isinstance(answer, dict) else {"not_a_backend": 1})
    sender.close(1.0)


@pytest.mark.parametrize("status", [429, 503])
def test_what_may_pass_is_sent_again_and_nothing_twice(langfuse, status):
    """The spans were taken; only the scores are asked for again."""
    langfuse.answers = [None, (status, {"message": "slow down"})]
    sender = exporter(langfuse)
    batch = Batch((span(),), (event(),))
    with pytest.raises(ExportError) as caught:
        sender.export(batch)
    assert (caught.value.retryable, caught.value.delivered) == (True, 1)
    assert not sender.export(batch)
    paths = [path for path, _ in langfuse.requests]
    assert paths == ["/api/public/otel/v1/traces", "/api/public/scores", "/api/public/scores"]
    sender.close(1.0)


def test_wrong_keys_are_counted_and_told_with_what_to_check(langfuse, caplog):
    """A key of another region is the usual reason."""
    llmeval.configure(
        exporters=["langfuse"], langfuse_url=langfuse.url, langfuse_public_key="pk-lf-9",
        langfuse_secret_key=SECRET,
    )  # fmt: skip
    with llmeval.workflow("answer", request="q"):
        pass
    stats = runtime.flush(20).exporters["langfuse"]
    assert set(stats.dropped) == {"http_401"}
    assert stats.balanced
    assert "check LANGFUSE_BASE_URL" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("missing", KEYS)
def test_missing_keys_are_told_at_configure(missing):
    """With the variables to set."""
    keys = {name: key for name, key in KEYS.items() if name != missing}
    with pytest.raises(ConfigurationError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"):
        llmeval.configure(exporters=["langfuse"], **keys)


@pytest.mark.parametrize("path", ["", "/", "/api/public/otel", "/api/public/otel/v1/traces"])
def test_the_address_may_be_that_of_the_otlp_endpoint(langfuse, path):
    """As another exporter is told it."""
    sender = LangfuseExporter(from_environment({}, langfuse_url=langfuse.url + path, **KEYS))
    assert not sender.export(Batch((span(),), (event(),)))
    assert langfuse.score("polite")
    sender.close(1.0)


@pytest.mark.parametrize(
    ("named", "sent"),
    [("Prod EU", "prod-eu"), ("langfuse-x", "app-langfuse-x"), ("x" * 60, "x" * 40)],
)
def test_an_environment_is_named_as_langfuse_takes_it(langfuse, named, sent):
    """Spans and scores alike; by default it is the deployment environment of the resource."""
    sender = exporter(langfuse, resource_attributes={"deployment.environment.name": named})
    assert not sender.export(Batch((span(),), (event(),)))
    assert langfuse.resource["langfuse.environment"] == sent
    assert langfuse.score("polite")["environment"] == sent
    sender.close(1.0)


def test_a_score_of_nothing_is_refused_and_counted(langfuse):
    """A score needs a trace or a session."""
    llmeval.configure(exporters=["langfuse"], langfuse_url=langfuse.url, **KEYS)
    llmeval.submit_evaluation(label="nice", value=1.0)
    stats = runtime.flush(10).exporters["langfuse"]
    assert stats.dropped == {"no_target": 1}
    assert stats.balanced


VALID = {"id": "1", "traceId": "t", "name": "n", "value": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        {"value": "high"}, {"value": True}, {"traceId": ""}, {"sessionId": "s"}, {"odd": 1},
        {"dataType": "BOOLEAN", "value": 0.5}, {"dataType": "CATEGORICAL"}, {"environment": "Prod"},
        {"timestamp": "2026-11-23T00:00:00"}, {"metadata": []},
    ],
)  # fmt: skip
def test_the_stand_in_refuses_what_langfuse_refuses(change):
    """Else it would check nothing."""
    check(VALID)
    with pytest.raises(Invalid):
        check({**VALID, **change})


@pytest.mark.parametrize("version", ["9" * 5_000, "9" * 30, "v7", ""])
def test_a_version_that_is_no_number_of_langfuse_costs_no_span(langfuse, version):
    """Python refuses to read a number of so many digits, and no server could hold it."""
    prompt = Prompt(id="roofs", version=version)
    assert not exporter(langfuse).export(Batch((span("llm", prompt=prompt),)))
    (sent,) = langfuse.spans.values()
    assert sent["langfuse.observation.prompt.name"] == "roofs"
    assert "langfuse.observation.prompt.version" not in sent
