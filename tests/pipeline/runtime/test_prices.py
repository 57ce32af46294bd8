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
    {"m": (1.0, 2.0, 3.0, 4.0, 5.0)},
    {"m": ("1", "2")},
    {"m": (-1.0, 2.0)},
    {"m": (math.nan, 2.0)},
    {"m": (True, 2.0)},
    {"m": {"input": 1.0, "output": 2.0}},
    {"m": None},
    {"": (1.0, 2.0)},
    {3: (1.0, 2.0)},
    [("m", 1.0, 2.0)],
    "m",
]


@pytest.mark.parametrize("table", BAD, ids=repr)
def test_a_malformed_table_is_refused_when_it_is_given(table):
    """A person is watching configure(); every judge would fail on it later."""
    with pytest.raises(ConfigurationError, match="prices="):
        llmeval.configure(prices=table)


@pytest.mark.parametrize(
    "text",
    ["m", "m=1", "m=1,2,3,4,5", "m=a,b", "m=-1,2", "=1,2", "{", "[1]", '{"m": 1}', "m=nan,1"],
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


MIXED = {"mine": (1.0, 0.0), "gpt-4o": (2.0, 0.0)}
"""USD per million tokens: two models of one request."""


def answer_with_two_models(question="q"):
    """Call two models of known price and one of unknown price below a workflow."""

    @llmeval.workflow
    def answer(question):
        for model in ("mine", "gpt-4o", "who knows"):
            with llmeval.llm(model, name="call") as span:
                span.annotate(metrics={"input_tokens": 1_000_000, "output_tokens": 0})
        return "a"

    return answer(question)


class Spending:
    """A heuristic that keeps what it saw of a record's usage."""

    name, kind, version, needs = "spending", "heuristic", "1", ()
    automatic = inline = False

    def __init__(self):
        """Have seen nothing."""
        self.seen = []

    def evaluate(self, record):
        """Keep the usage, and score nothing."""
        self.seen.append(record.usage)


def test_a_workflows_record_sums_what_its_models_cost():
    """Each call by the price of its own model; what is unknown adds nothing."""
    spending = Spending()
    with testing.capture(evaluators=[spending], prices=MIXED) as captured:
        answer_with_two_models()
        captured.drain()
    (usage,) = spending.seen
    assert usage.input_tokens == 3_000_000
    assert usage.cost_usd == pytest.approx(3.0)


def test_a_row_of_an_app_under_evaluation_sums_it_too():
    """`evaluate(model=…, prices=…)` says what the app's calls cost."""
    report = llmeval.evaluate(
        [{"request": "q"}],
        model=answer_with_two_models,
        evaluators=["latency_seconds"],
        prices=MIXED,
    )
    assert report.rows[0].record.usage.cost_usd == pytest.approx(3.0)


def test_a_trace_as_a_column_sums_it_too():
    """The prices of the run count for the calls that a trace tells."""
    call = {"kind": "llm", "parent_id": "1", "start_ns": 1, "end_ns": 2, "model_name": "mine"}
    usage = {"input_tokens": 500_000, "output_tokens": 0}
    spans = [
        {"span_id": "1", "kind": "workflow", "start_ns": 0, "end_ns": 3, "response": "a"},
        {**call, "span_id": "2", "usage": usage},
        {**call, "span_id": "3", "usage": usage, "model_name": "gpt-4o"},
    ]
    rows = [{"request": "q", "trace": {"spans": spans}}]
    report = llmeval.evaluate(rows, evaluators=["latency_seconds"], prices=MIXED)
    assert report.rows[0].record.usage.cost_usd == pytest.approx(1.5)


def test_a_stored_request_keeps_the_sum(tmp_path):
    """What the store and an export tell of a workflow has the cost of the calls below it."""
    from llmeval_sdk.cli import main
    from llmeval_sdk.pipeline import runtime

    store, out = tmp_path / "own" / "llmeval.db", tmp_path / "day.jsonl"
    with runtime.isolated():
        llmeval.configure(exporters=["local"], store=str(store), prices=MIXED)
        answer_with_two_models()
        assert llmeval.flush(10).complete
    assert main(["export", "--store", str(store), "--out", str(out)]) == 0
    report = llmeval.evaluate(str(out), evaluators=["latency_seconds"])
    assert report.rows[0].record.usage.cost_usd == pytest.approx(3.0)
