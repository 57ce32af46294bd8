"""The verdicts of identical judgements that all hosts share, each under a key of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread


if TYPE_CHECKING:
    from redis import Redis


SECONDS = 600.0
MAX_BYTES = 64 << 10
"""The longest verdict that is shared, and that is read."""


class RedisVerdicts:
    """A place of `Verdicts` in Redis: text of bounded length, which is read as data."""

    def __init__(self, link: RedisThread, *, seconds: float = SECONDS) -> None:
        self._link = link
        self._milliseconds = int(seconds * 1000)

    def get(self, name: bytes, /) -> None:
        """Return nothing: Redis has to be waited for."""

    async def find(self, name: bytes, /) -> str | None:
        """Return a verdict of any host; see `RedisThread.heard`."""
        key = _key(name)
        found: Any = await self._link.heard(
            self._link.ask(lambda redis: redis.getrange(key, 0, MAX_BYTES))
        )
        if not found or len(found) > MAX_BYTES:
            return None
        self._link.counts.add("verdicts found")
        return bytes(found).decode("utf-8", "replace")

    def put(self, name: bytes, text: str, /) -> None:
        """Keep a verdict for all hosts; nobody waits for that."""
        key, content = _key(name), text.encode("utf-8", "replace")
        if len(content) > MAX_BYTES:
            return

        def send(redis: Redis) -> None:
            redis.set(key, content, px=self._milliseconds)
            self._link.counts.add("verdicts shared")

        self._link.ask(send)

    def close(self) -> None:
        """Leave the link to the budget, which closes it."""


def _key(name: bytes) -> str:
    return f"{KEYS}{{shared}}.verdict.{name.hex()}"
