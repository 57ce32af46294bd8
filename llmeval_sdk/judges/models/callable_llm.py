"""A judge model that is a function of the app: its own client, a gateway, a rule."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.clients import name_of
from llmeval_sdk.judges.models.sending import in_words
from llmeval_sdk.model import Completion, Message
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.process.threads import HelperThreads


class CallableLLM(LLM):
    """Wraps a function, sync or async, that takes one prompt and returns text.

    If the first parameter of the function is called ``messages``, it gets OpenAI chat messages
    instead of a prompt. A sync function runs on a daemon thread. To report tokens, the function
    may return a `Completion` instead of text. If JSON is required, the system message describes
    its schema in words.
    """

    def __init__(
        self,
        function: Callable[[Any], str | Completion | Awaitable[str | Completion]],
        *,
        model: str | None = None,
    ) -> None:
        self._function = function
        self._threads = HelperThreads(f"judge model {model or name_of(function)}"[:100])
        self._takes_messages = _first_parameter(function) == "messages"
        self.model = model or name_of(function)

    def __repr__(self) -> str:
        return f"CallableLLM({self.model!r})"

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Call the function; raises `JudgeError` if it returns anything but text."""
        turns = list(messages) if schema is None else in_words(messages, schema)
        prompt: Any = (
            [{"role": turn.role, "content": turn.content} for turn in turns]
            if self._takes_messages
            else "\n\n".join(turn.content for turn in turns)
        )
        answer = await called(self._function, self._threads, prompt)
        if isinstance(answer, Completion):
            return answer
        if not isinstance(answer, str):
            raise JudgeError("malformed", f"{self.model} returned {type(answer).__name__}, no text")
        return Completion(answer, self.model)


async def called(function: Callable[..., Any], aside: HelperThreads, *arguments: Any) -> Any:
    """Return what a function of the app returns; one that blocks runs on a daemon thread."""
    if inspect.iscoroutinefunction(_code_of(function)):
        return await function(*arguments)
    answer = await aside.call_async(function, *arguments)
    return await answer if inspect.isawaitable(answer) else answer


def _code_of(function: Any) -> Any:
    return function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004


def _first_parameter(function: Any) -> str | None:
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None
