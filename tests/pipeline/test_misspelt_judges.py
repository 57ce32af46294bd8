"""A rule of the environment that misspells a judge never makes it run on more than was meant."""

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing


VERDICT = {"rationale": "r", "rating": "yes"}
REQUESTS = 40


@pytest.fixture
def environment(monkeypatch):
    """Set the rules of the environment, and judges that are asked for by name."""

    def names(*, escalation=None, rule=None, evaluators="safety", **more):
        monkeypatch.setenv("LLMEVAL_EVALUATORS", evaluators)
        if escalation is not None:
            entry = {"judge": escalation, "share": 0.025, "by": "groundedness_risk", **more}
            monkeypatch.setenv("LLMEVAL_ESCALATIONS", json.dumps([entry]))
        if rule is not None:
            entry = {"sample_rate": 0.025, "evaluator": rule, **more}
            monkeypatch.setenv("LLMEVAL_SAMPLING_RULES", json.dumps([entry]))

    return names


def answer(name="answer", **span):
    for number in range(REQUESTS):
        with llmeval.workflow(name, request=f"q {number} of {name}", **span) as made:
            made.response = f"a {number}"


def judged(declare=lambda: None, **span):
    """Return how many requests each judge judged, and the details of those that did not run."""
    with testing.capture(llm=testing.FakeLLM(VERDICT), budget=FREE) as seen:
        declare()
        answer(**span)
        stats = seen.drain()
    return dict(stats.judged), {item.evaluator: item.detail for item in seen.not_run}


FREE = llmeval.Budget(calls_per_minute=None, usd_per_day=None)


@pytest.mark.parametrize("kind", ["escalation", "rule"])
@pytest.mark.parametrize("name", ["safty", "saftey", "safetys", "Safety"])
def test_a_misspelt_judge_does_not_run(environment, caplog, kind, name):
    """Both names are said: of the rule, and of the judge that it may mean."""
    environment(**{kind: name})
    by_judge, details = judged()
    assert "safety" not in by_judge
    assert name in details["safety"]
    (line,) = [each for each in caplog.messages if name in each and "not run" in each]
    assert "'safety'" in line


@pytest.mark.parametrize("kind", ["escalation", "rule"])
def test_a_judge_of_another_service_closes_nothing(environment, caplog, kind):
    """Rules are shared between services: a name that is like no judge's is said, and that is all."""
    environment(**{kind: "house_style"})
    assert judged()[0] == {"safety": REQUESTS}
    assert any("'house_style'" in line for line in caplog.messages)


def test_other_judges_go_on(environment):
    """Only those that the rule may mean are closed."""
    environment(rule="safty", evaluators="safety,relevance_to_query")
    assert judged()[0] == {"relevance_to_query": REQUESTS}


def test_a_misspelt_rule_of_some_spans_closes_those(environment):
    """It is as narrow as it would be if it were spelt right."""
    environment(rule="safty", span_name="search")
    assert judged(name="answer")[0] == {"safety": REQUESTS}
    assert judged(name="search")[0] == {}


def test_a_rule_before_it_that_is_spelt_right_counts(environment, monkeypatch):
    """The first rule that matches wins."""
    environment()
    rules = [{"sample_rate": 1, "evaluator": name} for name in ("safety", "safty")]
    monkeypatch.setenv("LLMEVAL_SAMPLING_RULES", json.dumps(rules))
    assert judged()[0] == {"safety": REQUESTS}


@pytest.fixture
def declare():
    """Declare judges of the app, for one test."""
    names = []

    def make(name):
        @llmeval.judge(name=name)
        def own(record, llm):
            return llm.ask("?") is not None

        names.append(name)

    yield make
    for name in names:
        registry.forget(name)


def test_the_escalation_of_a_judge_that_is_declared_later_asks_it_then(environment, declare):
    """And it holds no other judge back any longer, whatever its name."""
    environment(escalation="safty", share=1.0, by=None)
    by_judge, _ = judged(lambda: declare("safty"))
    assert by_judge == {"safty": REQUESTS, "safety": REQUESTS}


def test_the_sampling_rule_of_a_judge_that_is_declared_later_is_about_it_then(environment, declare):
    """Its own rate counts for the judge of that name."""
    environment(rule="safty", sample_rate=0)
    by_judge, details = judged(lambda: declare("safty"), evaluators=["safty"])
    assert by_judge == {"safety": REQUESTS}
    assert details["safty"] == "sample_rate 0"


def test_an_escalation_that_names_nobody_leaves_the_default_one_off(environment):
    """It was written in the place of the default rule, which asks for `context_recall_llm`."""
    environment(escalation="house_style", evaluators="")
    assert judged() == ({}, {})
