"""What hosts tell each other of a model: one finds it dead, and one probes it for all."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread


if TYPE_CHECKING:
    from redis import Redis


class BreakerNews:
    """Tells the others with every beat what a breaker found out, and the breaker what they did.

    Two keys hold that for as long as a cool-down: ``down`` or ``up``, and that somebody probes.
    While Redis is away, each process decides for itself.
    """

    def __init__(self, breaker: Breaker, model: Any, link: RedisThread) -> None:
        self._breaker = breaker
        self._link = link
        self._milliseconds = int(breaker.cool_down * 1000)
        place = f"{getattr(model, 'model', '')}@{getattr(model, 'base_url', '')}"
        digest = blake2b(place.encode("utf-8", "replace"), digest_size=12).hexdigest()
        self._key = f"{KEYS}{{shared}}.breaker.{digest}"
        self._is_prober = False
        breaker.may_probe = self._may_probe

    def _may_probe(self) -> bool:
        self._link.start()
        return self._is_prober or self._link.is_away

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Open or close as the others did, or say what was found out here."""
        news = self._breaker.news
        if news is not None:
            redis.set(self._key, news, px=self._milliseconds)
            redis.delete(f"{self._key}.probe")
            self._breaker.news = None
        else:
            said: Any = redis.get(self._key)
            left: Any = redis.pttl(self._key)
            if said in (b"up", b"down") and left > 0:
                self._breaker.hear("up" if said == b"up" else "down", left / 1000)
        if self._breaker.state != "half_open":
            self._is_prober = False
        elif not self._is_prober:
            claimed = redis.set(f"{self._key}.probe", 1, nx=True, px=self._milliseconds)
            self._is_prober = bool(claimed)

    def forked(self) -> None:
        """Leave the probe to the parent."""
        self._is_prober = False
