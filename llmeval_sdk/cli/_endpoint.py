"""Is the server of a model there? One GET of ``{base_url}/models``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    Request,
    build_opener,
    getproxies,
    proxy_bypass,
)

from llmeval_sdk.cli._checks import Finding, address
from llmeval_sdk.config import Secret


TIMEOUT_SECONDS = 3.0
DEFAULT_BASE_URL = "https://api.openai.com/v1"


_WITHOUT = (
    "; asked without the key, which would go in clear through the proxy of http_proxy: use an "
    "https address, or name the host in no_proxy"
)


def _is_overheard(base: str) -> bool:
    """Say whether a proxy would read what is sent: not where TLS goes through it."""
    parts = urlsplit(base)
    return parts.scheme == "http" and "http" in getproxies() and not proxy_bypass(parts.netloc)


class _StayHere(HTTPRedirectHandler):
    """Follow no redirect: it would carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Variables(NamedTuple):
    """The variables that say where a model is."""

    base_url: str
    api_key: str


JUDGES = Variables("LLMEVAL_JUDGE_BASE_URL", "LLMEVAL_JUDGE_API_KEY")
DECISIONS = Variables("LLMEVAL_DECISION_BASE_URL", "LLMEVAL_DECISION_API_KEY")


def endpoint(
    base_url: str | None,
    key: Secret | None,
    variables: Variables,
    *,
    key_header: tuple[str, str] = ("Authorization", "Bearer "),
    headers: Mapping[str, str] | None = None,
    key_refusals: Collection[int] = (401, 403),
) -> Finding:
    """Check an address and a key by asking the server for its list of models.

    Args:
        base_url: Where the server is; by default OpenAI's.
        key: What it knows us by.
        variables: Which variables say both, for messages.
        key_header: The header that the key is sent in, and what stands before it.
        headers: Further headers that the server wants.
        key_refusals: The statuses by which it refuses a key.
    """
    base = (base_url or DEFAULT_BASE_URL).rstrip("/")
    subject = f"{address(base)}/models"
    if not base.startswith(("http://", "https://")):
        return Finding(False, subject, f"is not an http address: check {variables.base_url}")
    sent = {"Accept": "application/json", **(headers or {})}
    with_key = key is not None and not _is_overheard(base)
    if key is not None and with_key:
        sent[key_header[0]] = f"{key_header[1]}{key.reveal()}"
    try:
        request = Request(subject, headers=sent)  # noqa: S310 - http, checked above
        with build_opener(_StayHere).open(request, timeout=TIMEOUT_SECONDS) as answer:
            left_out = key is not None and not with_key
            return Finding(True, subject, f"HTTP {answer.status}{_WITHOUT * left_out}")
    except HTTPError as error:
        error.close()
        if key is not None and not with_key:
            return Finding(None, subject, f"HTTP {error.code}{_WITHOUT}")
        if error.code in key_refusals:
            why = "the key is refused" if with_key else f"it wants a key: set {variables.api_key}"
            return Finding(False, subject, f"HTTP {error.code}: {why}")
        return _answered(subject, error.code)
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        return Finding(False, subject, f"cannot be reached: {reason}")


def _answered(subject: str, status: int) -> Finding:
    if status in (404, 405):
        return Finding(None, subject, f"HTTP {status}: it answers, but lists no models")
    return Finding(False, subject, f"HTTP {status}")
