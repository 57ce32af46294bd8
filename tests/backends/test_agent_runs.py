"""Runs of agents that real libraries trace become Records with their steps, in two lines.

Each library runs in a process of its own, in the environment that `make test-backends` builds,
against a model whose answers are a script.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).with_name("apps") / "agent_runs.py"
TRACED = [
    ("openinference", "langgraph"),
    ("traceloop", "langgraph"),
    ("ddtrace", "langgraph"),
    ("openinference", "openai_agents"),
    ("traceloop", "openai_agents"),
    ("ddtrace", "openai_agents"),
]


def record(*what):
    """Run the app; there is one record of it."""
    (only,) = records(*what)
    return only


def records(*what):
    """Run the app, and return what came of it."""
    python = Path(os.environ["BACKENDS"]).resolve() / "agents" / "bin" / "python"
    done = subprocess.run(
        [python, APP, *what],
        env={
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}",
            "PATH": os.environ["PATH"],
            "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
            "DD_REMOTE_CONFIGURATION_ENABLED": "false",
        },
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert {one["question"] for one in told} == {"Please refund order A17."}
    return told


def plain(arguments):
    """Ddtrace writes the numbers in LangChain's arguments as texts."""
    return {name: str(value) for name, value in arguments.items()}


REFUND = {"order_id": "A17", "amount": "900"}


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize(("tracer", "framework"), TRACED)
def test_parallel_calls_errors_and_retries_are_steps(tracer, framework, way):
    """The answer is what people saw; a tool that raised says so."""
    seen = record(tracer, framework, "support", way)
    steps = seen["steps"]
    looked_up = sorted((name, arguments["order_id"]) for name, _, arguments, *_ in steps[:2])
    assert looked_up == [("get_order", "A17"), ("get_order", "B22")]
    assert all("shipped" in str(step[3]) or "open" in str(step[3]) for step in steps[:2])
    assert [(name, plain(arguments)) for name, _, arguments, *_ in steps[2:]] == [
        ("refund", REFUND)
    ] * 2
    assert all(error for *_, error, _ in steps[2:])
    assert all(is_timed for *_, is_timed in steps)
    # of streamed chat completions of this SDK, only ddtrace writes the answer
    if (framework, way) != ("openai_agents", "stream") or tracer == "ddtrace":
        assert seen["response"] == "Order A17 is shipped, so I could not refund it."


@pytest.mark.parametrize(("tracer", "framework"), TRACED)
def test_the_calls_of_an_agent_below_name_it(tracer, framework):
    """The tool that asks it comes first, and its own call is a step of the whole run."""
    seen = record(tracer, framework, "sub")
    assert [step[0] for step in seen["steps"]] == ["ask_researcher", "get_order", "refund"]
    asked, below, refund = (step[1] for step in seen["steps"])
    assert below == "researcher"
    assert asked == refund
    assert asked in (None, "boss")
    assert seen["response"] == "I could not refund A17."


@pytest.mark.parametrize("tracer", ["openinference", "ddtrace", "traceloop"])
def test_a_handoff_is_a_step_and_what_follows_names_the_other_agent(tracer):
    """Traceloop writes no tool for it, so there only the agent's name tells."""
    seen = record(tracer, "openai_agents", "handoff")
    told = [(step[0], step[1]) for step in seen["steps"]]
    assert told[-1] == ("refund", "refunds")
    if tracer != "traceloop":
        assert told[0] == ("transfer_to_refunds", "triage")
    assert seen["response"] == "I could not refund A17."


@pytest.mark.parametrize(
    ("tracer", "framework"), [traced for traced in TRACED if traced[1] == "langgraph"]
)
def test_the_tools_that_were_offered_are_known(tracer, framework):
    """So that calls can be compared with their schemas."""
    assert record(tracer, framework, "support")["tools"] == ["get_order", "refund"]


def test_ddtraces_own_decorators_make_a_run():
    """Tools below an agent below the agent of the run are steps of both."""
    seen = record("ddtrace", "none", "sub")
    assert [(step[0], step[1]) for step in seen["steps"]] == [
        ("get_order", None), ("get_order", "researcher"), ("refund", None),
    ]  # fmt: skip
    assert seen["steps"][2][4] == "ValueError: not refundable"


ANSWER = "I could not refund A17."


@pytest.mark.parametrize(
    ("tracer", "session"),
    [("openinference", [["thread-7", 2.0]]), ("traceloop", [["thread-7", 2.0]]), ("ddtrace", [])],
)
def test_a_graph_that_waits_for_a_person_is_two_runs_of_one_session(tracer, session):
    """The first has no answer, and the second the question of its messages.

    LangGraph's thread joins them as two turns of a session, where the tracer writes it.
    """
    paused, resumed = records(tracer, "langgraph", "approval")
    assert (paused["response"], resumed["response"]) == (None, ANSWER)
    assert [step[0] for step in paused["steps"]] == ["get_order"]
    assert [step[0] for step in resumed["steps"]] == ["refund"]
    assert "not refundable" in resumed["steps"][0][4]
    assert paused["session"] == session


@pytest.mark.parametrize("tracer", ["traceloop", "ddtrace"])
def test_an_approval_of_the_agents_sdk_makes_two_runs(tracer):
    """The call that waits is a step without a result; the second run makes it."""
    paused, resumed = records(tracer, "openai_agents", "approval")
    assert (paused["response"], resumed["response"]) == (None, ANSWER)
    assert [step[0] for step in paused["steps"]] == ["get_order", "refund"]
    assert paused["steps"][1][3:5] == [None, None]
    (refund,) = resumed["steps"]
    assert refund[0] == "refund"
    assert refund[4]


def test_openinference_writes_nothing_of_an_agents_run_that_is_resumed():
    """Only what was done before the approval is seen; the page for agents says so."""
    (paused,) = records("openinference", "openai_agents", "approval")
    assert paused["response"] is None


def test_two_instrumentations_of_one_run_make_each_call_one_step():
    """Two equal calls that one of them tells of stay two."""
    seen = record("both", "langgraph", "support")
    assert sorted((step[0], step[2]["order_id"]) for step in seen["steps"]) == [
        ("get_order", "A17"), ("get_order", "B22"), ("refund", "A17"), ("refund", "A17"),
    ]  # fmt: skip


def test_two_instrumentations_with_traces_of_their_own_make_two_runs():
    """Of the Agents SDK each of them makes its own trace, and nothing joins those."""
    seen = records("both", "openai_agents", "support")
    assert [len(run["steps"]) for run in seen] == [4, 4]
