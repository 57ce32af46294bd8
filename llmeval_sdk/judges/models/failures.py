"""What can go wrong with a request: answers that are refused, errors, and when to try again.

Errors hold neither the key nor the request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Usage
from llmeval_sdk.process.retries import pauses, retry_after


if TYPE_CHECKING:
    from tenacity import RetryCallState


class AnswerRefusedError(Exception):
    """An answer that is too large, or encoded in a way nobody asked for; read no further."""


MESSAGE_CHARACTERS = 300
"""How much of a server's own message is kept."""

_LEAST_SECRET = 8
"""A shorter key is a placeholder for a server that asks for none; cutting out its letters would
spoil what the server says."""

_TOO_LONG = (
    "context_length_exceeded", "max_tokens_exceeded", "maximum context length",
    "exceed_context_size",
)  # fmt: skip
"""What OpenAI, TypeSafe, vLLM with SGLang, and llama.cpp say of an input that does not fit."""

_FILTERED = ("content_filter", "content_policy", "responsibleaipolicy", "invalid_prompt")
"""``invalid_prompt`` is what OpenAI says of a prompt that was flagged."""


class CallFailed(JudgeError):  # noqa: N818 - reads as what happened
    """One request that gave no reply; ``status`` is the HTTP status, where there was one."""

    def __init__(
        self, reason: str, message: str = "", *, status: int | None = None, **rest: Any
    ) -> None:
        super().__init__(reason, message, **rest)
        self.status = status

    def of_call(self, usage: Usage | None = None) -> JudgeError:
        """Return what the whole call failed of, with what its requests used all the same."""
        return JudgeError(
            self.type,
            str(self),
            retryable=self.retryable,
            retry_after=self.retry_after,
            usage=usage,
        )


Refusal = Callable[[int, Mapping[str, str], bytes, str, "Secret | None"], CallFailed]
"""Classifies an answer that is an error, as `request_refused` does."""


def failed(
    error: Exception,
    where: str,
    key: Secret | None,
    *,
    package: str,
    refused: Refusal | None = None,
) -> CallFailed:
    """Classify what a vendor's client raised; ``package`` is where its own errors come from."""
    if isinstance(error, CallFailed):
        return error
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if response is not None and isinstance(status, int):
        return (refused or request_refused)(status, response.headers, response.content, where, key)
    while type(error).__module__.startswith(package) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if any(kind.__name__ == "TimeoutException" for kind in type(error).__mro__):
        return CallFailed("timeout", f"no answer from {where} in time", retryable=True)
    return _call_failed(error, where)


