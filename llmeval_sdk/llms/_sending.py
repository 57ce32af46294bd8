"""The requests that one call of a model takes, within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.llms._failures import CallFailed, retrying
from llmeval_sdk.protocols import further_request


Body = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Sender:
    """Sends the requests of one call; each but the first has to be permitted, as it costs as well.

    Args:
        post: Sends one body and waits so many seconds for its answer; raises `CallFailed`.
        deadline: When all requests and the waits between them end, by the time of the running loop.
        attempts: How often one request is tried where its failure may pass.
        backoff: The upper bound in seconds of the first random wait between attempts.
        request_timeout: Seconds that one attempt may take; by default the rest of the time.
    """

    post: Callable[[Body, float], Awaitable[Any]]
    deadline: float
    attempts: int
    backoff: float
    request_timeout: float | None = None
    sent: int = 0
    """How many requests were sent."""
    trouble: CallFailed | None = None
    """Of the request before."""

    async def send(
        self,
        body: Callable[[], Body],
        *,
        give_way: Callable[[CallFailed], bool] = lambda _: False,
        worth_it: Callable[[CallFailed], bool] = lambda _: True,
    ) -> Any:
        """Return the answer to a request, which is tried again where its failure may pass.

        Args:
            body: Makes the body anew for every attempt.
            give_way: Changes what ``body`` makes, where a server named what it does not take;
                returns whether it is worth another attempt.
            worth_it: Whether a failure that may pass is waited for.

        Raises:
            CallFailed: The last one.
        """

        async def once() -> Any:
            while True:
                sent = body()
                try:
                    return await self._post(sent)
                except CallFailed as error:
                    self.trouble = error
                    # Another call may have given way meanwhile, so that the body is another now.
                    if error.type != "bad_request" or not (give_way(error) or body() != sent):
                        raise

        return await retrying(
            once,
            attempts=self.attempts,
            backoff=self.backoff,
            deadline=self.deadline,
            worth_it=worth_it,
        )

    async def _post(self, body: Body) -> Any:
        seconds = self.deadline - asyncio.get_running_loop().time()
        if seconds <= 0:
            raise CallFailed("timeout", "no time is left for another request", retryable=True)
        self._ask_for_another()
        if self.request_timeout is not None:
            seconds = min(seconds, self.request_timeout)
        return await self.post(body, seconds)

    def _ask_for_another(self) -> None:
        if self.sent and (ask := further_request.get()) is not None:
            try:
                ask(self.trouble)
            except JudgeError as error:
                raise CallFailed(error.type, str(error), retry_after=error.retry_after) from None
        self.sent += 1
        self.trouble = None
