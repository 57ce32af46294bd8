"""The figures of decisions count what arrives, and their simulations follow their inputs."""

import argparse

import httpx2
import pytest

from benchmarks import decision_service, decisions, loopback
from benchmarks.measures import Table
from benchmarks.quality import decided
from benchmarks.quality.decided import Inputs
from llmeval_sdk.pipeline import runtime


@pytest.fixture
def table():
    return Table()


def test_one_request_and_the_budget_are_counted_by_the_server(table):
    """A server in a process of its own counts one request for five judges, and not one too many."""
    with runtime.isolated(), decision_service.running() as url:
        decisions.one_request(table, url)
        decisions.exact_budget(table, url, calls=24)
        assert decision_service.asked(url) == 1 + 24
    assert table.missed == []


def test_the_bare_loop_sends_what_decisions_send():
    """Its bodies are those of the wire, each of another record, and the load server answers all."""
    first, second = decisions.bodies(2)
    assert len(first["questions"]) == len(decisions.JUDGES) == 5
    assert first["state"].keys() == second["state"].keys()
    assert first["state"] != second["state"]
    with decision_service.running() as url:
        reply = httpx2.post(f"{url}/systemone", json=first).raise_for_status().json()
    assert reply["answers"].keys() == first["questions"].keys()
    with loopback.running(0.0, body=reply) as url:
        assert httpx2.post(f"{url}/systemone", json=second).json() == reply


def shares(inputs, **bounds):
    """Return the USD per request, the share of calls, and of bad ones caught, of each way."""
    found, bad = decided.ways(inputs, **bounds)
    count = inputs.requests
    return [(way.usd / count, way.judged / count, way.caught / bad, way.false) for way in found]


def test_a_cascade_that_is_never_certain_is_the_judge_model_on_all():
    """It says the same, and pays for both."""
    inputs = Inputs(requests=2_000)
    everything, _, _, cascade = shares(inputs, low=0.0, high=1.0)
    decision, judgement = decided.prices(inputs)
    assert cascade[1:] == everything[1:]
    assert cascade[0] == pytest.approx(decision + judgement)


def test_a_cascade_that_is_always_certain_is_the_decision_alone():
    inputs = Inputs(requests=2_000)
    _, _, alone, cascade = shares(inputs, low=0.5, high=0.5, control=0.0)
    assert cascade == alone


def test_accuracies_and_prices_are_what_was_given():
    """A model right nine times in ten catches nine bad ones in ten; prices are per million."""
    inputs = Inputs(
        requests=20_000, bad=0.5, decision_accuracy=0.8, judge_accuracy=0.9, decision_price=1.0,
        judge_price_in=2.0, judge_price_out=10.0, tokens_in=1_000, tokens_out=100,
    )  # fmt: skip
    everything, some, alone, _ = shares(inputs)
    assert everything[2] == pytest.approx(0.9, abs=0.015)
    assert alone[2] == pytest.approx(0.8, abs=0.015)
    assert some[2] == pytest.approx(0.18, abs=0.015)
    assert everything[0] == pytest.approx(0.003)
    assert some[0] == pytest.approx(0.0006, rel=0.05)
    assert alone[0] == pytest.approx(0.001)


def test_perfect_models_catch_everything():
    inputs = Inputs(requests=2_000, decision_accuracy=1.0, judge_accuracy=1.0)
    everything, _, alone, cascade = shares(inputs)
    for way in (everything, alone, cascade):
        assert way[2:] == (1.0, 0)


def test_the_simulation_says_that_it_is_one(capsys):
    """With the inputs of the command line beside it."""
    parser = argparse.ArgumentParser()
    decided.add_inputs(parser)
    decided.cascade(parser.parse_args(["--bad", "0.25", "--requests", "500"]))
    printed = capsys.readouterr().out
    assert "A SIMULATION, not a measurement" in printed
    assert "25% of them bad" in printed
    for way in ("LLM judge on all", "LLM judge on a random 20%", "cascade"):
        assert way in printed


@pytest.mark.parametrize(
    "given",
    [["--alike", "2"], ["--bad", "nan"], ["--requests", "0"], ["--judge-accuracy", "0.4"]],
)
def test_an_input_that_cannot_be_is_refused(capsys, given):
    """The error names the option and what it takes."""
    parser = argparse.ArgumentParser()
    decided.add_inputs(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(given)
    assert f"argument {given[0]}: expected a number of" in capsys.readouterr().err


def test_a_bar_that_is_missed_is_told(table, monkeypatch):
    """Were nothing calibrated, the row of the biased judge would say so."""
    monkeypatch.setattr(decided, "calibrated", lambda *_: decided.Calibration())
    decided.calibration(table, seeds=3)
    assert len(table.missed) == 1
    assert "after 200 labels" in table.missed[0]
