"""The real Ragas in its child process, against a judge model whose verdicts are known."""

import pytest
from ragas_model import answer

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


ANSWER = "The tower is old. The tower is high. The tower is green."
CONTEXTS = ("useful: the tower is old.", "something else", "useful: the tower is high.")
EXPECTED = {"expected_response": "The tower is old. The tower is blue."}


def test_faithfulness_is_the_share_of_faithful_statements(score):
    """Two of three statements stand in the contexts; the third is named."""
    found = score("ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS)["ragas_faithfulness"]
    assert found.value == pytest.approx(2 / 3)
    assert found.error is None
    assert found.metadata["disagreements"] == [
        {"answer_quote": "The tower is green.", "reason": "by rule"}
    ]
    assert found.metadata["definition"] == "faithful statements / statements"
    assert found.metadata["ragas"] == "0.4.3"


def test_context_precision_is_useful_contexts_over_contexts(score):
    """Datadog's share and Ragas' mean of precision@k have their own names, and differ."""
    found = score(
        "ragas_context_precision", "ragas:context_utilization", answer=ANSWER, contexts=CONTEXTS
    )
    assert found["ragas_context_precision"].value == pytest.approx(2 / 3)
    assert found["ragas:context_utilization"].value == pytest.approx((1 + 2 / 3) / 2)


def test_answer_relevancy_is_the_mean_cosine(score):
    """Equal words give 1, half of them a half, an evasive answer 0."""
    name = "ragas_answer_relevancy"
    same = score(name, question="alpha beta", answer="Q: alpha beta")[name]
    half = score(name, question="alpha beta", answer="Q: alpha gamma")[name]
    evasive = score(name, question="alpha beta", answer="unsure Q: alpha beta")[name]
    assert same.value == pytest.approx(1.0)
    assert half.value == pytest.approx(0.5)
    assert evasive.value == 0.0
    assert evasive.metadata["noncommittal"] is True


def test_faithfulness_without_any_context_judges_against_nothing(score):
    """An empty list of contexts is no failure, and supports nothing."""
    found = score("ragas_faithfulness", answer=ANSWER, contexts=())
    assert found["ragas_faithfulness"].value == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("faithfulness", 2 / 3),
        ("context_precision", (1 + 2 / 3) / 2),
        ("context_precision_without_reference", (1 + 2 / 3) / 2),
        ("context_recall", 1 / 2),
        ("context_relevance", 1.0),
        ("response_groundedness", 1.0),
        ("factual_correctness", 0.4),
        ("noise_sensitivity", 0.0),
        ("exact_match", 0.0),
        ("semantic_similarity", None),
    ],
)
def test_metrics_of_ragas_go_by_their_names(score, name, value):
    """Their columns come from the record; their values are Ragas' own."""
    (found,) = score(f"ragas:{name}", answer=ANSWER, contexts=CONTEXTS, expected=EXPECTED).values()
    assert found.error is None
    assert 0 <= found.value <= 1
    assert value is None or found.value == pytest.approx(value, abs=0.01)


def test_every_run_is_a_trace_of_its_own_with_its_calls_below(judge):
    """Tagged as Datadog tags it, with the tokens of each call, and never evaluated itself."""
    seen = judge("ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS)
    run = seen.span("ragas_faithfulness")
    below = [span for span in seen.spans if span.parent_id == run.span_id]
    assert run.tags["runner.integration"] == "ragas"
    assert [span.kind for span in below] == ["llm", "llm"]
    assert all(span.tags["runner.integration"] == "ragas" for span in below)
    assert all(span.usage.total_tokens > 0 for span in below)
    assert {event.target.span_name for event in seen.evaluations} == {"flow"}


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("malformed", "malformed"),
        ("error", "unavailable"),
        ("unauthorized", "unauthorized"),
        ("rate_limited", "rate_limited"),
        ("truncated", "truncated"),
    ],
)
@pytest.mark.parametrize("name", ["ragas_faithfulness", "ragas:context_relevance"])
def test_a_failing_model_is_an_error_and_never_a_score(score, name, behaviour, error):
    """Also where Ragas itself swallows the failure and gives NaN."""
    with JudgeServer(default=behaviour) as server:
        found = score(name, answer=ANSWER, contexts=CONTEXTS, judge_base_url=server.base_url)
    assert found[name].value is None
    assert found[name].error.type == error


def test_a_server_that_asks_for_patience_gets_it(score):
    """A 429 is retried as often as by the judges of our own, and every request is counted."""
    with JudgeServer(answer, script=["rate_limited", "rate_limited"], retry_after=0.1) as server:
        found = score(
            "ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS, judge_base_url=server.base_url
        )
        assert found["ragas_faithfulness"].error is None
        assert len(server.requests) == 4


def test_a_blank_passage_is_none(score):
    """Context precision leaves it out, as it leaves out an empty one."""
    found = score("ragas_context_precision", answer=ANSWER, contexts=(*CONTEXTS, "  "))
    assert len(found["ragas_context_precision"].metadata["verdicts"]) == len(CONTEXTS)


def test_a_model_without_statements_is_an_error(score):
    """Zero of zero is no score; Ragas gives NaN."""
    with JudgeServer(lambda request: {"statements": []}) as server:
        for name in ("ragas_faithfulness", "ragas:faithfulness"):
            found = score(name, answer=ANSWER, contexts=CONTEXTS, judge_base_url=server.base_url)
            assert (found[name].value, found[name].error.type) == (None, "malformed")


def test_a_verdict_that_is_neither_yes_nor_no_is_an_error(score):
    """A model that rates with 7 is not understood."""
    with JudgeServer(lambda request: {"reason": "", "verdict": 7}) as server:
        found = score("ragas_context_precision", judge_base_url=server.base_url)
    assert found["ragas_context_precision"].error.type == "malformed"


def test_a_model_that_hangs_is_a_timeout(judge):
    """The child says so in time, and stays alive for the next job."""
    with JudgeServer(default="hang") as server:
        seen = judge("ragas_faithfulness", judge_base_url=server.base_url, judge_timeout=5.0)
    assert seen.scores()["ragas_faithfulness"].error.type == "timeout"
    assert seen.reasons() == {"ragas_faithfulness": "timeout"}


def test_a_malformed_answer_is_not_paid_for_twice(score):
    """Ragas' own ten attempts are off."""
    with JudgeServer(default="malformed") as server:
        score("ragas_faithfulness", judge_base_url=server.base_url)
        assert 1 <= server.calls <= 4


def test_a_server_in_trouble_is_not_asked_for_ever(score):
    """Each step of our ladder is tried three times, and no more."""
    with JudgeServer(default="error") as server:
        score("ragas_faithfulness", judge_base_url=server.base_url)
        assert 3 <= server.calls <= 8


def test_fenced_answers_are_read(score):
    """A code fence around the JSON costs nothing."""
    with JudgeServer(lambda request: '```json\n{"reason": "", "verdict": 1}\n```') as server:
        found = score("ragas_context_precision", judge_base_url=server.base_url)
    assert found["ragas_context_precision"].value == 1.0


def test_offline_gives_the_same_scores(model):
    """The same judge under ``evaluate()``."""
    from llmeval_sdk.judges.models import OpenAILLM

    rows = [
        {
            "request": "q",
            "response": ANSWER,
            "retrieved_context": [{"content": c} for c in CONTEXTS],
        }
    ]
    report = llmeval.evaluate(
        rows, evaluators=["ragas_faithfulness"], llm=OpenAILLM("m", base_url=model.base_url)
    )
    assert report.rows[0].evaluations["ragas_faithfulness"].value == pytest.approx(2 / 3)
