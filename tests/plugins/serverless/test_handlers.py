"""The decorators change nothing of a handler but when its records leave."""

import asyncio
import inspect
import logging
import threading

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.memory import MemoryExporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.serverless import flush_after, lambda_handler
from llmeval_sdk.plugins.serverless._loop import ThawingLoop


@llmeval.workflow
def answer(question):
    return "Slate."


def delivered():
    return llmeval.stats().exporters["memory"].delivered


@pytest.fixture(autouse=True)
def _in_memory():
    llmeval.configure(exporters=["memory"])


@pytest.mark.parametrize(
    "decorate",
    [lambda_handler, lambda_handler(timeout=5.0), flush_after, flush_after(timeout=5.0)],
    ids=["lambda_handler", "lambda_handler()", "flush_after", "flush_after()"],
)
def test_what_a_handler_recorded_is_delivered_when_it_returns(decorate):
    """Bare and with options; the result, the name and the signature are the handler's."""

    def handler(event, context=None):
        """Answer a question."""
        return {"answer": answer(event)}

    decorated = decorate(handler)
    assert decorated("What is the roof made of?") == {"answer": "Slate."}
    assert delivered() == 1
    assert (decorated.__name__, decorated.__doc__) == ("handler", "Answer a question.")
    assert inspect.signature(decorated) == inspect.signature(handler)


@pytest.mark.parametrize("error", [ValueError("no roof"), SystemExit(3)], ids=["error", "exit"])
def test_an_exception_of_a_handler_stays_what_it_is(error):
    """It is raised after what was recorded before it has been delivered."""

    @lambda_handler
    def handler(event, context):
        answer(event)
        raise error

    with pytest.raises(type(error)) as raised:
        handler("Why?", None)
    assert raised.value is error
    assert delivered() == 1


class Broken:
    def get_remaining_time_in_millis(self):
        raise RuntimeError("no clock")


class Saying:
    def __init__(self, answer):
        self.get_remaining_time_in_millis = lambda: answer


@pytest.mark.parametrize(
    "context",
    [None, object(), Broken(), Saying(None), Saying("soon"), Saying(float("nan"))],
    ids=["none", "another", "broken", "says nothing", "says a word", "says nan"],
)
def test_a_context_that_does_not_say_how_much_time_is_left_is_no_obstacle(context):
    """In a test and on other platforms the time-out alone counts."""
    decorated = lambda_handler(lambda event, context: answer(event))
    assert decorated("Why?", context=context) == "Slate."
    assert delivered() == 1


@pytest.mark.parametrize("milliseconds", [-1_000, 0, 10])
def test_without_time_left_nothing_is_waited_for(milliseconds):
    """The records are handed on, and the next flush finds them delivered."""
    decorated = lambda_handler(lambda event, context: answer(event))
    assert decorated("Why?", Saying(milliseconds)) == "Slate."
    assert llmeval.flush(5.0).complete
    assert delivered() == 1


def test_a_handler_that_records_nothing_is_not_traced():
    """The decorator makes no span of its own, and starts no thread."""
    before = threading.active_count()
    assert lambda_handler(lambda event, context: "pong")("ping", None) == "pong"
    assert (llmeval.stats().spans, threading.active_count()) == (0, before)


def test_switched_off_it_is_a_plain_call():
    """Nothing is recorded, and nothing is in the way."""
    llmeval.configure(enabled=False)
    assert lambda_handler(lambda event, context: answer(event))("Why?", None) == "Slate."
    assert llmeval.stats().spans == 0


class Served:
    async def __call__(self, request):
        return answer(request)


async def serve(request):
    return answer(request)


