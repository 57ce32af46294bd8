"""A function of the app serves as a judge model."""

import asyncio
import functools
import json
import threading

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import CallableLLM
from llmeval_sdk.model import Completion, Message, Usage


CHAT = [Message("system", "be brief"), Message("user", "hello")]


def complete(function, **options):
    return asyncio.run(CallableLLM(function).complete(CHAT, **options))


def test_a_function_of_a_prompt_gets_all_turns_as_one_text():
    """System and user message arrive in order."""
    assert complete(lambda prompt: prompt).text == "be brief\n\nhello"


def test_a_function_of_messages_gets_openai_messages():
    """Its first parameter's name decides."""
    found = complete(lambda messages: json.dumps(messages)).text
    assert json.loads(found) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
    ]


def test_async_functions_and_objects_are_awaited():
    """Coroutine functions, partials of them and objects with an async call all work."""

    async def function(prompt):
        return prompt[:2]

    class Object:
        async def __call__(self, prompt):
            return prompt[:3]

    assert complete(function).text == "be"
    assert complete(functools.partial(function)).text == "be"
    assert complete(Object()).text == "be "
    assert complete(lambda prompt: function(prompt)).text == "be"


def test_a_sync_function_never_blocks_the_loop():
    """It runs on a daemon thread, so a function that hangs holds neither loop nor process."""
    release = threading.Event()
    seen = []

    def function(prompt):
        seen.append(threading.current_thread())
        release.wait(10)
        return "late"

    async def go():
        call = asyncio.ensure_future(CallableLLM(function).complete(CHAT))
        await asyncio.wait([call], timeout=0.05)
        assert not call.done()  # and yet this line is reached
        release.set()
        return (await call).text

    assert asyncio.run(go()) == "late"
    assert seen[0].daemon
    assert seen[0] is not threading.main_thread()


def test_the_schema_is_told_in_words():
    """A function that knows nothing of schemas is asked for JSON in the prompt."""
    found = complete(lambda prompt: prompt, schema={"type": "object", "required": ["a"]})
    assert '"required": ["a"]' in found.text


def test_a_completion_carries_tokens():
    """A function that knows its tokens may report them."""
    usage = Usage(1, 2, 3)
    assert complete(lambda prompt: Completion("x", "mine", usage)).usage is usage


def test_anything_else_than_text_is_malformed():
    """A function that returns None has not answered."""
    with pytest.raises(JudgeError, match="NoneType") as caught:
        complete(lambda prompt: None)
    assert caught.value.type == "malformed"


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), StopIteration()])
def test_an_exception_in_the_function_comes_back_as_one(error):
    """Even SystemExit ends the call only, never the loop."""

    def function(prompt):
        raise error

    with pytest.raises((ValueError, RuntimeError)):
        complete(function)
