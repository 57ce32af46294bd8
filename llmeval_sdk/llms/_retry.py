"""Tries a request again where that may help, inside one deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llmeval_sdk.errors import JudgeError


T = TypeVar("T")


async def retrying(
    send: Callable[[], Awaitable[T]],
    *,
    attempts: int,
    backoff: float,
    deadline: float,
    worth_it: Callable[[JudgeError], bool],
) -> T:
    """Call ``send`` up to ``attempts`` times, as long as the wait ends before ``deadline``.

    The wait is random up to ``backoff`` · 2ⁿ seconds, or what the server asked for
    (``Retry-After``) and up to a tenth more. ``deadline`` is a time of ``time.monotonic``.

    Raises:
        JudgeError: The last one, as it came.
    """

    def again(error: BaseException) -> bool:
        return isinstance(error, JudgeError) and error.retryable and worth_it(error)

    try:
        return await send()
    except JudgeError as error:
        if not again(error):
            raise
        failed = [error]  # the first attempt, as the retrying below sees it

    from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

    pause = wait_random_exponential(multiplier=backoff, max=8.0)

    def wait(state: Any) -> float:
        asked = getattr(state.outcome.exception(), "retry_after", None)
        return float(pause(state) if asked is None else asked * random.uniform(1.0, 1.1))  # noqa: S311

    def stop(state: Any) -> bool:
        late = time.monotonic() + state.upcoming_sleep >= deadline
        return bool(late or state.attempt_number >= attempts)

    async def attempt() -> T:
        if failed:
            raise failed.pop()
        return await send()

    retry = AsyncRetrying(wait=wait, stop=stop, retry=retry_if_exception(again), reraise=True)
    return await retry(attempt)
