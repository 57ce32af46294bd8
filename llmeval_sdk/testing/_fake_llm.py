"""A judge model whose answers a test decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmeval_sdk.model import Completion, Message, Usage
from llmeval_sdk.model.protocols import LLM


class FakeLLM(LLM):
    """A judge model that returns the given replies in turn, and then repeats the last one.

    A reply is a text, a mapping (sent as JSON), an exception to raise, or a function of the
    messages. ``calls`` holds the messages of every call.
    """

    model = "fake"

    def __init__(
        self, *replies: str | Mapping[str, object] | Exception | Callable[..., Any]
    ) -> None:
        self._replies = list(replies) or [{"rating": "yes", "rationale": "fake"}]
        self.calls: list[tuple[Message, ...]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer with the next reply."""
        self.calls.append(tuple(messages))
        reply = self._replies[min(len(self.calls), len(self._replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(messages)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        asked = sum(len(message.content) for message in messages) // 4
        return Completion(text, self.model, Usage(asked, len(text) // 4, asked + len(text) // 4))
