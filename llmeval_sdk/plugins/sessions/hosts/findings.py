"""What `llmeval doctor` says of the sessions of all hosts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.sessions.hosts._wire import DUE
from llmeval_sdk.plugins.shared.client import connect
from llmeval_sdk.plugins.shared.settings import SharedSettings


Finding = tuple[bool | None, str, str]
_LATE_MS = 600_000


def findings(
    settings: Settings, database: sqlite3.Connection, *, offline: bool
) -> Iterator[Finding]:
    """Say what Redis was not told yet, and how many sessions of all hosts are open; change nothing.

    ``database`` is the file of this host's sessions.
    """
    own = settings.of(SharedSettings)
    if own.shared is None:
        return
    place = own.shared.place
    tables = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'unshared'").fetchone()
    if tables is not None:
        waiting = database.execute("SELECT count(*) FROM unshared").fetchone()[0]
        if waiting:
            words = f"{waiting:,} turns of this host wait for {place}; none of them is lost"
            yield None, "not shared yet", words
    if not offline:
        yield from _of_redis(own.shared, place)


def _of_redis(address: Any, place: str) -> Iterator[Finding]:
    try:
        redis = connect(address, connect_seconds=2.0, answer_seconds=2.0)
    except ConfigurationError:  # which the check of what is shared tells
        return
    from redis.exceptions import RedisError

    try:
        seconds, _ = redis.time()
        waiting: Any = redis.zcard(DUE)
        late: Any = redis.zcount(DUE, "-inf", int(seconds) * 1000 - _LATE_MS)
    except (RedisError, OSError) as error:
        words = f"{type(error).__name__}: until it answers, sessions wait and none is evaluated"
        yield False, place, words
        return
    yield True, place, f"{waiting:,} sessions of all hosts are open"
    if late:
        words = (
            f"{late:,} have been due for more than ten minutes: no process with evaluators of "
            "sessions is recording on any host, or there are too few of them"
        )
        yield None, "late", words
