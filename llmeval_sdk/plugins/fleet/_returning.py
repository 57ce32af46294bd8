"""Takes the outcomes that return to this host, and emits them as if they had been made here.

One process of a host reads at a time: it holds a lease. An outcome leaves Redis only when the
exporters have it, however long they take. One that is read twice has the same ids both times; this
process emits it once, and only after a crash does another one emit it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from llmeval_sdk.model import EvaluationEvent
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.plugins.fleet._keys import READER, RESULTS
from llmeval_sdk.plugins.fleet._message import JudgementOutcome, UnreadableError, outcome_of
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.client import connect, is_redis_error
from llmeval_sdk.process.counters import Counts
from llmeval_sdk.process.shield import shield, tell
from llmeval_sdk.process.threads import OneThread
from llmeval_sdk.tracing.internals import off


AT_ONCE = 100
LEASE_SECONDS = 15.0
BUSY_SECONDS, IDLE_SECONDS, AWAY_SECONDS = 0.1, 1.0, 3.0
WAIT_SECONDS = 0.5
END_SECONDS = 1.0
"""How long the end of the process waits for the exporters to have what was emitted."""

_LEASE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[3]) - 1)
"""
_REMOVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('LTRIM', KEYS[2], ARGV[2], -1)
return 1
"""
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
_LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Returning:
    """Reads the outcomes of one host on a thread of its own."""

    def __init__(
        self,
        own: FleetSettings,
        host: str,
        dispatcher: Dispatcher,
        counts: Counts,
        add_usage: Callable[[Any], None],
    ) -> None:
        self._own = own
        self._keys = [READER + host, RESULTS + host]
        self._dispatcher, self._counts, self._add_usage = dispatcher, counts, add_usage
        self._me = uuid4().hex
        self._closing = threading.Event()
        self._thread = OneThread(self._run, name="llmeval-verdicts")
        self._scripts: Any = None
        self._emitted: set[bytes] = set()
        """Outcomes that were emitted here and are still in Redis."""

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self._thread.start()

    def shut(self) -> None:
        """Read nothing more; what is left returns to the next process of this host."""
        self._closing.set()

    def _run(self) -> None:
        off()
        pause = IDLE_SECONDS
        while not self._closing.wait(pause):
            pause = AWAY_SECONDS
            with shield("fleet", on_own_thread=True):
                try:
                    pause = BUSY_SECONDS if self._read() else IDLE_SECONDS
                except OSError as error:
                    tell("fleet", f"no verdicts can return: {type(error).__name__}")
                except Exception as error:
                    if not is_redis_error(error):
                        raise
                    tell("fleet", f"no verdicts can return: {type(error).__name__}")
        with shield("fleet"):
            if self._scripts is not None:
                self._scripts[-1](keys=self._keys[:1], args=[self._me])

    def _read(self) -> int:
        """Take what has returned; return how many outcomes that were."""
        if self._scripts is None:
            assert self._own.judge_queue is not None
            redis = connect(self._own.judge_queue)
            scripts = (_LEASE, _RENEW, _REMOVE, _LEAVE)
            self._scripts = [redis.register_script(text) for text in scripts]
        lease, renew, remove, _ = self._scripts
        milliseconds = int(LEASE_SECONDS * 1000)
        texts = lease(keys=self._keys, args=[self._me, milliseconds, AT_ONCE])
        if not texts:
            return 0
        self._emitted.intersection_update(texts)
        for text in texts:
            if text not in self._emitted:
                self._emitted.add(text)
                self._emit(text)
        barriers = self._dispatcher.barriers()
        waits_until = inf
        while not all(barrier.done.wait(WAIT_SECONDS) for barrier in barriers):
            if self._closing.is_set():
                waits_until = min(waits_until, monotonic() + END_SECONDS)
            if monotonic() > waits_until:
                return 0  # the next process of this host reads them again
            renew(keys=self._keys[:1], args=[self._me, milliseconds])
        if remove(keys=self._keys, args=[self._me, len(texts)]):
            self._emitted.clear()
        return len(texts)

    def _emit(self, text: bytes) -> None:
        assert self._own.fleet_key is not None
        try:
            outcome: JudgementOutcome = outcome_of(text, self._own.fleet_key)
        except UnreadableError as error:
            self._counts.add("unreadable")
            tell("fleet", f"a verdict is left out: {error}")
            return
        for item in outcome.items:
            if type(item) is EvaluationEvent and item.evaluation.usage is not None:
                self._add_usage(item.evaluation.usage)
            self._dispatcher.emit_judged(item)
        self._counts.add("returned")
