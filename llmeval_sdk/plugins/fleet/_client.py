"""The app's side of a fleet: judgements go out in messages of up to 32, and verdicts come back.

One process of a host reads verdicts at a time: it holds a lease. A verdict leaves Redis only when
the exporters have it, however long they take. One that is read twice has the same ids both times;
this process emits it once, and only after a crash does another one emit it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from pathlib import Path
from socket import gethostname
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from llmeval_sdk.config import Settings
from llmeval_sdk.model import EvaluationEvent, NotRun, Usage
from llmeval_sdk.model.plain import UnreadableError
from llmeval_sdk.model.protocols import Exporter
from llmeval_sdk.pipeline.batch_exporter import Barrier
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.pipeline.judging import MAX_WAITING, DecisionJob, Job, Judging, QueuedJob
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.plugins.fleet._judgement_store import READER, RESULTS, JudgementStore, trouble
from llmeval_sdk.plugins.fleet._message import (
    FULL_BYTES,
    MAX_JUDGEMENTS,
    JudgementOutcome,
    body_of,
    envelope,
    judgement_id,
    judgement_text,
    outcome_of,
    signature,
)
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.redis_client import connect, is_redis_error
from llmeval_sdk.process.one_thread import OneThread
from llmeval_sdk.process.retries import pauses
from llmeval_sdk.process.shield import Counts, shield, tell
from llmeval_sdk.tracing.internals import off


if TYPE_CHECKING:
    from redis import Redis


AT_ONCE = 100
LEASE_SECONDS = 15.0
BUSY_SECONDS, IDLE_SECONDS, AWAY_SECONDS = 0.1, 1.0, 3.0
LOOK_SECONDS, RENEW_SECONDS = 0.01, 0.5
"""How soon after an emission the exporters are asked whether they have it, and how often the lease
is renewed while they do not. The pauses in between grow."""
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


class _Scripts:
    """The scripts that read what returns to a host."""

    def __init__(self, redis: Redis) -> None:
        self.lease = redis.register_script(_LEASE)
        self.renew = redis.register_script(_RENEW)
        self.remove = redis.register_script(_REMOVE)
        self.leave = redis.register_script(_LEAVE)


def _lease_milliseconds() -> int:
    return int(LEASE_SECONDS * 1000)


class VerdictReader:
    """Reads the verdicts that return to one host, in steps that wait for no exporter.

    The thread of the fleet takes the steps. Between reading verdicts and removing them from Redis,
    the exporters may take as long as they like: each step only looks whether they have them.
    """

    def __init__(
        self,
        own: FleetSettings,
        host: str,
        dispatcher: Dispatcher,
        counts: Counts,
        add_usage: Callable[[Usage], None],
    ) -> None:
        self._own = own
        self._keys = [READER + host, RESULTS + host]
        self._dispatcher, self._counts, self._add_usage = dispatcher, counts, add_usage
        self._me = uuid4().hex
        self._scripts: _Scripts | None = None
        self._due = monotonic() + IDLE_SECONDS
        self._emitted: set[bytes] = set()
        """Verdicts that were emitted here and are still in Redis."""
        self._batch = 0
        """How many verdicts leave Redis as soon as the exporters have them."""
        self._barriers: Sequence[Barrier] = ()
        self._pause = 0.0
        self._renew_at = 0.0

    @property
    def seconds(self) -> float:
        """How long the next step is not due."""
        return max(0.0, self._due - monotonic())

    def step(self) -> None:
        """Read verdicts, or remove those that the exporters have, where that is due."""
        if monotonic() >= self._due:
            pause = self._shielded(self._next)
            self._due = monotonic() + (AWAY_SECONDS if pause is None else pause)

    def finish(self) -> None:
        """Wait a moment for the exporters; what they do not have returns to the next process."""
        if self._batch:
            until = monotonic() + END_SECONDS
            for barrier in self._barriers:
                barrier.done.wait(max(0.0, until - monotonic()))
            self._shielded(self._next)
        with shield("fleet"):
            if self._scripts is not None:
                self._scripts.leave(keys=self._keys[:1], args=[self._me])

    def _shielded(self, step: Callable[[], float]) -> float | None:
        """Take a step; ``None`` where Redis is away."""
        with shield("fleet", on_own_thread=True):
            try:
                return step()
            except Exception as error:
                if not isinstance(error, OSError) and not is_redis_error(error):
                    raise
                tell("fleet", f"no verdicts can return: {type(error).__name__}")
        return None

    def _next(self) -> float:
        """Take the next step; return the seconds until the one after it."""
        scripts = self._scripts
        if scripts is None:
            assert self._own.judge_queue is not None
            scripts = self._scripts = _Scripts(connect(self._own.judge_queue))
        return self._remove(scripts) if self._batch else self._read(scripts)

    def _read(self, scripts: _Scripts) -> float:
        """Emit the verdicts that have returned, where this process holds the lease of its host."""
        texts = scripts.lease(keys=self._keys, args=[self._me, _lease_milliseconds(), AT_ONCE])
        if not texts:
            return IDLE_SECONDS
        self._emitted.intersection_update(texts)
        for text in texts:
            if text not in self._emitted:
                self._emitted.add(text)
                self._emit(text)
        self._batch, self._barriers = len(texts), self._dispatcher.barriers()
        self._pause, self._renew_at = LOOK_SECONDS, monotonic() + RENEW_SECONDS
        return self._pause

    def _remove(self, scripts: _Scripts) -> float:
        """Remove the verdicts from Redis where the exporters have them, else keep the lease."""
        if all(barrier.done.is_set() for barrier in self._barriers):
            # Where the reply is lost, Redis may have removed them: the next step reads again.
            batch, self._batch = self._batch, 0
            if scripts.remove(keys=self._keys, args=[self._me, batch]):
                self._emitted.clear()
            return BUSY_SECONDS
        if monotonic() >= self._renew_at:
            self._renew_at = monotonic() + RENEW_SECONDS
            scripts.renew(keys=self._keys[:1], args=[self._me, _lease_milliseconds()])
        self._pause = min(2 * self._pause, RENEW_SECONDS)
        return self._pause

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


LINGER_SECONDS = 0.05
"""How long the first judgement of a message waits for others."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0
SENDING_END_SECONDS = 0.3
"""How long the end waits for a message that is under way."""


