"""Functions of the app as judges."""

import asyncio
import subprocess
import sys
import threading

import pytest

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges import judge
from llmeval_sdk.model import Chunk, Evaluation, Failure, Record, Usage
from llmeval_sdk.model.protocols import LLM, Judge


RECORD = Record(
    request="q", response="r", retrieved_context=(Chunk("one"), Chunk("two"), Chunk("three"))
)


def test_the_decorator_registers_by_name():
    """Sampling rules, escalations and names in the environment find it."""

    @judge
    def is_short(record, llm):
        """Short."""
        return len(record.response) < 5

    assert registry.evaluator("is_short") is is_short
    assert isinstance(is_short, Judge)
    assert is_short(RECORD, None) is True
    assert is_short.__doc__ == "Short."
    assert (is_short.per, is_short.needs, is_short.version) == ("answer", (), "1")


@pytest.mark.parametrize(
    ("returned", "value"),
    [(True, "yes"), (False, "no"), (0.5, 0.5), (3, 3.0), ("formal", "formal"), (None, None)],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_function_returns_is_its_value(returned, value, is_async, judged, scripted):
    """A bool is a yes/no rating, a number a score, a text a category, None not applicable."""
    if is_async:

        @judge(name="mine", version="3")
        async def function(record, llm):
            return returned

    else:

        @judge(name="mine", version="3")
        def function(record, llm):
            return returned

    found = judged(function, RECORD, scripted("x"))
    assert (found.value, type(found.value), found.error) == (value, type(value), None)
    assert (found.name, found.evaluator_version, found.evaluator_kind) == ("mine", "3", "judge")


def test_an_evaluation_is_taken_as_it_is(judged, scripted):
    """Label, explanation and metadata are the author's; name, kind and version the judge's."""

    @judge(name="mine")
    def function(record, llm):
        return Evaluation("other", 0.3, label="meh", explanation="why", metadata={"a": 1})

    found = judged(function, RECORD, scripted("x"))
    assert (found.name, found.value, found.label, found.explanation, found.metadata) == (
        "mine", 0.3, "meh", "why", {"a": 1},
    )  # fmt: skip


@pytest.mark.parametrize("returned", [float("nan"), float("inf"), [1], {}, object(), 10**400])
def test_what_is_no_value_is_an_error(returned, judged, scripted):
    """NaN is an error, never a score."""
    function = judge(name="mine")(lambda record, llm: returned)
    found = judged(function, RECORD, scripted("x"))
    assert (found.value, found.error.type) == (None, "malformed")


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(2), StopIteration("end")])
def test_what_a_function_raises_is_an_error(error, judged, scripted):
    """Even SystemExit in a judge is only a failed judgement."""

    @judge(name="mine")
    def function(record, llm):
        raise error

    found = judged(function, RECORD, scripted("x"))
    assert found.value is None
    assert found.error.type in ("ValueError", "RuntimeError")


def test_a_function_may_ask_the_model(judged, scripted):
    """Plain code with `ask`, a coroutine with `complete`; the tokens are counted for both."""
    from llmeval_sdk.model import Message

    @judge
    def asks(record, llm):
        return llm.ask(f"Fine? {record.response}") == "yes"

    @judge
    async def completes(record, llm):
        return (await llm.complete([Message("user", "Fine?")])).text

    llm = scripted("yes")
    found = [judged(asks, RECORD, llm), judged(completes, RECORD, llm)]
    assert [one.value for one in found] == ["yes", "yes"]
    assert [one.usage for one in found] == [Usage(10, 5, 15)] * 2
    assert found[0].duration > 0


def test_a_model_with_an_ask_of_its_own_is_asked_that_way(judged):
    """The pipeline's budgeted model answers in its own loop: its `ask` is not bypassed."""

    class Own(LLM):
        model = "own"

        async def complete(self, messages, /, *, schema=None, max_tokens=4096):
            raise AssertionError

        def ask(self, prompt, /, *, schema=None, max_tokens=4096):
            return prompt.upper()

    function = judge(name="mine")(lambda record, llm: llm.ask("abc"))
    assert judged(function, RECORD, Own()).value == "ABC"


def test_a_coroutine_that_asks_is_told_to_await(judged, scripted):
    """`ask` inside the loop would wait for itself for ever: it is an error of that judge instead."""

    @judge(name="mine")
    async def function(record, llm):
        return llm.ask("abc")

    found = judged(function, RECORD, scripted("x"))
    assert found.value is None
    assert found.error.type == "RuntimeError"
    assert "await llm.complete" in found.error.message


