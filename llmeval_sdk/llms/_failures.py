"""What went wrong with a request, as a JudgeError that holds neither key nor request."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.llms._answers import AnswerRefusedError


MESSAGE_CHARACTERS = 300
"""How much of a server's own message is kept."""

_LEAST_SECRET = 8
"""A shorter key is a placeholder for a server that asks for none; cutting out its letters would
spoil what the server says."""

_FILTERED = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")


class CallFailed(JudgeError):  # noqa: N818 - reads as what happened
    """One request that gave no reply; ``status`` is the HTTP status, where there was one."""

    def __init__(
        self, reason: str, message: str = "", *, status: int | None = None, **rest: Any
    ) -> None:
        super().__init__(reason, message, **rest)
        self.status = status


def call_failed(error: Exception, where: str, key: Secret | None) -> CallFailed:
    """Classify what the client raised; the key is cut out of whatever the server said."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return CallFailed("timeout", f"no answer from {where} in time", retryable=True)
    if isinstance(error, openai.APIConnectionError):
        cause = _root(error)
        return CallFailed(
            "unavailable",
            f"no connection to {where} ({type(cause).__name__})",
            retryable=not isinstance(cause, ssl.SSLCertVerificationError),
        )
    if isinstance(error, openai.APIStatusError):
        return _refused_request(error, where, key)
    if isinstance(error, AnswerRefusedError):
        return CallFailed("malformed", f"the answer of {where} is not read: {error}")
    return CallFailed("malformed", f"the answer of {where} cannot be read ({type(error).__name__})")


def _refused_request(error: Any, where: str, key: Secret | None) -> CallFailed:
    status: int = error.status_code
    said = _said(error, key)
    code = str(getattr(error, "code", None) or "").lower()
    message = f"{where} answered {status}" + (f": {said}" if said else "")
    if any(word in code or word in _text(error.body).lower() for word in _FILTERED):
        return CallFailed("refused", message, status=status)
    if status in (401, 403):
        return CallFailed("unauthorized", f"{message} (check the API key)", status=status)
    if status == 404:
        hint = "check the model's name and the path of the base URL"
        return CallFailed("not_found", f"{message} ({hint})", status=status)
    if status == 429:
        return CallFailed(
            "rate_limited",
            message,
            status=status,
            retryable=code != "insufficient_quota",
            retry_after=retry_after(error.response.headers),
        )
    if status == 413 or code == "context_length_exceeded":
        return CallFailed("too_long", message, status=status)
    if status == 408:
        return CallFailed("timeout", message, status=status, retryable=True)
    if 300 <= status < 400:
        return CallFailed("unavailable", f"{message} (redirects are not followed)", status=status)
    if status >= 500 or status == 409:
        return CallFailed(
            "unavailable",
            message,
            status=status,
            retryable=True,
            retry_after=retry_after(error.response.headers),
        )
    return CallFailed("bad_request", message, status=status)


def _said(error: Any, key: Secret | None) -> str:
    body = error.body
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    said = inner.get("message") if isinstance(inner, Mapping) else inner
    text = " ".join(said.split()) if isinstance(said, str) else ""
    if key is not None and len(key.reveal()) >= _LEAST_SECRET:
        text = text.replace(key.reveal(), "***")
    return text[:MESSAGE_CHARACTERS]


def _text(body: Any) -> str:
    return body if isinstance(body, str) else str(body or "")


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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds the server asks to wait, from a number or an HTTP date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
