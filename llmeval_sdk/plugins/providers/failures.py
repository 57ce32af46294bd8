"""What the answers of Anthropic and Google say of a request that failed, in our error types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmeval_sdk.config import Secret
from llmeval_sdk.judges.models.failures import CallFailed, call_failed, request_refused


_CLIENTS = ("anthropic", "google")
_TOO_LONG = ("prompt is too long", "exceeds the maximum number of tokens")
_WRONG_KEY = ("api_key_invalid", "api key not valid", "api key expired")
_FILTERED = ("content filtering policy",)
_NO_CREDIT = ("credit balance is too low", "billing_error")
_SPENT_FOR_TODAY = ("perday", "per day")


def failed(error: Exception, where: str, key: Secret | None) -> CallFailed:
    """Classify what a provider's client raised."""
    if isinstance(error, CallFailed):
        return error
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        return refused(status, response.headers, response.content, where, key)  # type: ignore[union-attr]
    while type(error).__module__.startswith(_CLIENTS) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if any(kind.__name__ == "TimeoutException" for kind in type(error).__mro__):
        return CallFailed("timeout", f"no answer from {where} in time", retryable=True)
    return call_failed(error, where)


def refused(
    status: int, headers: Mapping[str, str], body: bytes, where: str, key: Secret | None
) -> CallFailed:
    """Classify an answer that is an error.

    It says more than its status: Google answers 400 to a wrong key, Anthropic 400 to an account
    without credit, and both answer 400 to a prompt that is too long.
    """
    failure = request_refused(status, headers, body, where, key)
    words = body[:20_000].decode(errors="replace").lower()
    if _any(_NO_CREDIT, words):
        return _as(failure, "rate_limited")
    if status == 400 and _any(_FILTERED, words):
        return _as(failure, "refused")
    if status == 400 and _any(_WRONG_KEY, words):
        return _as(failure, "unauthorized")
    if status == 400 and _any(_TOO_LONG, words):
        return _as(failure, "too_long")
    if failure.type == "rate_limited":
        failure.retryable = failure.retryable and not _any(_SPENT_FOR_TODAY, words)
        if failure.retry_after is None:
            failure.retry_after = _retry_delay(body)
    return failure


def _any(phrases: tuple[str, ...], words: str) -> bool:
    return any(phrase in words for phrase in phrases)


def _as(failure: CallFailed, reason: str) -> CallFailed:
    return CallFailed(reason, str(failure), status=failure.status)


def _retry_delay(body: bytes) -> float | None:
    """Read Google's ``RetryInfo``: its answers have no ``Retry-After``."""
    try:
        about = json.loads(body)
    except (ValueError, RecursionError):
        return None
    about = about[0] if isinstance(about, list) and about else about
    error = about.get("error") if isinstance(about, Mapping) else None
    details: Any = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        text = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        try:
            seconds = float(str(text).removesuffix("s"))
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None
