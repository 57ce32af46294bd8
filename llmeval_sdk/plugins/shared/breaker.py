"""The breaker of a model that all hosts share: one finds it dead, and one probes it for all."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread


if TYPE_CHECKING:
    from redis import Redis


PATIENCE_SECONDS = 0.05
"""How long the judges' thread waits to hear whether it may probe."""


class SharedBreaker(Breaker):
    """A `Breaker` whose state stands in Redis while it is open.

    Three keys, which expire with the cool-down, hold the state: ``down`` and ``up`` say what was
    found out last, and whoever makes ``probe`` may try the model for all. While Redis is away, each
    process decides for itself, as without it.
    """

    __slots__ = ("_key", "_link", "_seconds")

    def __init__(
        self, model: Any, link: RedisThread, *, cool_down: float = 30.0, **options: Any
    ) -> None:
        super().__init__(getattr(model, "model", ""), cool_down=cool_down, **options)
        self._seconds = cool_down
        self._link = link
        place = f"{self._model}@{getattr(model, 'base_url', '')}"
        digest = blake2b(place.encode(), digest_size=12).hexdigest()
        self._key = f"{KEYS}{{shared}}.breaker.{digest}"
        link.join(self)

    def admit(self) -> int | Refused:
        """Return the ticket for a call, or why there must be none."""
        self._link.start()
        if self.state != "half_open" or self._may_probe():
            return super().admit()
        with self._lock:
            self._until = self._clock() + min(self._seconds, 1.0)
        detail = f"another process tries {self._model or 'the judge model'}, which was down"
        return Refused("circuit_open", detail, 1.0)

    def succeeded(self, ticket: int) -> None:
        """Report that the model answered, which closes the breaker for all."""
        was_open = self.state != "closed"
        super().succeeded(ticket)
        if was_open and self.state == "closed":
            self._link.ask(self._say_up)

    def failed(self, ticket: int) -> None:
        """Report a transient failure, which may open the breaker for all."""
        super().failed(ticket)
        if self.state == "open":
            self._link.ask(self._say_down)

    def unused(self, ticket: int) -> None:
        """Report that no call was made; another process may probe now."""
        super().unused(ticket)
        if self.state == "half_open":
            self._link.ask(lambda redis: redis.delete(f"{self._key}.probe"))

    def _may_probe(self) -> bool:
        """Return whether this process is the one that probes; without Redis it is."""
        if self._link.is_away:
            return True
        milliseconds = int(self._seconds * 1000)

        def claim(redis: Redis) -> bool:
            return bool(redis.set(f"{self._key}.probe", 1, nx=True, px=milliseconds))

        return self._link.ask(claim, PATIENCE_SECONDS) is not False

    def _say_down(self, redis: Redis) -> None:
        with self._lock:
            left = (self._until or 0.0) - self._clock()
        if left > 0:
            redis.delete(f"{self._key}.up")
            redis.set(f"{self._key}.down", self._run, px=max(int(left * 1000), 1))

    def _say_up(self, redis: Redis) -> None:
        redis.delete(f"{self._key}.down", f"{self._key}.probe")
        redis.set(f"{self._key}.up", 1, px=int(self._seconds * 1000))

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Open or close as the others did."""
        left: Any = redis.pttl(f"{self._key}.down")
        is_up = self.state != "closed" and redis.exists(f"{self._key}.up")
        with self._lock:
            if left > 0 and self._until is None:
                self._run = max(self._run, self._failures)
                self._until = self._clock() + left / 1000
                self._ticket += 1
            elif is_up:
                self._until, self._run = None, 0
                self._ticket += 1

    def leave(self, redis: Redis, /) -> None:
        """Leave the state to the others."""

    def forked(self) -> None:
        """Keep what the parent knew of the model."""
