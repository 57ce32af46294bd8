"""An Evaluation becomes what Datadog's endpoint takes, and nothing else leaves."""

import json
import math

import pytest

from llmeval_sdk.exporters.otlp.attributes import part_events
from llmeval_sdk.model import Evaluation, EvaluationEvent, Failure, Target, Usage
from llmeval_sdk.plugins.datadog.exporter import UnsendableError, body_of, encode, metric


IDS = {"span_id": "7", "trace_id": "0" * 31 + "9"}


def made(evaluation, *, ids=IDS, label=None):
    event = EvaluationEvent("id", Target(), evaluation, 1_700_000_000_123_456_789)
    return metric(event, label=label or evaluation.name, join_on=ids, app="app", version="4.16.0")


@pytest.mark.parametrize(
    ("value", "kind"), [(0.5, "score"), (1, "score"), (True, "boolean"), ("good", "categorical")]
)
def test_the_type_of_the_value_decides(value, kind):
    """A bool is never a score."""
    found = made(Evaluation("name", value))
    assert found["metric_type"] == kind
    assert found[f"{kind}_value"] == value
    assert type(found[f"{kind}_value"]) is (float if kind == "score" else type(value))
    assert [key for key in found if key.endswith("_value")] == [f"{kind}_value"]


def test_the_whole_metric():
    """Every field, once."""
    evaluation = Evaluation(
        "faithful", 0.5, "acceptable", "two of four", metadata={"tags": {"who": "me"}, "n": 1},
        evaluator_kind="judge", evaluator_version="3", duration=0.25,
        usage=Usage(10, 5, 15, 0.01), inclusion_probability=0.2,
    )  # fmt: skip
    assert made(evaluation) == {
        "label": "faithful", "metric_type": "score", "score_value": 0.5, "ml_app": "app",
        "timestamp_ms": 1_700_000_000_123, "reasoning": "two of four",
        "event_kind": "evaluation", "eval_scope": "span", "join_on": {"span": IDS},
        "tags": [
            "ddtrace.version:4.16.0", "ml_app:app", "evaluator:faithful", "evaluator_kind:judge",
            "evaluator_version:3", "who:me",
        ],
        "metadata": {
            "n": 1, "label": "acceptable", "inclusion_probability": 0.2, "duration_seconds": 0.25,
            "total_tokens": 15, "cost_usd": 0.01,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("evaluation", "assessment"),
    [
        (Evaluation("a", "pass"), "pass"),
        (Evaluation("a", 0.2, "FAIL"), "fail"),
        (Evaluation("a", True), "pass"),
        (Evaluation("a", False), "fail"),
        (Evaluation("a", 0.9, "good"), None),
        (Evaluation("a", "yes"), None),
    ],
)
def test_an_assessment_is_only_ever_pass_or_fail(evaluation, assessment):
    """Datadog refuses any other word."""
    assert made(evaluation).get("assessment") == assessment


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused_with_a_reason(value):
    """One NaN would make the whole request invalid JSON."""
    with pytest.raises(UnsendableError, match="not_finite"):
        made(Evaluation("a", value))


def test_nan_in_metadata_leaves_as_text():
    """The rest of the evaluation still counts."""
    found = made(Evaluation("a", 0.5, metadata={"deep": [{"x": math.nan}]}))
    assert found["metadata"]["deep"] == [{"x": "nan"}]
    json.loads(encode(found), parse_constant=lambda text: pytest.fail(text))


def test_an_evaluation_without_a_span_is_refused_with_a_reason():
    """It is counted, and not sent."""
    with pytest.raises(UnsendableError, match="no_span"):
        made(Evaluation("a", 0.5), ids={"span_id": None, "trace_id": None})


@pytest.mark.parametrize(("label", "category"), [(None, "not_applicable"), ("not_checked",) * 2])
def test_what_has_no_value_is_a_category_of_its_own(label, category):
    """It says why, and leaves the type of the score's label as it is."""
    sent = made(Evaluation("a" * 200, None, label, "there is no passage"))
    assert (sent["label"], sent["categorical_value"]) == ("a" * 191 + "_no_value", category)
    assert sent["reasoning"] == "there is no passage"


def test_a_failure_is_a_category_of_its_own():
    """A chart of scores never sees it, a person searching for errors does."""
    found = made(Evaluation("judge", error=Failure("timeout", "after 60 s")))
    assert (found["label"], found["categorical_value"]) == ("judge_error", "timeout")
    assert found["reasoning"] == "after 60 s"
    assert "assessment" not in found
    assert len(made(Evaluation("x" * 200, error=Failure("e")))["label"]) == 200


def test_feedback_of_a_person_has_its_target_at_the_top():
    """As ddtrace's submit_feedback sends it."""
    human = Evaluation("thumbs", True, metadata={"submitter": {"id": 42}}, evaluator_kind="human")
    found = made(human)
    assert (found["event_kind"], found["span_id"]) == ("feedback", "7")
    assert found["submitter"] == {"id": "42"}
    assert "join_on" not in found
    assert "eval_scope" not in found
    by_session = Evaluation(
        "thumbs", True, metadata={"submitter": {"id": "4"}, "join_on": {"session_id": "s"}},
        evaluator_kind="human",
    )  # fmt: skip
    found = made(by_session, ids={"span_id": None, "trace_id": None})
    assert found["session_id"] == "s"
    assert "span_id" not in found


def test_the_verdict_on_a_session_has_its_scope_and_its_last_span():
    """Its metadata name the session and the pause that it is about."""
    about = {"scope": "session", "session_id": "chat-7", "period": 2}
    sent = made(Evaluation("goal_reached", "yes", metadata=about))
    assert (sent["eval_scope"], sent["join_on"]) == ("session", {"span": IDS})
    assert sent["metadata"]["session_id"] == "chat-7"


def test_an_evaluation_can_join_on_a_tag():
    """Of a span whose ids the app does not know."""
    join = {"tag": {"key": "order", "value": "7"}}
    evaluation = Evaluation("a", 0.5, metadata={"join_on": join, "ml_app": "shop"})
    found = made(evaluation, ids={"span_id": None, "trace_id": None})
    assert found["join_on"] == join
    assert found["ml_app"] == "shop"
    assert "ml_app:shop" in found["tags"]


def test_a_request_holds_its_metrics():
    """The body is what the endpoint reads."""
    body = json.loads(body_of([b'{"a":1}', b'{"b":2}']))
    assert body == {
        "data": {"type": "evaluation_metric", "attributes": {"metrics": [{"a": 1}, {"b": 2}]}}
    }


def test_a_decision_has_its_probability():
    """Beside the rating; a tag says that a decision model gave it."""
    found = made(Evaluation("polite", "yes", evaluator_kind="decision", probability=0.875))
    assert found["categorical_value"] == "yes"
    assert found["metadata"]["probability"] == 0.875
    assert "evaluator_kind:decision" in found["tags"]
    assert "probability" not in made(Evaluation("polite", "yes"))["metadata"]


def test_the_score_of_a_field_has_the_field_as_a_tag():
    """Its label differs from that of the answer, whose score would be replaced otherwise."""
    entry = {"path": "lines[2].amount", "chance": 0.5}
    whole = Evaluation("extraction_risk", 0.5, metadata={"fields": [entry]})
    (event,) = part_events([EvaluationEvent("id", Target(), whole, 5)], fields=True)
    sent = metric(event, label="extraction_risk_field", join_on=IDS, app="app", version="4.16.0")
    assert "field:lines.amount" in sent["tags"]
    assert sent["score_value"] == 0.5
    assert sent["metadata"]["path"] == "lines[2].amount"
