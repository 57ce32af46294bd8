"""A generator that a function returns is followed as if the function itself had yielded."""

import asyncio
import contextvars
import gc
import inspect
import itertools
import subprocess
import sys
import threading

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.testing import FakeLLM, capture


TOKENS = ("The ", "roof ", "is ", "slate.")


def tokens():
    yield from TOKENS


async def async_tokens():
    for token in TOKENS:
        await asyncio.sleep(0)
        yield token


@llmeval.workflow
def plain(question):
    return tokens()


@llmeval.workflow
def plain_async(question):
    return async_tokens()


@llmeval.workflow
async def coroutine(question):
    return async_tokens()


@llmeval.workflow
async def coroutine_of_plain(question):
    return tokens()


@llmeval.workflow
def yielded(question):
    yield from tokens()


def read(stream):
    """Read a stream to its end, whatever its shape."""

    async def run():
        found = await stream if inspect.iscoroutine(stream) else stream
        if inspect.isasyncgen(found):
            return [token async for token in found]
        assert inspect.isgenerator(found)
        return list(found)

    return asyncio.run(run())


@pytest.mark.parametrize("function", [plain, plain_async, coroutine, coroutine_of_plain, yielded])
def test_what_is_read_of_it_is_the_response(function):
    """The joined text is scored and judged, with the time to its first token."""
    llm = FakeLLM("yes")
    with capture(llm=llm, evaluators=["groundedness"], escalations=[]) as seen:
        with llmeval.annotation_context(retrieved_context=["The roof is slate."]):
            assert read(function("Which roof?")) == list(TOKENS)
        seen.drain()
    span = seen.span(function.__name__)
    assert (span.request, span.response) == ("Which roof?", "The roof is slate.")
    assert span.metrics["time_to_first_token"] >= 0
    assert "The roof is slate." in str(llm.calls[0])
    assert llmeval.current_span() is None


def test_it_has_the_names_of_the_generator():
    """What prints or profiles it sees no lambda of ours."""
    with capture():
        stream, theirs = plain("Which?"), tokens()
        assert (stream.__name__, stream.__qualname__) == (theirs.__name__, theirs.__qualname__)
        assert inspect.getgeneratorstate(stream) == inspect.GEN_CREATED
        assert list(stream) == list(TOKENS)


def test_the_span_is_current_while_a_step_runs_and_never_between():
    """What the caller traces between the return and the first step is no part of it."""
    inside = []

    @llmeval.workflow
    def outer():
        def stream():
            inside.append(llmeval.current_span().name)
            with llmeval.task("step"):
                yield 1
            yield 2

        return stream()

    with capture() as seen:
        stream = outer()
        assert llmeval.current_span() is None
        with llmeval.workflow("between"):
            assert next(stream) == 1
            assert llmeval.current_span().name == "between"
        assert list(stream) == [2]
        seen.drain()
    assert inside == ["outer"]
    assert seen.span("step").parent_id == seen.span("outer").span_id
    assert seen.span("between").parent_id is None


def test_it_may_be_read_in_another_context_and_thread():
    """As web frameworks do with a plain generator: each step on a thread of a pool."""
    with capture() as seen:
        stream, read_so_far = plain("Which?"), []

        def read_one():
            read_so_far.append(contextvars.Context().run(next, stream))

        for _ in TOKENS:
            thread = threading.Thread(target=read_one)
            thread.start()
            thread.join()
        assert list(stream) == []
        seen.drain()
    assert read_so_far == list(TOKENS)
    assert seen.spans[0].response == "The roof is slate."


def test_what_breaks_off_ends_the_span_with_what_was_read():
    """An exception is the span's; a consumer that stops is none."""

    @llmeval.workflow
    def failing():
        def stream():
            yield "The "
            raise ValueError("no more")

        return stream()

    with capture() as seen:
        with pytest.raises(ValueError, match="no more"):
            list(failing())
        stream = plain("Which?")
        next(stream)
        stream.close()
        seen.drain()
    assert [(span.response, span.error and span.error.type) for span in seen.spans] == [
        ("The ", "ValueError"),
        ("The ", None),
    ]


@pytest.mark.parametrize("function", [plain, plain_async])
@pytest.mark.parametrize("close", [True, False])
def test_one_that_is_never_read_ends_at_the_end_of_the_call(function, close):
    """Its span says so, is scored by nobody, and is as long as the call."""
    llm = FakeLLM("yes")
    with capture(llm=llm, evaluators=["groundedness"], escalations=[]) as seen:
        with llmeval.annotation_context(retrieved_context=["The roof is slate."]):
            stream = function("Which?")
        with llmeval.task("later"):
            pass
        if close and function is plain:
            stream.close()
        kind = type(stream).__name__
        del stream
        gc.collect()
        seen.drain()
    unread, later = seen.span(function.__name__), seen.span("later")
    assert unread.response == f"<{kind}, not read>"
    assert unread.end_ns <= later.end_ns
    assert seen.reasons() == {"groundedness": "missing_inputs"}
    assert not llm.calls
    assert unread.error is None


