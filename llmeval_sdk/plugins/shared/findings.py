"""What `llmeval doctor` says of the Redis that all hosts share."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.plugins.shared.counters import MICROS, RedisCounters, limits_of
from llmeval_sdk.plugins.shared.redis_client import RedisThread, connect
from llmeval_sdk.plugins.shared.settings import RedisAddress, SharedSettings


if TYPE_CHECKING:
    from redis import Redis


_Finding = tuple[bool | None, str, str]


def findings(settings: Settings, *, offline: bool = False) -> Iterator[_Finding]:
    """Yield whether Redis answers, who shares the budget, and what is left; changes nothing."""
    own = settings.of(SharedSettings)
    if own.shared is None:
        return
    place = own.shared.place
    if offline:
        yield None, place, "not contacted (--offline)"
        return
    try:
        redis = connect(own.shared, connect_seconds=2.0, answer_seconds=2.0)
    except ConfigurationError as error:
        yield False, "LLMEVAL_SHARED", f"{error}; until then no judge pays"
        return
    from redis.exceptions import RedisError

    try:
        begun = perf_counter()
        version = redis.info("server")["redis_version"]
        milliseconds = (perf_counter() - begun) * 1000
        yield True, place, f"Redis {version}, answered in {milliseconds:.1f} ms"
        yield from _budget(redis, own.shared, settings)
    except (RedisError, OSError) as error:
        why = f"{type(error).__name__}: {error}"
        yield False, place, f"{why}; until it answers, each host keeps to the budget by itself"


def _budget(redis: Redis, address: RedisAddress, settings: Settings) -> Iterator[_Finding]:
    budget = Budget(
        calls_per_minute=settings.calls_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        usd_per_day=settings.usd_per_day,
    )
    counters = RedisCounters(RedisThread(address))
    for limit in limits_of("", budget):
        used = counters.used(redis, limit)
        left = max(limit.most - used, 0)
        if limit.what == "usd":
            words = f"{left / MICROS:.4f} of {limit.most / MICROS:g} left today"
            yield left > 0, "dollars", f"{words}; {used / MICROS:.4f} used or reserved"
        else:
            words = f"{left:,} of {limit.most:,} left for this minute, over all hosts"
            yield True, limit.what, words