class FleetClient(Judging):
    """Takes judgements as `Judging` does, and has a fleet make them.

    A judgement is done, for whoever waits for it, when the fleet has it.
    """

    def __init__(self, plan: Plan, dispatcher: Dispatcher, settings: Settings) -> None:
        super().__init__(plan, dispatcher)
        self._places["judgement"] = 0  # only the decision model is asked here
        self._own = settings.of(FleetSettings)
        assert self._own.judge_queue is not None
        self._queue = self._own.judge_queue
        self._host = _host_of(settings) if _returns(plan.exporters) else None
        self.fleet = Counts()
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._ended = threading.Event()
        self._ended.set()
        self._thread = OneThread(self._serve, name="llmeval-fleet")
        self._redis: Redis | None = None
        self._store: JudgementStore | None = None
        self._is_away = False
        """Whether the last attempt to put a message into the queue failed."""
        self._away_because = ""
        self._is_kept_whole = not plan.redactor.has_custom
        """Whether the spool keeps all that judges read. With an own redaction it does not."""
        self._used_by_fleet = Usage()
        """What judgements used whose verdicts have returned; the fleet's thread alone adds."""
        self._reader = (
            None
            if self._host is None
            else VerdictReader(self._own, self._host, dispatcher, self.fleet, self._add_usage)
        )

    @property
    def thread(self) -> OneThread:
        """The thread that hands judgements to the fleet."""
        return self._thread

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        if self._plan.decisions is not None:
            super().start()
        return self._thread.start()

    def submit(self, job: Job) -> Future[None] | None:
        """Take a job for the fleet, or emit why it does not run."""
        if self._shut:
            self._emit(job.not_run("shutdown", "the process was ending"))
        elif len(self._judgements) >= MAX_WAITING and not self._make_room(job):
            return self._overflow(job)
        elif not self.start():
            self._emit(job.not_run("no_worker", "no thread could be started"))
        else:
            turn = QueuedJob(job)
            self._judgements.add(turn.done)
            self._waiting[turn.done] = turn
            self._jobs.add(turn)
            if len(self._judgements) >= MAX_JUDGEMENTS:
                self._urgent.set()
            self._wake.set()
            if self._shut:  # by another thread, which may have gone through those that wait
                self._cut(turn)
            return turn.done
        return None

    def _make_room(self, job: Job) -> bool:
        """Drop a waiting job that was not escalated, for one that was; False where none waits."""
        turn = self._jobs.give_up() if job.admitted.escalated else None
        if turn is None:
            return False
        if self._stays(turn.job):
            self._leave_in_spool(turn)
        else:
            if turn.take():
                self._emit(self._unreachable(turn.job))
            self._settle(turn)
        return True

    def _overflow(self, job: Job) -> Future[None] | None:
        """Leave a job in the spool where its record is there, or count that it is lost."""
        if not self._stays(job):
            self._emit(self._unreachable(job))
            return None
        turn = QueuedJob(job)
        self._leave_in_spool(turn)
        return turn.done

    def _stays(self, job: Job) -> bool:
        """Return whether the spool holds what the judge would read, for the next process.

        It has no spans of other libraries, and nothing for which it had no room.
        """
        return self._is_kept_whole and job.in_spool

    def _leave_in_spool(self, turn: QueuedJob[Job]) -> None:
        """Give a job up so that its record stays in the spool, for the next process."""
        if turn.take():
            self.fleet.add("spooled")
        self._judgements.discard(turn.done)
        self._waiting.pop(turn.done, None)
        if turn.done.cancel():
            turn.done.set_running_or_notify_cancel()

    def _unreachable(self, job: Job) -> NotRun:
        if self._is_away:
            return job.not_run("queue_unreachable", self._away_because)
        return job.not_run("queue_full", f"{MAX_WAITING} judgements were waiting")

    def shut(self) -> None:
        """Give up all jobs that wait, and emit each as not run; those under way may still go."""
        self._shut = True
        self._urgent.set()
        self._wake.set()
        self._ended.wait(SENDING_END_SECONDS)
        super().shut()

    def _cut(self, turn: QueuedJob[Job] | QueuedJob[DecisionJob]) -> None:
        """Give up a job because the process ends."""
        job = turn.job
        if isinstance(job, Job) and self._is_away and not self._stays(job) and turn.take():
            self._emit(self._unreachable(job))
        super()._cut(turn)

    @property
    def usage(self) -> Usage:
        """What the decisions of this process and the judgements of the fleet used together."""
        return self._used + self._used_by_fleet

    def _add_usage(self, usage: Usage) -> None:
        self._used_by_fleet += usage

    # -- on the fleet's thread --------------------------------------------------------------------

    def _serve(self) -> None:
        """Send judgements and read verdicts, by turns: both wait for the same Redis only."""
        self._ended.clear()
        off()  # spans of the client's own calls are not the app's
        while not self._shut:
            if self._wake.wait(None if self._reader is None else self._reader.seconds):
                self._urgent.wait(LINGER_SECONDS)
                self._wake.clear()
                self._urgent.clear()
                with shield("fleet", on_own_thread=True):
                    while not self._shut and (turns := self._next_turns()):
                        self._send(turns)
                        self._read()
            self._read()
        self._ended.set()
        if self._reader is not None:
            self._reader.finish()

    def _read(self) -> None:
        if self._reader is not None and not self._shut:
            self._reader.step()

    def _next_turns(self) -> list[tuple[QueuedJob[Job], str, str]]:
        """Write the next judgements: as many as a message may hold, by number and by size."""
        written: list[tuple[QueuedJob[Job], str, str]] = []
        size = 0
        while len(written) < MAX_JUDGEMENTS and size < FULL_BYTES:
            turn = self._jobs.next()
            if turn is None:
                break
            try:
                serial = judgement_id(turn.job.judge.name, turn.job.target)
                text = judgement_text(turn.job, serial)
            except Exception as error:  # a record that cannot be written costs only itself
                if turn.take():
                    detail = (
                        f"too_large: {error}" if isinstance(error, ValueError) else "unwritable"
                    )
                    self.fleet.add(detail.partition(":")[0])
                    self._emit(turn.job.not_run("error", detail))
                self._settle(turn)
                continue
            size += len(text)
            written.append((turn, serial, text))
        return written

    def _send(self, written: list[tuple[QueuedJob[Job], str, str]]) -> None:
        """Queue a message, however long that takes; at the end of the process, once more."""
        key = self._own.fleet_key
        assert key is not None
        ids = [serial for _, serial, _ in written]
        body = body_of([text for *_, text in written], ids, host=self._host)
        name = signature(body, key)
        message = envelope(body, name, uuid4().hex)
        waits = pauses(FIRST_PAUSE, MAX_PAUSE, spread=(0.5, 1.5))
        while not self._put(message, ids, name):
            if self._shut:
                return  # `shut` emits what became of them
            if all(turn.done.done() for turn, *_ in written):
                return  # all of them were given up meanwhile
            self._urgent.wait(next(waits))
            self._read()
        for turn, *_ in written:
            if turn.take():
                self.fleet.add("handed_over")
            self._settle(turn)

    def _put(self, message: str, ids: list[str], name: str) -> bool:
        try:
            if self._store is None:
                self._redis = connect(self._queue)
                self._store = JudgementStore(self._redis)
            self._is_away = self._store.put(message, ids, name=name) < 0
            if self._is_away:
                self._away_because = f"{self._queue.place}: its queue of judgements is full"
                tell("fleet", self._away_because)
        except Exception as error:
            self._is_away, self._away_because = True, f"{self._queue.place} does not answer"
            why = trouble(error, self._redis)
            tell("fleet", f"{self._queue.place} cannot be reached: {why}")
        return not self._is_away


def _host_of(settings: Settings) -> str:
    """Name the host to which verdicts return: all processes that share a store are one."""
    place = f"{gethostname()}\0{Path(settings.store).absolute()}"
    return blake2b(place.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _returns(exporters: Sequence[Exporter]) -> bool:
    """Return whether verdicts come back: an exporter writes where only the asking host can read."""
    return any(exporter.name in ("local", "memory", "console") for exporter in exporters)
