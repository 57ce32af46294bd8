"""The same app in every mode of ddtrace: what arrives is asserted whole."""

import pytest


MODES = ("agent", "no-apm", "agentless")
AUTOMATIC = ("ddtrace.version", "env", "service", "version", "git")


def tags_of(span):
    pairs = (tag.split(":", 1) for tag in span["tags"])
    return {key: value for key, value in pairs if not key.startswith(AUTOMATIC)}


@pytest.fixture(scope="module", params=MODES)
def arrived(request, agent, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return agent.run("answer.py", "--flush", mode=request.param, folder=folder)


def test_spans_have_our_names_kinds_and_nesting(arrived):
    """Every span of ours is one of ddtrace's, nested the same way, in one trace per request."""
    root = arrived.span("answer")
    below = ["find", "embed", "look_up", "stream", "ask"]
    assert arrived.tree(root) == ("answer", *below)
    kinds = {span["name"]: span["meta"]["span"]["kind"] for span in arrived.spans}
    assert kinds == {
        "answer": "workflow", "find": "retrieval", "embed": "embedding", "look_up": "tool",
        "stream": "task", "ask": "llm", "failing": "agent",
    }  # fmt: skip
    assert {arrived.span(name)["trace_id"] for name in below} == {root["trace_id"]}
    assert arrived.span("failing")["trace_id"] != root["trace_id"]
    for name in below:
        child = arrived.span(name)
        assert root["start_ns"] <= child["start_ns"]
        assert child["start_ns"] + child["duration"] <= root["start_ns"] + root["duration"] + 2_000


def test_a_retrieval_arrives_with_its_documents(arrived):
    """Documents are captured from the return value, which ddtrace's own decorator leaves out."""
    meta = arrived.span("find")["meta"]
    assert meta["input"] == {"value": "What is the roof made of?"}
    assert meta["output"]["documents"] == [
        {"text": "The roof is slate.", "name": "d.pdf p. 1", "id": "c1", "score": 0.9},
        {"text": "The barn is old.", "name": "e.pdf", "id": "c2", "score": 0.1},
    ]


def test_an_llm_span_arrives_with_messages_prompt_model_and_tokens(arrived):
    """Both sides of the call are messages; NaN among the metrics stays behind."""
    span = arrived.span("ask")
    meta = span["meta"]
    plain = [{key: turn[key] for key in ("role", "content")} for turn in meta["input"]["messages"]]
    assert plain == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the roof made of?"},
    ]
    said = [{key: turn[key] for key in ("role", "content")} for turn in meta["output"]["messages"]]
    assert said == [{"role": "assistant", "content": "slate"}]
    prompt = meta["input"]["prompt"]
    assert (prompt["id"], prompt["template"]) == ("p1", "{{question}}")
    assert prompt["variables"] == {"question": "roof?", "context": "slate"}
    assert prompt["_dd_context_variable_keys"] == ["context"]
    assert (meta["model_name"], meta["model_provider"]) == ("gpt-4o", "openai")
    tokens = {"input_tokens": 11, "output_tokens": 2, "total_tokens": 13}
    assert span["metrics"] == {**tokens, "total_cost": pytest.approx(4.75e-05)}


def test_a_workflow_arrives_with_tags_session_and_metadata(arrived):
    """Metadata is the app's, and what of ours has no field of its own."""
    span = arrived.span("answer")
    assert span["meta"]["input"] == {"value": "What is the roof made of?"}
    assert span["meta"]["output"] == {"value": "slate"}
    assert span["session_id"] == "session-1"
    assert {"team": "roofs", "ml_app": "roofs", "error": "0"}.items() <= tags_of(span).items()
    metadata = span["meta"]["metadata"]
    assert (metadata["field"], metadata["weight"]) == ("roof", "inf")
    assert metadata["extractions"][0]["evidence"] == "The roof is slate."
    assert arrived.span("find")["session_id"] == "session-1"


