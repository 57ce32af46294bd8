"""Evaluators of other libraries and plain functions."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.adapt import as_evaluator
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.protocols import Heuristic, Judge


RECORD = Record(
    request={"messages": [{"role": "user", "content": "q"}]},
    response="the answer",
    expected_response="an answer",
    retrieved_context=(Chunk("c"),),
    attributes={"tone": "dry"},
    trace_id="t" * 32,
    span_id="s" * 16,
)


@dataclass
class Result:
    """As ddtrace's EvaluatorResult looks."""

    value: Any
    reasoning: str | None = None
    assessment: str | None = None
    metadata: dict | None = None
    tags: dict | None = field(default=None)


class Foreign:
    """As ddtrace's BaseEvaluator looks."""

    name = "foreign"

    def __init__(self, result):
        self.result = result
        self.seen = []

    def evaluate(self, context):
        self.seen.append(context)
        return self.result


class AsyncForeign(Foreign):
    async def evaluate(self, context):
        return super().evaluate(context)


@pytest.mark.parametrize("kind", [Foreign, AsyncForeign])
def test_a_ddtrace_evaluator_is_called_with_its_context(kind, judged, scripted):
    """The context has the fields that such evaluators read; the result keeps all it says."""
    foreign = kind(Result(0.7, "close", "pass", {"k": 1}, {"team": "a"}))
    evaluator = as_evaluator(foreign)
    found = judged(evaluator, RECORD, scripted("x"))
    context = foreign.seen[0]
    assert isinstance(evaluator, Judge)
    assert evaluator.blocking is (kind is Foreign)
    assert (found.name, found.value, found.explanation, found.label) == (
        "foreign", 0.7, "close", "pass",
    )  # fmt: skip
    assert found.metadata == {"k": 1, "tags": {"team": "a"}}
    assert context.input_data == RECORD.request
    assert (context.output_data, context.expected_output) == ("the answer", "an answer")
    assert context.metadata == {"tone": "dry", "retrieved_context": ["c"]}
    assert (context.trace_id, context.span_id) == ("t" * 32, "s" * 16)


@pytest.mark.parametrize("result", [True, 0.5, "good", None])
def test_a_plain_result_keeps_its_type(result, judged, scripted):
    """A bool of another library is a pass or fail, not a yes/no rating."""
    found = judged(as_evaluator(Foreign(result)), RECORD, scripted("x"))
    assert (found.value, found.error) == (result, None)


def test_a_result_that_is_no_value_is_an_error(judged, scripted):
    """A dict or list has no place in an Evaluation."""
    found = judged(as_evaluator(Foreign(Result({"a": 1}))), RECORD, scripted("x"))
    assert (found.value, found.error.type) == (None, "malformed")


def test_a_function_of_input_output_and_expected_is_called_with_them(judged, scripted):
    """Function evaluators of ddtrace work as they are."""

    def exact(input_data, output_data, expected_output):
        return output_data == expected_output

    async def shorter(input_data, output_data, expected_output):
        return len(output_data) < 100

    for function, value in ((exact, False), (shorter, True)):
        found = judged(as_evaluator(function), RECORD, scripted("x"))
        assert (found.name, found.value) == (function.__name__, value)


def test_plain_functions_are_told_apart_by_their_parameters(judged, scripted):
    """One is a heuristic, two a judge of the answer, three a judge of each chunk."""

    def length(record):
        return len(record.response)

    def fine(record, llm):
        return llm.ask("fine?") == "yes"

    def on_topic(record, chunk, llm):
        return chunk.content == "c"

    heuristic, answer, chunk = map(as_evaluator, (length, fine, on_topic))
    assert isinstance(heuristic, Heuristic)
    assert heuristic.evaluate(RECORD) == 10
    assert (heuristic.inline, heuristic.automatic) == (False, False)
    assert judged(answer, RECORD, scripted("yes")).value == "yes"
    assert (chunk.per, judged(chunk, RECORD, scripted("x")).value) == ("chunk", 1.0)


def test_our_own_are_left_alone():
    """What is an evaluator already is returned as it is."""
    own = registry.evaluator("groundedness")
    assert as_evaluator(own) is own


@pytest.mark.parametrize(
    "thing",
    [3, None, Foreign, lambda: 1, lambda a, b, c, d: 1, [1]],
    ids=["int", "None", "class", "no parameter", "four", "list"],
)
def test_anything_else_is_refused(thing):
    """With what is expected."""
    with pytest.raises(ConfigurationError):
        as_evaluator(thing)


def test_a_blocking_foreign_judge_is_run_aside(judged, scripted):
    """Its result is read as that of any other."""
    evaluator = as_evaluator(Foreign(Result(1, "all")))
    assert evaluator.blocking
    found = judged(evaluator, RECORD, scripted("x"))
    assert (found.value, found.explanation, found.evaluator_kind) == (1.0, "all", "judge")
    assert found.duration > 0
