"""The HTTP client that we hand to a provider's client: it bounds what is read of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from llmeval_sdk.judges.models.clients import CONNECT_SECONDS, MAX_ANSWER_BYTES
from llmeval_sdk.judges.models.failures import AnswerRefusedError


def bounded_client(library: Any, base_url: str) -> Any:
    """Make a client of ``httpx2`` or ``httpx`` that reads at most `MAX_ANSWER_BYTES` of an answer.

    It follows no redirect, because a redirect would carry the key to another host, and asks for no
    compression, so that no small answer becomes a large one.
    """

    class Bounded(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = 0
            async for part in self._stream:
                received += len(part)
                if received > MAX_ANSWER_BYTES:
                    raise AnswerRefusedError(f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise AnswerRefusedError(f"it is encoded as {encoding[:60]}")
        response.stream = Bounded(response.stream)

    return library.AsyncClient(
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        timeout=library.Timeout(None, connect=CONNECT_SECONDS),
        # A proxy named in the environment may tunnel what is encrypted, not read the rest.
        trust_env=not base_url.startswith("http:"),
        event_hooks={"response": [bound]},
    )
