"""Prices: of the app's own calls and the judges', from code or the environment, checked at once."""

import math

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config, testing
from llmeval_sdk.errors import ConfigurationError


USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}


def cost_of_a_call(model, usage=USAGE, **configuration):
    """Make one call of a model in a traced app, and return what its span says it cost."""
    with testing.capture(**configuration) as captured:

        @llmeval.llm(model_name=model)
        def ask():
            return {"choices": [], "usage": usage}

        ask()
        captured.drain()
    (span,) = captured.spans
    return span.usage.cost_usd


def test_a_call_of_the_app_has_its_cost_where_the_price_is_known():
    """The list that comes along is enough for well-known models."""
    assert cost_of_a_call("gpt-4o-2024-08-06") == pytest.approx(2.5 + 1.0)


def test_own_prices_are_the_apps_too():
    """What configure() was given counts for every call, and wins over the list."""
    prices = {"my-model": (0.5, 10), "gpt-4o": [1, 0]}
    assert cost_of_a_call("my-model", prices=prices) == pytest.approx(1.5)
    assert cost_of_a_call("gpt-4o", prices=prices) == pytest.approx(1.0)


def test_an_unknown_price_stays_unknown():
    """No cost is better than a guessed one."""
    assert cost_of_a_call("my-model") is None


def test_what_the_app_says_of_its_cost_wins():
    """A gateway's own figure is not estimated anew."""
    assert cost_of_a_call("gpt-4o", {**USAGE, "cost_usd": 0.25}) == 0.25


@pytest.mark.parametrize("text", ["my-model=0.5,10;gpt-4o=1,0", '{"my-model": [0.5, 10]}'])
def test_the_environment_can_set_a_price(monkeypatch, text):
    """One variable, in short or as JSON."""
    monkeypatch.setenv("LLMEVAL_PRICES", text)
    assert cost_of_a_call("my-model") == pytest.approx(1.5)


def test_a_models_name_may_hold_an_equals_sign_and_slashes():
    """The last equals sign separates the price."""
    settings = config.from_environment({"LLMEVAL_PRICES": " a/b=c=1,2 ; "})
    assert settings.prices == {"a/b=c": (1.0, 2.0)}


BAD = [
    {"m": 1.0},
    {"m": (1.0,)},
    {"m": (1.0, 2.0, 3.0)},
    {"m": ("1", "2")},
    {"m": (-1.0, 2.0)},
    {"m": (math.nan, 2.0)},
    {"m": (True, 2.0)},
    {"m": {"input": 1.0, "output": 2.0}},
    {"m": None},
    {"": (1.0, 2.0)},
    {3: (1.0, 2.0)},
    [("m", 1.0, 2.0)],
    "m=1,2",
]


@pytest.mark.parametrize("table", BAD, ids=repr)
def test_a_malformed_table_is_refused_when_it_is_given(table):
    """A person is watching configure(); every judge would fail on it later."""
    with pytest.raises(ConfigurationError, match="prices: "):
        llmeval.configure(prices=table)


@pytest.mark.parametrize(
    "text", ["m", "m=1", "m=1,2,3", "m=a,b", "m=-1,2", "=1,2", "{", "[1]", '{"m": 1}', "m=nan,1"]
)
def test_a_malformed_variable_is_one_line_and_no_price(text):
    """The app goes on with the list that comes along."""
    problems = []
    settings = config.from_environment({"LLMEVAL_PRICES": text}, problems=problems)
    assert settings.prices is None
    assert len(problems) == 1
    assert problems[0].startswith("LLMEVAL_PRICES=")


def test_offline_judges_have_the_prices_of_the_environment(monkeypatch):
    """`llmeval evaluate` can say what judging cost."""
    monkeypatch.setenv("LLMEVAL_PRICES", "fake=1000000,0")
    rows = [{"request": "q", "response": "a"}]
    report = llmeval.evaluate(rows, evaluators=["relevance_to_query"], llm=testing.FakeLLM())
    usage = report.rows[0].evaluations["relevance_to_query"].usage
    assert usage.input_tokens > 0
    assert usage.cost_usd == pytest.approx(usage.input_tokens)
