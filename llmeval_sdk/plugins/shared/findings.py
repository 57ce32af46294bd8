"""What `llmeval doctor` says of the Redis that all hosts share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.plugins.shared.amounts import MICROS, limits_of
from llmeval_sdk.plugins.shared.limiter import LEASE_SECONDS, REBUILD_SECONDS, keys, script
from llmeval_sdk.plugins.shared.redis_client import connect
from llmeval_sdk.plugins.shared.settings import SharedSettings


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
        yield from _budget(redis, settings)
    except (RedisError, OSError) as error:
        words = f"{type(error).__name__}: {error}; until it answers, no host pays for a judge"
        yield False, place, words


def _budget(redis: Redis, settings: Settings) -> Iterator[_Finding]:
    budget = Budget(
        calls_per_minute=settings.calls_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        usd_per_day=settings.usd_per_day,
    )
    limits = limits_of(budget, None)
    reply = look(redis, "judges", limits)
    status = reply["status"]
    if status == "unused":
        words = f"it opens {REBUILD_SECONDS:g} s after the first process asks, and when all known"
        yield None, "budget", f"Redis was restarted, or has no data of it: {words} hosts reported"
        return
    if status == "closed":
        missing = ", ".join(reply["awaited"]) or "none"
        words = f"for {reply['opens_in']:.0f} s at least; hosts that have not reported: {missing}"
        yield None, "budget", f"closed until it is rebuilt from the hosts' ledgers, {words}"
        return
    left, most = reply["left"][""], limits[""]
    used = reply["used"][""]
    if "usd" in left:
        rest, total = max(left["usd"], 0) / MICROS, most["usd"] / MICROS
        words = f"{used['usd'] / MICROS:.4f} used, the others are leased"
        yield rest > 0, "dollars", f"{rest:.4f} of {total:g} left today; {words}"
    for what, words in (("calls", "calls"), ("tokens", "tokens")):
        if what in left:
            number = f"{max(left[what], 0):,.0f} of {most[what]:,.0f}"
            yield True, words, f"{number} left for this minute, over all hosts"
    if "slots" in left:
        yield True, "at a time", f"{max(left['slots'], 0):g} of {most['slots']:g} calls may begin"
    hosts = list(reply["known"]["live"])
    names = ", ".join(hosts[:5]) + (", …" if len(hosts) > 5 else "")
    yield True, "hosts", f"{len(hosts)} in the last minute ({names or 'none'})"


def look(redis: Redis, name: str, limits: object) -> dict[str, Any]:
    """Return what the script says of a budget, without changing it."""
    request = {"look": True, "limits": limits, "lease": LEASE_SECONDS, "rebuild": REBUILD_SECONDS}
    run = redis.register_script(script())
    reply: dict[str, Any] = json.loads(run(keys=keys(name), args=[json.dumps(request)]))
    return reply
