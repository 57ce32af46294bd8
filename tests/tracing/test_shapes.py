"""A decorated function behaves exactly like the plain one, in all four call shapes."""

import asyncio
import gc
import inspect
import threading

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture


def plain_generator(log):
    """A generator that notes everything that happens to it."""
    try:
        got = yield 1
        log.append(got)
        try:
            yield 2
        except ValueError as error:
            log.append(f"caught {error}")
            yield "handled"
        return "result"
    finally:
        log.append("closed")


async def plain_async_generator(log):
    try:
        got = yield 1
        log.append(got)
        try:
            yield 2
        except ValueError as error:
            log.append(f"caught {error}")
            yield "handled"
    finally:
        log.append("closed")


def outcome(call):
    """What a call does: its value, or its exception's type and arguments."""
    try:
        return ("value", call())
    except BaseException as error:
        return (type(error), error.args)


SCRIPTS = {
    "to the end": lambda g: list(g),
    "send": lambda g: [next(g), g.send("x"), next(g, "end")],
    "return value": lambda g: [next(g), next(g), outcome(lambda: next(g))],
    "throw and handle": lambda g: [next(g), next(g), g.throw(ValueError("v")), next(g, "end")],
    "throw unhandled": lambda g: [next(g), outcome(lambda: g.throw(KeyError("k")))],
    "throw before start": lambda g: [outcome(lambda: g.throw(KeyError("k")))],
    "close early": lambda g: [next(g), g.close(), next(g, "end")],
    "close before start": lambda g: [g.close(), next(g, "end")],
    "send before start": lambda g: [outcome(lambda: g.send("too early"))],
    "throw GeneratorExit": lambda g: [next(g), outcome(lambda: g.throw(GeneratorExit()))],
    "exhausted": lambda g: [list(g), outcome(lambda: next(g))],
}


def returns_a_generator(log):
    return plain_generator(log)


def returns_an_async_generator(log):
    return plain_async_generator(log)


def returns_twice(log):
    return llmeval.task(returns_a_generator)(log)


@pytest.mark.parametrize("function", [plain_generator, returns_a_generator, returns_twice])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_generator_is_driven_like_the_plain_function(script, function):
    """Send, throw, close and the return value reach the generator and come back unchanged."""
    plain_log, traced_log = [], []
    expected = script(plain_generator(plain_log))
    with capture():
        traced = llmeval.workflow(function)(traced_log)
        assert inspect.isgenerator(traced)
        assert script(traced) == expected
    assert traced_log == plain_log


async def collect(generator):
    return [item async for item in generator]


async def attempt(awaitable):
    try:
        return ("value", await awaitable)
    except BaseException as error:
        return (type(error), error.args)


async def send_to(g):
    return [await g.__anext__(), await g.asend("x"), await attempt(g.__anext__())]


async def throw_handled(g):
    return [await g.__anext__(), await g.__anext__(), await g.athrow(ValueError("v"))]


async def throw_unhandled(g):
    return [await g.__anext__(), await attempt(g.athrow(KeyError("k")))]


async def close_early(g):
    return [await g.__anext__(), await g.aclose(), await attempt(g.__anext__())]


async def close_before_start(g):
    return [await g.aclose(), await attempt(g.__anext__())]


@pytest.mark.parametrize("function", [plain_async_generator, returns_an_async_generator])
@pytest.mark.parametrize(
    "script", [collect, send_to, throw_handled, throw_unhandled, close_early, close_before_start]
)
def test_an_async_generator_is_driven_like_the_plain_function(script, function):
    """Asend, athrow and aclose reach the generator and come back unchanged."""
    plain_log, traced_log = [], []
    expected = asyncio.run(script(plain_async_generator(plain_log)))
    with capture():
        traced = llmeval.workflow(function)
        assert inspect.isasyncgenfunction(traced) == inspect.isasyncgenfunction(function)
        stream = traced(traced_log)
        assert inspect.isasyncgen(stream)
        assert asyncio.run(script(stream)) == expected
    assert traced_log == plain_log


def test_inspect_sees_the_shape_of_the_wrapped_function():
    """Frameworks that ask inspect what a function is get the same answer."""

    async def coroutine():
        pass

    assert inspect.iscoroutinefunction(llmeval.task(coroutine))
    assert inspect.isgeneratorfunction(llmeval.task(plain_generator))
    assert inspect.isasyncgenfunction(llmeval.task(plain_async_generator))
    assert inspect.signature(llmeval.task(plain_generator)) == inspect.signature(plain_generator)


def test_streamed_text_is_joined_into_the_response():
    """The response of a stream is its whole text, also when the consumer stops early."""
    with capture() as seen:

        @llmeval.workflow
        def stream():
            yield "Hello"
            yield ", "
            yield "world"

        list(stream())
        early = stream()
        next(early)
        early.close()
        seen.drain()
    assert [span.response for span in seen.spans] == ["Hello, world", "Hello"]
    assert all(span.error is None for span in seen.spans)
    assert [span.attributes.get("cancelled") for span in seen.spans] == [None, True]


def test_an_abandoned_stream_ends_its_span():
    """A generator that is dropped half-way is closed by the collector, and its span with it."""
    with capture() as seen:

        @llmeval.workflow
        def stream():
            yield "half"
            yield "never"

        next(stream())
        gc.collect()
        seen.drain()
    assert seen.span("stream").response == "half"