def test_a_plain_function_never_blocks_the_loop(scripted):
    """`evaluate` runs it aside, on a daemon thread."""
    release, threads = threading.Event(), []

    @judge(name="mine")
    def function(record, llm):
        threads.append(threading.current_thread())
        release.wait(10)
        return True

    async def go():
        running = asyncio.ensure_future(function.evaluate(RECORD, scripted("x")))
        await asyncio.wait([running], timeout=0.05)
        assert not running.done()  # and yet this line is reached
        release.set()
        return await running

    assert function.blocking
    assert asyncio.run(go()).value == "yes"
    assert threads[0].daemon


def test_a_coroutine_function_does_not_block():
    """It runs in the loop of whoever evaluates."""

    @judge(name="mine")
    async def function(record, llm):
        return True

    assert not function.blocking


class TestPerChunk:
    def test_ratings_become_the_precision(self, judged, scripted):
        """Yes / rated, with one entry per chunk in the metadata."""

        @judge(per="chunk")
        def on_topic(record, chunk, llm):
            return chunk.content != "two"

        found = judged(on_topic, RECORD, scripted("x"))
        assert found.value == pytest.approx(2 / 3)
        assert found.metadata["ratings"] == ["yes", "no", "yes"]
        assert on_topic.needs == ("retrieved_context",)

    def test_a_chunk_that_fails_is_counted(self, judged, scripted):
        """The others keep their ratings."""

        @judge(per="chunk")
        async def on_topic(record, chunk, llm):
            if chunk.content == "two":
                raise KeyError("two")
            return Evaluation("on_topic", "yes", explanation="because")

        found = judged(on_topic, RECORD, scripted("x"))
        assert found.value == 1.0
        assert found.metadata["error_messages"] == [None, "'two'", None]
        assert found.metadata["rationales"] == ["because", None, "because"]
        assert found.metadata["failed"] == 1

    def test_scores_become_their_mean_and_categories_stay_apart(self, judged, scripted):
        """Numbers are averaged; words other than yes and no have no precision."""
        scores = iter([0.0, 0.5, 1.0])
        mean = judge(per="chunk", name="s")(lambda record, chunk, llm: next(scores))
        words = judge(per="chunk", name="w")(lambda record, chunk, llm: chunk.content)
        assert judged(mean, RECORD, scripted("x")).value == 0.5
        found = judged(words, RECORD, scripted("x"))
        assert (found.value, found.metadata["ratings"]) == (None, ["one", "two", "three"])

    def test_when_all_fail_there_is_an_error(self, judged, scripted):
        """And no value."""
        bad = judge(per="chunk", name="b")(lambda record, chunk, llm: [])
        found = judged(bad, RECORD, scripted("x"))
        assert found.value is None
        assert isinstance(found.error, Failure)
        assert found.metadata["failed"] == 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: judge(name="x")(lambda record: 1), r"must take \(record, llm\)"),
        (lambda: judge(name="x")(lambda record, chunk, llm: 1), 'per="chunk"'),
        (lambda: judge(name="x", per="chunk")(lambda record, llm: 1), "record, chunk, llm"),
        (lambda: judge(lambda record, llm: 1), "pass name="),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(make, says):
    """At decoration, where a person is watching."""
    with pytest.raises(ConfigurationError, match=says):
        make()


def test_missing_needs_are_not_applicable(judged, scripted):
    """The function is not called for a record that lacks what it declared."""
    function = judge(name="mine", needs=("expected_response",))(lambda record, llm: 1 / 0)
    found = judged(function, RECORD, scripted("x"))
    assert (found.value, found.error) == (None, None)
    assert found.metadata["missing_inputs"] == "expected_response"


def test_a_hanging_judge_does_not_keep_the_process():
    """Its thread is a daemon: the process ends although the judge never does."""
    code = """
import asyncio, threading
from llmeval_sdk.judges import judge
from llmeval_sdk.model import Record
@judge
def hangs(record, llm): threading.Event().wait()
async def go():
    await asyncio.wait_for(hangs.evaluate(Record(), None), 0.1)
try:
    asyncio.run(go())
except asyncio.TimeoutError:
    print("timed out")
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert found.stdout.strip() == "timed out"
