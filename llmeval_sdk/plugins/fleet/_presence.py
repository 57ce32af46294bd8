"""What workers say of themselves in Redis, so that `llmeval doctor --fleet` can read it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from time import time
from typing import Any

from llmeval_sdk.plugins.fleet._keys import WORKERS, trouble
from llmeval_sdk.plugins.fleet._register import Register
from llmeval_sdk.plugins.shared.client import is_redis_error
from llmeval_sdk.process.shield import shield, tell


BEAT_SECONDS = 5.0
GONE_SECONDS = 20.0
"""A worker that has said nothing for so long has ended, or cannot reach Redis."""
FORGOTTEN_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class WorkerPresence:
    """What one worker says of itself."""

    name: str
    release: str
    messages: Sequence[int]
    """The versions of messages that it reads."""
    judges: Sequence[str]
    key: str
    """A fingerprint of its key; see `fingerprint`."""
    pool: str
    slots: int
    model: str = ""
    exporters: Sequence[str] = ()
    problems: Sequence[str] = ()
    at: float = 0.0
    """When it last said so, by the clock of Redis."""
    ahead: float = 0.0
    """By how many seconds its clock is ahead of that of Redis."""


def now(redis: Any) -> float:
    """Return the time by the clock of Redis."""
    seconds, micros = redis.time()
    return float(seconds + micros / 1e6)


def workers(redis: Any) -> list[WorkerPresence]:
    """Return the workers that said something in the last hour, by name; forget the others."""
    present, at = [], now(redis)
    for name, text in sorted(redis.hgetall(WORKERS).items()):
        try:
            worker = _worker(json.loads(text))
            is_forgotten = at - worker.at > FORGOTTEN_SECONDS
        except (ValueError, TypeError, AttributeError):
            is_forgotten = True
        if is_forgotten:
            redis.hdel(WORKERS, name)
        else:
            present.append(worker)
    return present


def _worker(said: Mapping[str, Any]) -> WorkerPresence:
    """Make a worker of what it said; the fields that only a newer release knows are left out."""
    known = {field.name for field in fields(WorkerPresence)}
    return WorkerPresence(**{name: value for name, value in said.items() if name in known})


class Presence:
    """Says every few seconds that a worker is there, and looks after judgements that nobody has.

    Args:
        redis: a client.
        register: where lost messages are queued again, and what waited too long is refused.
        worker: the fields of `WorkerPresence` that do not change.
        lost_after: seconds after which a message that nobody has acknowledged got lost.
    """

    def __init__(
        self, redis: Any, register: Register, worker: Mapping[str, Any], *, lost_after: float
    ) -> None:
        self._redis, self._register, self._worker = redis, register, dict(worker)
        self._lost_after = lost_after
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="llmeval-presence", daemon=True)

    def start(self) -> None:
        """Begin to say so, on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Say that the worker has ended."""
        self._ending.set()
        self._thread.join(BEAT_SECONDS)
        with shield("fleet"):
            self._redis.hdel(WORKERS, self._worker["name"])

    def _run(self) -> None:
        while True:
            with shield("fleet", on_own_thread=True):
                try:
                    self._beat()
                except Exception as error:
                    if not is_redis_error(error):
                        raise
                    tell("fleet", f"Redis cannot be used: {trouble(error, self._redis)}")
            if self._ending.wait(BEAT_SECONDS):
                return

    def _beat(self) -> None:
        at = now(self._redis)
        worker = WorkerPresence(**{**self._worker, "at": at, "ahead": time() - at})
        self._redis.hset(WORKERS, worker.name, json.dumps(asdict(worker)))
        self._register.queue_again(self._lost_after)
        self._register.sweep()
