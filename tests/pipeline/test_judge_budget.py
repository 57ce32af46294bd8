"""Budgeted escalation through the whole pipeline: what is spent, and that averages stay honest."""

import random
from statistics import mean

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.testing import FakeLLM, capture, fixed_ids


RECORDS = 3_000
BUDGET = llmeval.Budget(calls_per_minute=None, usd_per_day=None)


@pytest.fixture
def risk():
    """A heuristic that reads the risk from the record, and a judge that knows the truth."""

    @llmeval.heuristic(needs=["response"])
    def told_risk(record):
        return record.attributes["risk"]

    @llmeval.judge(needs=["response"])
    async def truth(record, llm):
        return 0.0 if record.attributes["bad"] else 1.0

    yield told_risk
    registry.forget("told_risk")
    registry.forget("truth")


def answer(record_risk, *, bad=False, name="answer", response="r"):
    with llmeval.workflow(name, request="q") as span:
        span.annotate(response=response, attributes={"risk": record_risk, "bad": bad})


def traffic(seed=5):
    """Answers of which 15 % are bad, with risks that say so only partly."""
    rng = random.Random(seed)
    for _ in range(RECORDS):
        bad = rng.random() < 0.15
        yield min(max(rng.gauss(0.6 if bad else 0.4, 0.15), 0.0), 1.0), bad


def test_a_fifth_is_judged_and_the_weighted_mean_is_that_of_all_traffic(risk):
    """19 to 21 % of thousands of records, where the plain mean of the judged is far too low."""
    escalation = Escalation("truth", share=0.2, by="told_risk", control_rate=0.02)
    traffic_bad = []
    given = {"escalations": [escalation], "llm": FakeLLM("yes"), "budget": BUDGET}
    with fixed_ids(), capture(**given) as seen:
        for number, (score, bad) in enumerate(traffic()):
            traffic_bad.append(bad)
            answer(score, bad=bad, response=f"answer {number}")
            if number % 500 == 499:
                seen.drain()
        stats = seen.drain()
    judged = [e.evaluation for e in seen.evaluations if e.evaluation.name == "truth"]
    assert 0.19 <= len(judged) / RECORDS <= 0.21
    assert stats.not_run["truth"] == {"not_escalated": RECORDS - len(judged)}
    weights = [1 / each.inclusion_probability for each in judged]
    total = sum(w * each.value for w, each in zip(weights, judged, strict=True))
    good = 1 - mean(traffic_bad)
    assert abs(total / sum(weights) - good) < 0.06
    assert mean(each.value for each in judged) < good - 0.15
    caught = sum(each.value == 0 for each in judged) / sum(traffic_bad)
    assert caught > 0.4


def test_a_budget_stands_beside_the_plain_rule(risk):
    """Two escalations of one judge: what either says is judged, with the greater chance."""
    rules = [
        Escalation("truth", when=llmeval.above("told_risk", 0.9)),
        Escalation("truth", share=0.2, by="told_risk"),
    ]
    with capture(escalations=rules, llm=FakeLLM("yes"), budget=BUDGET) as seen:
        for _ in range(40):
            answer(0.95)
        seen.drain()
    judged = [e.evaluation for e in seen.evaluations if e.evaluation.name == "truth"]
    assert len(judged) == 40
    assert {each.inclusion_probability for each in judged} == {1.0}


def test_a_heuristic_that_only_an_escalation_reads_runs(risk):
    """A score that does not attach by itself is computed for the judge that goes by it."""

    @llmeval.heuristic(name="told_risk", needs=["response"], automatic=False)
    def asked_for(record):
        return record.attributes["risk"]

    escalation = Escalation("truth", share=0.2, by="told_risk")
    with capture(escalations=[escalation], llm=FakeLLM("yes")) as seen:
        answer(0.25)
        seen.drain()
    assert seen.scores("answer")["told_risk"].value == 0.25


GROUNDED = [{"content": "The roof is slate."}]


def groundable():
    with llmeval.workflow("answer", request="roof?") as span:
        span.annotate(response="It is slate.", retrieved_context=GROUNDED)


def test_the_environment_gives_groundedness_a_budget(monkeypatch):
    """LLMEVAL_JUDGE_SHARE=1 judges every answer, as a budget that goes by groundedness_risk."""
    monkeypatch.setenv("LLMEVAL_JUDGE_SHARE", "1")
    with capture(llm=FakeLLM({"rationale": "said so", "rating": "yes"})) as seen:
        groundable()
        seen.drain()
    scores = seen.scores("answer")
    assert scores["groundedness"].value == "yes"
    assert scores["groundedness"].metadata["why"].startswith("groundedness_risk")
    assert "groundedness_risk" in scores


def test_extractions_get_the_judge_of_extractions(monkeypatch):
    """LLMEVAL_JUDGE_SHARE=1 asks about the value of an extraction, and about no empty one."""
    monkeypatch.setenv("LLMEVAL_JUDGE_SHARE", "1")
    verdict = {"rationale": "fits", "problem": "none", "right_value": "", "rating": "yes"}
    with capture(llm=FakeLLM(verdict), escalations=[]) as seen:
        for name, value in (("full", "slate"), ("empty", None)):
            with llmeval.workflow(name, request="roof?") as span:
                span.annotate(
                    response=value,
                    value=value,
                    extractions=[{"value": "slate", "chunk_number": 1}] if value else [],
                    retrieved_context=GROUNDED,
                    field_config={"name": "roof"},
                )
        seen.drain()
    scores = seen.scores("full")
    assert scores["extraction_correctness"].metadata["why"].startswith("extraction_risk")
    assert "groundedness" not in scores
    assert not {"extraction_correctness", "groundedness"} & set(seen.scores("empty"))


def test_a_budget_without_a_judge_model_does_nothing(monkeypatch):
    """Money needs a model that was named: the share alone adds no judge."""
    monkeypatch.setenv("LLMEVAL_JUDGE_SHARE", "0.2")
    with capture() as seen:
        groundable()
        seen.drain()
    assert "groundedness" not in {**seen.scores(), **seen.reasons()}


def test_a_restart_goes_on_with_the_scores_of_the_store(risk, tmp_path):
    """The first record of a new process is ranked among those of the last one."""
    given = {
        "escalations": [Escalation("truth", share=0.2, by="told_risk", control_rate=0.02)],
        "llm": FakeLLM("yes"),
        "budget": BUDGET,
        "store": str(tmp_path / "store.db"),
    }
    with capture(exporters=["local"], **given) as seen:
        for number in range(100):
            answer(number / 100)
        before = seen.drain().problems
    with capture(exporters=["local"], **given) as seen:
        answer(0.99)
        answer(0.98, name="another")
        stats = seen.drain()
    (first,) = (e.evaluation for e in seen.evaluations if e.target.span_name == "answer" and e.evaluation.name == "truth")  # fmt: skip
    assert first.inclusion_probability == 1.0
    assert "in the top" in first.metadata["why"]
    assert stats.problems == before  # which the process counts, also those of other tests


def test_a_store_that_cannot_be_read_costs_only_the_warm_start(risk, tmp_path):
    """It is counted, and everything else goes on."""
    path = tmp_path / "store.db"
    path.write_text("not a database" * 100)
    escalation = Escalation("truth", share=1, by="told_risk")
    given = {"escalations": [escalation], "llm": FakeLLM("yes"), "store": str(path)}
    with capture(exporters=["local"], raise_again=False, **given) as seen:
        answer(0.5)
        stats = seen.drain()
    assert stats.problems.get("warm start", 0) == 1
    assert seen.scores("answer")["truth"].value == 1.0
