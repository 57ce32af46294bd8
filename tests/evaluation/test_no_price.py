"""A model of unknown price under a limit in dollars that the app has set is not asked."""

import logging

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.evaluation.budget import DECISION_BUDGET, Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter, Unlimited


VERDICT = {"rationale": "r", "rating": "yes"}


def judged(budget=None, *, tags=None, requests=5, **options):
    """Return how many requests were judged by a model of unknown price, and the reasons of others."""
    model = testing.FakeLLM(VERDICT)
    budgets = {} if budget is None else {"budget": budget}
    with testing.capture(
        evaluators=["safety"], escalations=[], llm=model, **budgets, **options
    ) as seen:
        for number in range(requests):
            with llmeval.workflow("answer", request=f"q {number}", tags=tags or {}) as span:
                span.response = f"a {number}"
        stats = seen.drain()
    assert len(model.calls) == stats.judged.get("safety", 0)
    return len(model.calls), dict(stats.not_run.get("safety", {}))


SET = {
    "all judges": Budget(usd_per_day=0.001),
    "as much as the default": Budget(usd_per_day=5.0),
    "this judge": Budget(judges={"safety": Budget(usd_per_day=1)}),
    "requests of a tenant": Budget(
        usd_per_day=None, groups=[Budget(usd_per_day=1, where={"tag:tenant": "acme"})]
    ),
    "each tenant": Budget(groups=[Budget(usd_per_day=1, per="tag:tenant")]),
    "beside a limit of tokens": Budget(usd_per_day=1, tokens_per_minute=1_000_000),
}


@pytest.mark.parametrize("limit", SET)
def test_a_limit_in_dollars_that_is_set_needs_a_price(limit):
    """Nothing is asked, and each judgement is counted as `no_price`."""
    assert judged(SET[limit], tags={"tenant": "acme"}) == (0, {"no_price": 5})


@pytest.mark.parametrize("price", [(0, 0), (0.01, 0.01)])
def test_with_a_price_the_judge_runs(price):
    """One of zero says that the model costs nothing."""
    assert judged(Budget(usd_per_day=1), prices={"fake": price}) == (5, {})


NOT_SET = {
    "the default budget": None,
    "other limits": Budget(calls_per_minute=100, tokens_per_minute=1_000_000),
    "no limit": Budget(usd_per_day=None),
    "another judge": Budget(judges={"groundedness": Budget(usd_per_day=1)}),
    "another tenant": Budget(groups=[Budget(usd_per_day=1, where={"tag:tenant": "globex"})]),
    "calls of each tenant": Budget(groups=[Budget(calls_per_minute=100, per="tag:tenant")]),
}


@pytest.mark.parametrize("limit", NOT_SET)
def test_where_nobody_limits_dollars_the_judge_runs(limit):
    """Under the default limit, that of tokens stands in for the dollars."""
    assert judged(NOT_SET[limit], tags={"tenant": "acme"}) == (5, {})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LLMEVAL_BUDGET_USD_PER_DAY", "5"),
        ("LLMEVAL_BUDGET_USD_PER_DAY", "0.001"),
        ("LLMEVAL_BUDGET_GROUPS", '[{"usd_per_day": 0.5, "per": "tag:tenant"}]'),
    ],
)
def test_a_limit_of_the_environment_counts_as_set(monkeypatch, variable, text):
    """And so does a price of the environment."""
    monkeypatch.setenv(variable, text)
    assert judged() == (0, {"no_price": 5})
    monkeypatch.setenv("LLMEVAL_PRICES", "fake=0,0")
    assert judged() == (5, {})


def test_the_log_says_how_to_set_the_price(caplog):
    """Once, with the name of the model, and what to write where it costs nothing."""
    with caplog.at_level(logging.WARNING, logger="llmeval_sdk"):
        judged(Budget(usd_per_day=1))
    (line,) = [each.getMessage() for each in caplog.records if "no_price" in each.getMessage()]
    assert "no price of fake is known" in line
    assert "LLMEVAL_PRICES='name=in,out'" in line
    assert "'name=0,0' where it costs nothing" in line


def test_the_breaker_learns_nothing_of_a_call_that_is_not_made():
    """More refusals than the breaker bears leave it closed."""
    assert judged(Budget(usd_per_day=1), requests=20) == (0, {"no_price": 20})


def test_decisions_have_a_limit_of_their_own():
    """It is apart from that of the judges; a default needs no price, one that is set does."""
    groups = [Budget(usd_per_day=1, per="tag:tenant")]
    for own, needs_a_price in ((DECISION_BUDGET, False), (Budget(usd_per_day=1.0), True)):
        limiter = BudgetLimiter(Budget(usd_per_day=1, groups=groups), apart={"decisions": own})
        assert limiter.limits_dollars("decisions", {"tenant": "acme"}) is needs_a_price
        assert limiter.limits_dollars("safety")


def test_a_run_without_a_budget_needs_no_price():
    """Offline, where nobody gave one."""
    assert not Unlimited().limits_dollars("safety")
