"""One ``complete``: down the ladder, with retries, until a reply can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.llms._call_usage import CallUsage
from llmeval_sdk.llms._failures import CallFailed
from llmeval_sdk.llms._ladder import STEPS, Dialect, Reply, asking, fits, read
from llmeval_sdk.llms._sending import Sender
from llmeval_sdk.model import Message


@dataclass(slots=True, kw_only=True)
class Call:
    """What one call knows and has spent so far."""

    sender: Sender
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None
    max_tokens: int
    known: Dialect
    used: CallUsage

    async def run(self) -> Reply:
        """Return the first readable reply; raises `CallFailed`."""
        if self.schema is None:
            return self._accept(await self._send(asking(None, self.messages, None)))
        last = len(STEPS) - 1
        for step in range(self.known.step, len(STEPS)):
            # A 500 may mean "I do not know this way to ask", until that way has worked once.
            trying = step < last and not (self.known.proven and step == self.known.step)
            request = asking(STEPS[step], self.messages, self.schema)
            try:
                reply = self._accept(await self._send(request, trying=trying))
            except CallFailed as error:
                if step < last and (
                    error.type == "bad_request" or (trying and error.status == 500)
                ):
                    continue
                raise
            if fits(reply.text, self.schema):
                self.known.settle(step)
                return reply
            if reply.finish_reason == "length":
                raise CallFailed("truncated", f"the reply was cut at {self.max_tokens} tokens")
        raise CallFailed("malformed", "the reply is not the JSON object that was asked for")

    def _accept(self, reply: Reply) -> Reply:
        self.used.add(reply.usage, reply.cached)
        if reply.refusal or reply.finish_reason == "content_filter":
            raise CallFailed("refused", "the model declined to answer")
        return reply

    async def _send(self, part: Mapping[str, Any], *, trying: bool = False) -> Reply:
        def request() -> dict[str, Any]:
            settled = {"temperature": 0} if self.known.temperature else {}
            return {self.known.limit_key: self.max_tokens, **settled, **part}

        return read(
            await self.sender.send(
                request,
                give_way=self.known.give_way,
                worth_it=lambda error: not (trying and error.status == 500),
            )
        )