def test_the_span_is_not_current_between_the_steps_of_a_generator():
    """Between two yields the consumer sees its own span, and the body always sees its own."""
    with capture() as seen:
        inside = []

        @llmeval.task
        def steps():
            inside.append(llmeval.current_span().name)
            yield 1
            inside.append(llmeval.current_span().name)
            yield 2

        with llmeval.workflow("consumer"):
            between = [llmeval.current_span().name for _ in steps()]
        assert llmeval.current_span() is None
        seen.drain()
    assert inside == ["steps", "steps"]
    assert between == ["consumer", "consumer"]
    assert seen.span("steps").parent_id == seen.span("consumer").span_id


def test_a_span_opened_inside_a_generator_body_stays_inside():
    """A with-block around a yield does not leak its span to the consumer."""
    with capture() as seen:

        @llmeval.workflow
        def outer():
            with llmeval.task("inner"):
                yield llmeval.current_span().name
                yield llmeval.current_span().name

        names = [(name, llmeval.current_span()) for name in outer()]
        seen.drain()
    assert names == [("inner", None), ("inner", None)]


def test_an_async_generator_may_be_closed_from_another_task():
    """Closing from a task with another context raises nothing and ends the span."""
    with capture() as seen:

        @llmeval.workflow
        async def stream():
            yield "a"
            yield "b"

        async def main():
            generator = stream()
            await generator.__anext__()
            await asyncio.create_task(generator.aclose())
            assert llmeval.current_span() is None

        asyncio.run(main())
        seen.drain()
    assert seen.span("stream").response == "a"


def test_cancellation_reaches_the_coroutine_and_ends_the_span():
    """A cancelled task sees CancelledError as without us; the span says so, and is no failure."""
    with capture() as seen:
        cleaned = []

        @llmeval.workflow
        async def slow():
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(True)

        async def main():
            task = asyncio.create_task(slow())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        seen.drain()
    assert cleaned == [True]
    assert seen.span("slow").error is None
    assert seen.span("slow").attributes["cancelled"] is True


def test_a_future_that_was_cancelled_is_an_error_of_the_app():
    """Only the task's own cancellation is none: this exception the app could have caught."""
    from concurrent.futures import CancelledError

    with capture() as seen:

        @llmeval.workflow
        def waits():
            raise CancelledError

        with pytest.raises(CancelledError):
            waits()
        seen.drain()
    assert seen.span("waits").error.type == "CancelledError"


class Odd(Exception):
    """An exception whose text raises."""

    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "error", [ValueError("v"), Odd(), KeyboardInterrupt(), SystemExit(3), OSError(2, "no")]
)
@pytest.mark.parametrize("shape", ["plain", "coroutine", "generator", "async generator"])
def test_exceptions_pass_through_unchanged(error, shape):
    """The very same exception object arrives, with its context, and the span records its type."""

    def plain():
        raise error

    async def coroutine():
        raise error

    def generator():
        raise error
        yield

    async def async_generator():
        raise error
        yield

    async def consume(g):
        async for _ in g:
            pass

    with capture() as seen:
        calls = {
            "plain": lambda: llmeval.workflow(plain)(),
            "coroutine": lambda: drive(llmeval.workflow(coroutine)()),
            "generator": lambda: list(llmeval.workflow(generator)()),
            "async generator": lambda: drive(consume(llmeval.workflow(async_generator)())),
        }
        with pytest.raises(type(error)) as raised:
            calls[shape]()
        seen.drain()
    assert raised.value is error
    assert error.__context__ is None
    assert seen.spans[-1].error.type == type(error).__name__


def drive(coroutine):
    """Run a coroutine by hand, so that no event loop touches its exception."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def test_methods_static_methods_and_class_methods_are_traced_without_self():
    """The instance is not captured as an argument; static and class methods keep working."""
    with capture() as seen:

        class App:
            @llmeval.workflow
            def method(self, question):
                return question.upper()

            @llmeval.workflow
            @staticmethod
            def static(question):
                return question

            @llmeval.workflow
            @classmethod
            def of_class(cls, question):
                return cls.__name__ + question

        assert App().method("q") == "Q"
        assert App.static("s") == "s"
        assert App.of_class("c") == "Appc"
        seen.drain()
    assert [span.request for span in seen.spans] == ["q", "s", "c"]


def test_disabled_traces_nothing_and_calls_through():
    """Inside disabled() a decorated function is the plain one."""
    with capture() as seen:

        @llmeval.workflow
        def answer(question):
            with llmeval.task("inner") as span:
                span.response = "written to nobody"
            return question

        with llmeval.disabled():
            assert answer("q") == "q"
        assert answer("again") == "again"
        seen.drain()
    assert [span.request for span in seen.spans if span.name == "answer"] == ["again"]


def test_an_object_with_an_async_call_is_traced_until_it_is_awaited():
    """Its answer is the response, not the coroutine."""

    class Client:
        async def __call__(self, question):
            await asyncio.sleep(0)
            return f"{question}!"

    with capture() as seen:
        assert asyncio.run(llmeval.workflow(Client())("q")) == "q!"
        seen.drain()
    assert [span.response for span in seen.spans] == ["q!"]


def test_one_scope_may_be_entered_again_while_it_is_open():
    """Nested and by several threads at once: each entry is a span, and what was current comes back."""
    scope = llmeval.workflow("answer")
    together = threading.Barrier(4)

    def enter():
        for _ in range(50):
            together.wait(10)
            with scope:
                pass

    with capture() as seen:
        with scope, scope:
            pass
        assert llmeval.current_span() is None
        threads = [threading.Thread(target=enter) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.drain()
    assert len(seen.spans) == 202
    inner, outer = sorted(seen.spans[:2], key=lambda span: span.parent_id is None)
    assert inner.parent_id == outer.span_id
