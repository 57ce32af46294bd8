"""One client per event loop: a connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import cache
from importlib.util import find_spec
from typing import Any

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.llms._answers import HEADERS, bound
from llmeval_sdk.llms._endpoint import OPENAI_URL, Endpoint


CONNECT_SECONDS = 10.0
AZURE_API_VERSION = "2024-10-21"
"""The oldest stable version that knows structured outputs."""


class Clients:
    """Makes, keeps and closes the clients of one endpoint.

    A client closes when its loop ends: an asynchronous generator holds it, and ``asyncio.run``
    finishes those before it closes the loop.
    """

    __slots__ = ("_api_version", "_endpoint", "_held", "_key")

    def __init__(self, endpoint: Endpoint, key: Secret | None, *, api_version: str | None) -> None:
        if find_spec("openai") is None:
            raise missing_extra("a judge model by name", "openai", "openai")
        if key is None and endpoint.base_url == OPENAI_URL:
            raise ConfigurationError(
                f"the judge model {endpoint.model!r} needs a key: set LLMEVAL_JUDGE_API_KEY or "
                "OPENAI_API_KEY, or LLMEVAL_JUDGE_BASE_URL for a server that needs none"
            )
        self._endpoint = endpoint
        self._key = key
        self._api_version = api_version or AZURE_API_VERSION
        self._held: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[Any, None]]] = {}

    async def client(self) -> Any:
        """Return the running loop's client, made and warmed on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            for ended in [other for other in list(self._held) if other.is_closed()]:
                self._held.pop(ended, None)
            lifetime = self._lifetime(loop)
            held = self._held[loop] = (await lifetime.__anext__(), lifetime)
        return held[0]

    async def close(self) -> None:
        """Close the running loop's client."""
        held = self._held.get(asyncio.get_running_loop())
        if held is not None:
            await held[1].aclose()

    async def _lifetime(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Any, None]:
        client = self._make()
        try:
            yield client
        finally:
            self._held.pop(loop, None)
            await client.close()

    def _make(self) -> Any:
        import openai

        plain = self._endpoint.is_plain_http
        common: dict[str, Any] = {
            "api_key": self._key.reveal() if self._key is not None else "none",
            "max_retries": 0,
            "http_client": openai.DefaultAsyncHttpxClient(
                follow_redirects=False,
                headers=HEADERS,
                event_hooks={"response": [bound]},
                # A proxy named in the environment may tunnel what is encrypted, not read the rest.
                trust_env=not plain,
                verify=_tls_context(),
            ),
        }
        client: Any
        if self._endpoint.provider == "azure":
            client = openai.AsyncAzureOpenAI(
                azure_endpoint=self._endpoint.base_url, api_version=self._api_version, **common
            )
        else:
            client = openai.AsyncOpenAI(base_url=self._endpoint.base_url, **common)
        _ = client.chat.completions  # the first access imports hundreds of modules
        return client


def request_timeout(seconds: float) -> Any:
    """Say how long a request may wait for each of its phases."""
    import openai

    return openai.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


@cache
def _tls_context() -> Any:
    """Build the verifying TLS context once for all clients: it costs some 20 ms of CPU."""
    import httpx2

    return httpx2.create_ssl_context()