def test_one_in_a_cycle_of_garbage_ends_quietly_wherever_the_collector_strikes():
    """The collector runs on any thread, also on one of ours, and holds nothing up."""
    with capture() as seen:
        for _ in range(50):
            cycle = [plain("Which?")]
            cycle.append(cycle)
        del cycle
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join(30)
        seen.drain()
    assert [span.response for span in seen.spans] == ["<generator, not read>"] * 50


def test_one_that_is_thrown_away_runs_nothing_of_the_app_there():
    """The collector may strike in the middle of anything: the app's scores wait for the worker."""
    threads = []

    @llmeval.heuristic(inline=True)
    def where(record):
        threads.append(threading.current_thread())
        return True

    try:
        with capture() as seen:
            stream = plain("Which?")
            del stream
            gc.collect()
            seen.drain()
            seen.drain()
        assert seen.span("plain").response == "<generator, not read>"
        assert seen.scores("plain")["where"].value is True
        assert threads
        assert threading.current_thread() not in threads
    finally:
        registry.forget("where")


def test_one_that_is_left_when_the_process_ends_prints_nothing():
    """Even where it is thrown away after everything else."""
    code = """
import llmeval_sdk as llmeval
llmeval.configure(exporters=["memory"])
@llmeval.workflow
def plain(question):
    return (token for token in ("a", "b"))
kept = plain("Which?")
begun = plain("Which?"); next(begun)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_retrieval_that_streams_its_documents_is_read():
    """The passages that were read are the context of the request."""

    @llmeval.retrieval
    def search(question):
        return ({"content": token} for token in ("slate", "tin"))

    with capture() as seen:
        with llmeval.workflow("answer", request="Which?") as span:
            span.response = str(len(list(search("Which?"))))
        seen.drain()
    assert [chunk.content for chunk in seen.span("search").retrieved_context] == ["slate", "tin"]


def test_nested_functions_that_pass_a_stream_on_are_all_followed():
    """Each of them has the whole text, and the inner one is below the outer one."""

    @llmeval.llm(model_name="m")
    def ask(question):
        return tokens()

    @llmeval.workflow
    def answer(question):
        return ask(question)

    with capture() as seen:
        assert list(answer("Which?")) == list(TOKENS)
        seen.drain()
    inner, outer = seen.span("ask"), seen.span("answer")
    assert inner.response == outer.response == "The roof is slate."
    assert inner.parent_id == outer.span_id
    assert outer.start_ns <= inner.start_ns


class Iterator:
    def __iter__(self):
        return self

    def __next__(self):
        raise AssertionError("nobody reads it but the app")


class AsyncIterator:
    def __aiter__(self):
        return self

    async def __anext__(self):
        raise AssertionError("nobody reads it but the app")


class MyResponse:
    def __init__(self):
        self.status_code, self.media_type = 200, "text/event-stream"
        self._body = async_tokens()


UNREAD = {
    "iterator": Iterator,
    "async iterator": AsyncIterator,
    "map": lambda: map(str, [1]),
    "chain": lambda: itertools.chain("ab"),
    "list iterator": lambda: iter(["a"]),
    "coroutine": lambda: coroutine("Which?"),
    "response of a framework": MyResponse,
    "bytes": lambda: b"answer",
    "object": object,
}


@pytest.mark.parametrize("make", UNREAD.values(), ids=UNREAD)
def test_any_other_stream_is_named_and_given_back_as_it_is(make):
    """The app gets the very same object, and nobody scores or judges its name."""
    value, llm = make(), FakeLLM("yes")

    @llmeval.workflow
    def answer(question):
        return value

    with capture(llm=llm, evaluators=["groundedness"], escalations=[]) as seen:
        with llmeval.annotation_context(retrieved_context=["The roof is slate."]):
            assert answer("Which?") is value
        result = seen.drain()
    if inspect.iscoroutine(value):
        value.close()
    assert type(value).__name__ in seen.span("answer").response
    assert not llm.calls
    assert result.not_run == {"groundedness": {"missing_inputs": 1}}
    scores = seen.scores("answer")
    assert not {"groundedness_risk", "groundedness", "answer_relevance"} & set(scores), scores


def test_streams_of_well_known_libraries_are_named():
    """Starlette's responses and the streams of model clients, each as the library makes it."""
    responses = pytest.importorskip("starlette.responses")
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    streams = [
        responses.StreamingResponse(async_tokens()),
        responses.StreamingResponse(tokens()),
        *(
            kind.__new__(kind)
            for kind in (
                openai.Stream,
                openai.AsyncStream,
                anthropic.Stream,
                anthropic.AsyncStream,
                anthropic.MessageStream,
                anthropic.AsyncMessageStream,
            )
        ),
    ]
    with capture() as seen:
        for number, stream in enumerate(streams):
            with llmeval.workflow(f"w{number}") as span:
                span.response = stream
        seen.drain()
    names = [f"<{type(stream).__name__}, not read>" for stream in streams]
    assert [span.response for span in seen.spans] == names


def test_a_response_that_holds_a_text_is_read():
    """A word in the name of a class makes no stream of it."""

    class StreamedResponse:
        def __init__(self):
            self.text, self.parts = "Slate.", ["Sla", "te."]

    with capture() as seen:
        with llmeval.workflow("w") as span:
            span.response = StreamedResponse()
        seen.drain()
    assert seen.span("w").response == {"text": "Slate.", "parts": ["Sla", "te."]}