def test_generators_embeddings_and_tools_arrive_with_their_output(arrived):
    """What was yielded is joined; vectors are described; structures are JSON."""
    assert arrived.span("stream")["meta"]["output"] == {"value": "slate"}
    assert arrived.span("embed")["meta"]["output"] == {"value": "1 vector of 2 numbers"}
    assert arrived.span("embed")["meta"]["input"]["documents"] == [
        {"text": "What is the roof made of?"}
    ]
    assert arrived.span("look_up")["meta"]["output"] == {"value": '{"found": "roof"}'}


def test_an_error_arrives_with_type_message_and_stack(arrived):
    """As ddtrace's own decorators send it."""
    span = arrived.span("failing")
    assert span["status"] == "error"
    error = span["meta"]["error"]
    assert (error["type"], error["message"]) == ("builtins.ValueError", "no roof")
    assert error["stack"].startswith("Traceback (most recent call last):")
    assert 'raise ValueError("no roof")' in error["stack"]


def test_every_evaluation_arrives_on_its_span(arrived):
    """Each value has Datadog's type, and the ids of the span it belongs to."""
    root = arrived.span("answer")
    found = {}
    for each in arrived.evaluations:
        if each.get("join_on") == {
            "span": {"span_id": root["span_id"], "trace_id": root["trace_id"]}
        }:
            found[each["label"]] = each
            assert each["event_kind"] == "evaluation"
            assert each["eval_scope"] == "span"
            assert each["ml_app"] == "roofs"
            assert isinstance(each["timestamp_ms"], int)
    assert found["context_relevance"]["metric_type"] == "score"
    assert found["context_relevance"]["score_value"] == 0.27
    assert found["mentions_slate"]["boolean_value"] is True
    assert found["mentions_slate"]["assessment"] == "pass"
    assert found["semantic_validation"]["categorical_value"] == "pass"
    assert found["semantic_validation"]["assessment"] == "pass"
    assert "reasoning" in found["groundedness_risk"]
    assert found["tone"]["categorical_value"] == "friendly"
    assert "evaluator_kind:heuristic" in found["context_relevance"]["tags"]
    assert "evaluator_version:1" in found["context_relevance"]["tags"]
    assert "ml_app:roofs" in found["context_relevance"]["tags"]


def test_a_failed_evaluator_is_seen_and_never_a_score(arrived):
    """Its failure is a category of its own; NaN is such a failure."""
    root = arrived.span("answer")
    error = arrived.evaluation("broken_error", on=root)
    assert (error["metric_type"], error["categorical_value"]) == ("categorical", "KeyError")
    assert error["reasoning"] == "'no such thing'"
    assert arrived.evaluation("endless_error", on=root)["categorical_value"] == "malformed"
    assert not [each for each in arrived.evaluations if each["label"] in ("broken", "endless")]


def test_submitted_scores_and_feedback_arrive_as_ddtrace_sends_them(arrived):
    """The names and arguments of ddtrace's two functions work."""
    root = arrived.span("answer")
    own = arrived.evaluation("own_score", on=root)
    assert (own["metric_type"], own["score_value"]) == ("score", 0.25)
    assert (own["assessment"], own["reasoning"]) == ("fail", "because")
    assert own["timestamp_ms"] == 1_700_000_000_000
    assert "who:app" in own["tags"]
    assert own["metadata"]["n"] == 1
    thumbs = arrived.evaluation("thumbs")
    assert thumbs["event_kind"] == "feedback"
    assert "join_on" not in thumbs
    assert (thumbs["span_id"], thumbs["submitter"]) == (root["span_id"], {"id": "u1"})


def test_the_account_equals_what_arrived(arrived):
    """Delivered is what the agent has; nothing is dropped or lost."""
    total = len(arrived.spans) + len(arrived.evaluations)
    assert f"created {total} delivered {total} dropped {{}}" in arrived.output
    assert arrived.code == 0
