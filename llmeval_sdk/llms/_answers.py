"""Bounds what a server may answer: a judge's reply has a few KB, whatever is sent has a limit.

The limit holds for decoded bytes, of good answers and of errors, and by every way to the server,
because it is set on each response before its body is read. Answers are asked for with gzip at most;
one that comes in any other encoding, or in several, is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from functools import cache
from typing import Any


MAX_ANSWER_BYTES = 4 << 20
"""Decoded bytes of one HTTP answer."""

HEADERS = {"Accept-Encoding": "gzip"}


class AnswerRefusedError(Exception):
    """An answer that is too large, or encoded in a way nobody asked for; read no further."""


async def bound(response: Any) -> None:
    """Limit the body of a response that is not read yet: a ``response`` hook of the client."""
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
    if encodings:
        del response.headers["content-encoding"]  # decoded below, so not once more
    response.stream = _stream()(response.stream, gzip=bool(encodings))


def _too_large() -> AnswerRefusedError:
    return AnswerRefusedError(f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")


@cache
def _stream() -> Any:
    """Make the class when the client's library is there to derive it from."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, *, gzip: bool) -> None:
            self._inner = inner
            self._gzip = gzip

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = decoded = 0
            inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if self._gzip else None
            async for part in self._inner:
                received += len(part)
                data = part
                if inflate is not None:
                    data = inflate.decompress(part, MAX_ANSWER_BYTES - decoded + 1)
                decoded += len(data)
                if max(received, decoded) > MAX_ANSWER_BYTES:
                    raise _too_large()
                yield data

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Bounded