@pytest.mark.parametrize("function", [serve, Served()], ids=["function", "object"])
def test_an_event_loop_goes_on_while_records_are_delivered(function):
    """Other requests are served while a far end takes its time for the records of one."""
    taken = threading.Event()

    class Slow(MemoryExporter):
        name = "slow"

        def export(self, batch):
            assert taken.wait(10.0)
            return super().export(batch)

    llmeval.configure(exporters=[Slow()])

    async def main():
        request = asyncio.ensure_future(flush_after(timeout=10.0)(function)("Why?"))
        await asyncio.sleep(0)
        assert not request.done()
        taken.set()
        return await request

    assert asyncio.run(main()) == "Slate."
    assert llmeval.stats().exporters["slow"].delivered == 1


def test_a_cancelled_request_does_not_wait():
    """Whoever cancels gets the cancellation at once; the records are handed on."""

    @flush_after(timeout=10.0)
    async def endless(request):
        answer(request)
        await asyncio.sleep(60)

    async def main():
        request = asyncio.ensure_future(endless("Why?"))
        await asyncio.sleep(0.05)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(main())
    assert llmeval.flush(5.0).complete
    assert delivered() == 1


def test_an_exception_of_an_async_handler_stays_what_it_is():
    """What was recorded before it is delivered."""

    @flush_after
    async def failing(request):
        answer(request)
        raise LookupError("no roof")

    with pytest.raises(LookupError, match="no roof"):
        asyncio.run(failing("Why?"))
    assert delivered() == 1


@pytest.mark.parametrize("option", [{"timeout": -1}, {"timeout": "2"}, {"timeout": float("nan")},
                                    {"margin": True}, {"margin": float("inf")}],
                         ids=["negative", "text", "nan", "bool", "infinite"])  # fmt: skip
def test_a_bad_option_is_refused_where_it_is_written(option):
    """The message names the option and says what it takes."""
    with pytest.raises(ConfigurationError, match="use a number of seconds"):
        lambda_handler(**option)


@pytest.mark.parametrize("decorator", [lambda_handler, flush_after])
def test_what_cannot_be_called_is_refused(decorator):
    """Such as a number of seconds without its name."""
    with pytest.raises(ConfigurationError, match=r"timeout=1\.0"):
        decorator(2.0)
    with pytest.raises(ConfigurationError, match="cannot be decorated"):
        decorator(timeout=1.0)("handler")


def test_an_unknown_mode_is_said_and_changes_nothing(monkeypatch, caplog):
    """The app starts as if the variable were not set."""
    monkeypatch.setenv("LLMEVAL_MODE", "lambda")
    with runtime.isolated(), caplog.at_level(logging.WARNING, "llmeval_sdk"):
        assert answer("Why?") == "Slate."
        llmeval.flush(5.0)
    assert "LLMEVAL_MODE='lambda'" in caplog.text
    assert "serverless" in caplog.text


def test_a_coroutine_that_is_closed_ends_without_a_word():
    """As that of a request whose event loop has ended: what closes it must not get an error."""

    @flush_after
    async def main():
        answer("What is the roof made of?")
        await asyncio.sleep(60)

    async def close_in_the_middle():
        running = main()
        running.send(None)
        running.close()

    asyncio.run(close_in_the_middle())
    llmeval.flush()
    assert delivered() == 1


def a_generator():
    yield "Slate."


async def an_async_generator():
    yield "Slate."


@pytest.mark.parametrize("handler", [a_generator, an_async_generator])
@pytest.mark.parametrize("decorate", [lambda_handler, flush_after(timeout=1.0)])
def test_a_generator_is_refused(decorate, handler):
    """It runs after the call has returned, so that nothing of it would ever be flushed."""
    with pytest.raises(ConfigurationError, match="generator"):
        decorate(handler)


def test_a_process_that_is_no_function_any_more_has_the_plain_loop_again():
    """Its judges need no loop that wakes up twice a second to look for a freeze."""
    llmeval.configure(exporters=["memory"], mode="serverless")
    assert runtime.pipeline().plan.new_loop is ThawingLoop
    llmeval.configure(exporters=["memory"], mode="server")
    assert runtime.pipeline().plan.new_loop is None
