"""Runs that nobody expects: bounded, explained, nothing raised and nothing lost."""

import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import is_note_of_a_cut, steps_of
from llmeval_sdk.plugins.agents.heuristics.trajectory_match import matching
from llmeval_sdk.testing import capture


SCORES = [
    name for name, home in registry.heuristics().items()
    if ".plugins.agents." in home and name not in ("trajectory_match", "tool_call_accuracy", "tool_call_f1")
]  # fmt: skip


def call(name, arguments=None, result="done", **times):
    return Step("tool", None, name, arguments, result, **times)


def scores_of(record):
    """Return the value of each score; every one has a value, or does not apply."""
    return {name: registry.evaluator(name)(record) for name in SCORES}


def assert_scored(record):
    for evaluation in scores_of(record).values():
        assert evaluation is None or evaluation.error is None


@pytest.mark.parametrize("arguments", ["no json", "{", '{"a": ', "[1, 2]", "\x00", 7, ["a"], None])
def test_arguments_that_are_no_object(arguments):
    """They stay what they are, and the schema says so."""
    (step,) = steps_of([{"role": "tool", "name": "get", "arguments": arguments, "result": "x"}])
    tools = ({"name": "get", "parameters": {"type": "object", "required": ["id"]}},)
    record = Record(request="Get it.", response="Done.", steps=(step,), tools=tools)
    assert_scored(record)
    assert scores_of(record)["tool_call_schema"].value == 1


def test_a_result_of_ten_megabytes():
    """What is read of it is bounded, and the scores say that it was cut."""
    record = Record(request="Get it.", response="Done.", steps=(call("get", {}, "x" * 10_000_000),))
    assert calls_of(lambda: assert_scored(record)) < 200_000
    assert scores_of(record)["ungrounded_arguments"].metadata["cut"] is True


def test_a_tool_called_ten_thousand_times_keeps_both_ends():
    """The note between them says how many are left out, and no comparison pretends otherwise."""
    steps = steps_of([
        {"role": "tool", "name": "get", "arguments": {"n": n}, "result": n} for n in range(10_000)
    ])  # fmt: skip
    (note,) = [step for step in steps if is_note_of_a_cut(step)]
    assert "8000" in note.content
    record = Record(request="Go.", response="Done.", steps=steps, expected_trajectory=steps[:1])
    assert_scored(record)
    assert scores_of(record)["tool_call_loop"].metadata["cut"] is True
    assert matching("subset").evaluate(record).value is False
    expected = tuple(step for step in steps if step.role == "tool")
    whole = Record(steps=steps, expected_trajectory=expected)
    for mode in ("subset", "strict", "superset"):
        evaluation = matching(mode).evaluate(whole)
        assert (evaluation.value, "left out" in evaluation.explanation) == (None, True)


def test_a_live_run_over_sixteen_megabytes_says_what_is_left_out():
    """The steps end with a note, and the scores say that the run was cut."""
    seen = {}

    @llmeval.heuristic
    def what_was_seen(record):
        seen[record.span_name] = record

    @llmeval.tool
    def read(number: int) -> str:
        return "x" * 120_000

    @llmeval.agent
    def run(question: str) -> str:
        for number in range(200):
            read(number)
        return "done"

    with capture(evaluators=[what_was_seen]) as kit:
        run("Read it all.")
        kit.drain()
    steps = seen["run"].steps
    assert is_note_of_a_cut(steps[-1])
    assert sum(is_note_of_a_cut(step) for step in steps) == 1
    assert 100 < len(steps) < 150


def test_an_agent_below_that_is_too_large_costs_its_caller_no_other_call():
    """The calls before and after it stay, and a note stands in its place."""
    seen = {}

    @llmeval.heuristic
    def what_the_caller_did(record):
        seen[record.span_name] = record

    @llmeval.tool
    def read(number: int) -> str:
        return "x" * 60_000

    @llmeval.tool
    def pay(number: int) -> str:
        return "paid"

    @llmeval.agent
    def reader(question: str) -> str:
        for number in range(150):
            read(number)
        return "read"

    @llmeval.agent
    def boss(question: str) -> str:
        for number in range(3):
            reader("Read it all.")
            pay(number)
        return "done"

    with capture(evaluators=[what_the_caller_did]) as kit:
        boss("Do it.")
        kit.drain()
    steps = seen["boss"].steps
    assert [step.name for step in steps if step.name == "pay"] == ["pay", "pay", "pay"]
    assert any(is_note_of_a_cut(step) for step in steps)


def test_calls_without_results_and_results_without_calls():
    """Both are steps of their own."""
    steps = steps_of([
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "{}"}}]},
        {"role": "user", "content": "Never mind."},
        {"role": "tool", "tool_call_id": "9", "content": "late"},
    ])  # fmt: skip
    assert [(step.name, step.result) for step in steps if step.role == "tool"] == [
        ("a", None), (None, "late"),
    ]  # fmt: skip
    assert_scored(Record(request="Go.", response="Done.", steps=steps))


def test_ids_that_stand_twice():
    """Each result goes to a call that has none yet; no call is lost."""
    made = {"id": "1", "function": {"name": "a", "arguments": "{}"}}
    steps = steps_of([
        {"role": "assistant", "tool_calls": [made, made]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "tool", "tool_call_id": "1", "content": "y"},
    ])  # fmt: skip
    assert sorted(step.result for step in steps) == ["x", "y"]


def test_clocks_out_of_order():
    """A call may end before it begins, or have no time at all."""
    steps = (
        call("a", {}, start_ns=50, end_ns=10),
        call("b", {}, start_ns=None, end_ns=-5),
        call("c", {}, start_ns=2**70, end_ns=0),
    )
    assert_scored(Record(request="Go.", response="Done.", steps=steps))


def test_a_call_that_is_nested_without_end_is_read_as_text():
    """A message whose text is a hundred thousand brackets raises nothing."""
    steps = steps_of([{"from": "function_call", "value": "[" * 200_000}])
    assert [step.role for step in steps] == ["tool"]