def _call_failed(error: Exception, where: str) -> CallFailed:
    """Classify what was raised while a request was sent or its answer was read."""
    cause = _root(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # of httpx or of httpx2
    if isinstance(error, ImportError) or kinds & {"LocalProtocolError", "InvalidURL"}:
        kind = type(error).__name__
        return CallFailed("bad_request", f"the request to {where} cannot be made ({kind})")
    if isinstance(error, AnswerRefusedError):
        return CallFailed("malformed", f"the answer of {where} is not read: {error}")
    if isinstance(error, (ValueError, RecursionError, zlib.error)):
        kind = type(cause).__name__
        return CallFailed("malformed", f"the answer of {where} cannot be read ({kind})")
    return CallFailed(
        "unavailable",
        f"no connection to {where} ({type(cause).__name__})",
        retryable=not isinstance(cause, ssl.SSLCertVerificationError),
    )


def request_refused(  # noqa: PLR0911
    status: int, headers: Mapping[str, str], body: bytes, where: str, key: Secret | None
) -> CallFailed:
    """Classify an answer that is an error; the key is cut out of whatever the server said."""
    about = _about(body)
    said = _said(about, key)
    code = str(about.get("code") or "").lower() if isinstance(about, Mapping) else ""
    words = f"{code} {about or ''}".lower()
    after = retry_after(headers)

    def failed(reason: str, hint: str = "", **rest: Any) -> CallFailed:
        message = f"{where} answered {status}" + (f": {said}" if said else "") + hint
        return CallFailed(reason, message, status=status, **rest)

    if any(word in words for word in _FILTERED):
        return failed("refused")
    if status in (401, 403):
        return failed("unauthorized", " (check the API key)")
    if status == 404:
        return failed("not_found", " (check the model's name and the path of the base URL)")
    if status in (402, 429):
        is_spent = status == 402 or "insufficient_quota" in words
        return failed("rate_limited", retryable=not is_spent, retry_after=after)
    if status == 413 or any(word in words for word in _TOO_LONG):
        return failed("too_long")
    if status == 408:
        return failed("timeout", retryable=True)
    if 300 <= status < 400:
        return failed("unavailable", " (redirects are not followed)")
    if status >= 500 or status == 409:
        return failed("unavailable", retryable=True, retry_after=after)
    return failed("bad_request")


def _about(body: bytes) -> Any:
    """Return what the body of an error says: the value of ``error``, all of it, or a text."""
    try:
        whole = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
    return whole.get("error", whole) if isinstance(whole, Mapping) else whole


def _said(about: Any, key: Secret | None) -> str:
    text = " ".join(_message(about).split()) if isinstance(about, Mapping) else ""
    if key is not None and len(key.reveal()) >= _LEAST_SECRET:
        text = text.replace(key.reveal(), "***")
    return text[:MESSAGE_CHARACTERS]


_MESSAGES = ("error", "message", "msg", "detail", "errors")
"""Where servers put what they say, the first that is there. Beside it, FastAPI repeats the input,
which is never shown."""


def _message(body: Any, depth: int = 4) -> str:
    """Return what a server says in the body of an error: an object, several, or a text."""
    if isinstance(body, str) or not depth:
        return body if isinstance(body, str) else ""
    if isinstance(body, list):
        return "; ".join(filter(None, (_message(part, depth - 1) for part in body[:3])))
    if not isinstance(body, Mapping):
        return ""
    said = next(filter(None, (_message(body.get(name), depth - 1) for name in _MESSAGES)), "")
    place = body.get("loc")
    return f"{'.'.join(map(str, place[:8]))}: {said}" if said and isinstance(place, list) else said


def _root(error: BaseException) -> BaseException:
    """Return the innermost error of the network, else of all; others may lie below it by chance."""
    network = None
    for _ in range(20):
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
        network = error if isinstance(error, OSError) else network
    return network or error


MAX_PAUSE_SECONDS = 8.0
"""The longest wait between two attempts, unless the server asks for a longer one."""
T = TypeVar("T")


async def retrying(
    send: Callable[[], Awaitable[T]],
    *,
    attempts: int,
    backoff: float,
    deadline: float,
    worth_it: Callable[[CallFailed], bool] = lambda _: True,
) -> T:
    """Call ``send`` up to ``attempts`` times, as long as the wait ends before ``deadline``.

    The wait is random up to ``backoff`` · 2ⁿ seconds, or what the server asked for
    (``Retry-After``) and up to a tenth more. ``deadline`` is a time of the running loop.

    Raises:
        CallFailed: The last one, as it came.
    """

    def again(error: BaseException) -> bool:
        return isinstance(error, CallFailed) and error.retryable and worth_it(error)

    try:
        return await send()
    except CallFailed as error:
        if not again(error):
            raise
        failed = [error]  # the first attempt, as the retrying below sees it

    from tenacity import AsyncRetrying, retry_if_exception

    waits = pauses(backoff, MAX_PAUSE_SECONDS, spread=(0.0, 1.0))

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, CallFailed) else None
        pause = next(waits)
        return pause if asked is None else next(pauses(asked, asked, spread=(1.0, 1.1)))

    def stop(state: RetryCallState) -> bool:
        late = asyncio.get_running_loop().time() + state.upcoming_sleep >= deadline
        return late or state.attempt_number >= attempts

    async def attempt() -> T:
        if failed:
            raise failed.pop()
        return await send()

    retry = AsyncRetrying(wait=wait, stop=stop, retry=retry_if_exception(again), reraise=True)
    return await retry(attempt)
