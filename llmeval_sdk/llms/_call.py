"""One ``complete``: down the ladder, with retries, until a reply can be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk._process.threads import within
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.llms._failures import CallFailed, retrying
from llmeval_sdk.llms._ladder import STEPS, Dialect, Reply, asking, fits, read
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.protocols import further_request


@dataclass(slots=True, kw_only=True)
class Call:
    """What one call knows and has spent so far."""

    create: Callable[[Mapping[str, Any], float], Coroutine[Any, Any, Any]]
    """Sends one request with so many seconds left; raises `CallFailed`."""
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None
    max_tokens: int
    known: Dialect
    deadline: float
    attempts: int
    backoff: float
    request_timeout: float | None
    usage: Usage | None = None
    """The sum over all requests that were answered."""
    sent: int = 0
    trouble: CallFailed | None = None
    """Of the request before."""

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
        if reply.usage is not None:
            self.usage = reply.usage if self.usage is None else self.usage + reply.usage
        if reply.refusal or reply.finish_reason == "content_filter":
            raise CallFailed("refused", "the model declined to answer")
        return reply

    async def _send(self, request: Mapping[str, Any], *, trying: bool = False) -> Reply:
        async def once() -> Reply:
            try:
                return await self._request(request)
            except CallFailed as error:
                self.trouble = error
                if error.type == "bad_request" and self.known.give_way(error):
                    return await once()
                raise

        return await retrying(
            once,
            attempts=self.attempts,
            backoff=self.backoff,
            deadline=self.deadline,
            worth_it=lambda error: not (trying and getattr(error, "status", None) == 500),
        )

    async def _request(self, request_part: Mapping[str, Any]) -> Reply:
        self._ask_for_another()
        seconds = self.deadline - time.monotonic()
        if self.request_timeout is not None:
            seconds = min(seconds, self.request_timeout)
        request = {self.known.limit_key: self.max_tokens, **request_part}
        if self.known.temperature:
            request["temperature"] = 0
        # The client's own limit is per read: a server that drips would hold it for ever.
        try:
            completion = await within(seconds, self.create(request, seconds))
        except asyncio.TimeoutError:
            raise CallFailed(
                "timeout", f"no answer within {seconds:.1f} s", retryable=True
            ) from None
        return read(completion)

    def _ask_for_another(self) -> None:
        ask = further_request.get()
        if self.sent and ask is not None:
            try:
                ask(self.trouble)
            except JudgeError as error:
                raise CallFailed(error.type, str(error), retry_after=error.retry_after) from None
        self.sent += 1
        self.trouble = None
