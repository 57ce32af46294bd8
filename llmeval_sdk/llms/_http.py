"""One HTTP client of one model's server: what it sends, and how much of an answer it reads.

Requests are posted as they are: the client of ``openai`` takes a second of CPU to import, and twice
the CPU for each request.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from llmeval_sdk.llms._failures import AnswerRefusedError


CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 << 20
"""Decoded bytes of one HTTP answer."""
_CONNECTIONS = 1_000
"""More than requests are made at a time: those wait elsewhere, for their turn."""
_IDLE_CONNECTIONS = 100
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    "content-type": "application/json",
    "user-agent": "llmeval-inprocess",
}


class HttpAnswer(NamedTuple):
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Posts JSON to one server, and belongs to the event loop that made it.

    Args:
        base_url: Where the server is.
        headers: What is sent with each request, beside what every request of ours
            has; their names are in lower case.
        query: What stands behind each path, such as ``?api-version=…``.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str], query: str = "") -> None:
        import httpx2

        self._base_url, self._query = base_url, query
        self._headers = httpx2.Headers({**_HEADERS, **headers})
        self._urls: dict[str, Any] = {}
        self._request = httpx2.Request
        self._url = httpx2.URL
        self._http = httpx2.AsyncClient(
            follow_redirects=False,
            limits=httpx2.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS
            ),
            # A proxy named in the environment may tunnel what is encrypted, not read the rest.
            trust_env=not base_url.startswith("http:"),
            verify=_tls_context(),
        )

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> HttpAnswer:
        """Send one request, waiting so many seconds for each of its phases.

        Raises whatever the HTTP library raises, or `AnswerRefusedError`.
        """
        if (url := self._urls.get(path)) is None:
            url = self._urls[path] = self._url(f"{self._base_url}{path}{self._query}")
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        connect = min(seconds, CONNECT_SECONDS)
        timeout = {"connect": connect, "read": seconds, "write": seconds, "pool": seconds}
        request = self._request(
            "POST",
            url,
            headers=self._headers,
            content=data.encode("utf-8", "replace"),  # half a character is no text
            extensions={"timeout": timeout},
        )
        response = await self._http.send(request, stream=True)
        try:
            return HttpAnswer(response.status_code, response.headers, await _bounded(response))
        finally:
            await response.aclose()

    def is_closed(self) -> bool:
        """Say whether it can no longer be used."""
        return bool(self._http.is_closed)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


async def _bounded(response: Any) -> bytes:
    """Read the body of a response up to its limit, which holds before and after decoding.

    At most gzip is asked for; an answer in any other encoding, or in several, is refused.
    """
    encodings = [
        name
        for part in response.headers.get_list("content-encoding", split_commas=True)
        if (name := part.strip().lower()) not in ("", "identity")
    ]
    if any(name not in ("gzip", "x-gzip") for name in encodings) or len(encodings) > 1:
        raise AnswerRefusedError(f"it is encoded as {', '.join(encodings)[:60]}")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_ANSWER_BYTES:
        raise _too_large()
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encodings else None
    received = 0
    body = bytearray()
    async for part in response.stream:
        received += len(part)
        body += (
            part if inflate is None else inflate.decompress(part, MAX_ANSWER_BYTES - len(body) + 1)
        )
        if max(received, len(body)) > MAX_ANSWER_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> AnswerRefusedError:
    return AnswerRefusedError(f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")


@cache
def _tls_context() -> Any:
    """Build the verifying TLS context once for all clients: it costs some 20 ms of CPU."""
    import httpx2

    return httpx2.create_ssl_context()
