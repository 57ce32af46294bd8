"""The worker's side of a fleet: the judgements of a message, made with this process's judges."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from llmeval_sdk import registry
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.scoring import own_copy
from llmeval_sdk.model.plain import UnreadableError
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.pipeline.judging import Job, Judging, not_run
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.plugins.fleet._judgement_store import Claim, JudgementStore, trouble
from llmeval_sdk.plugins.fleet._message import (
    Asked,
    FleetMessage,
    JudgementOutcome,
    RefusedError,
    message_of,
    outcome_of,
)
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.redis_client import connect, is_redis_error
from llmeval_sdk.process.shield import shield, swallow, tell


CLAIM_MARGIN = 2.0
"""Seconds by which a claim outlasts the judge's own deadline."""
PATIENCE = 60.0
"""Seconds for which a worker waits for a Redis that is away, before it gives its message back."""
DELIVERY_SECONDS = 30.0
"""Seconds for which a worker waits for its exporters, before it gives its message back."""
MAX_EMITTED = 50_000
"""Verdicts that a process remembers to have emitted while its exporters do not have them."""
_LOOK_SECONDS = 0.05
_AWAY_SECONDS = 0.25


NOTE_SECONDS = 5.0
"""How long a verdict that was emitted waits for others until exporters are asked whether they have
it. It is well below `HOLD_SECONDS`, after which another worker emits it again."""


class DeliveryTracker:
    """Follows what one message emits until all exporters have it.

    Args:
        outlet: where it is emitted.
        note: notes in the store that the exporters have the verdicts of some ids.
    """

    def __init__(self, dispatcher: Dispatcher, note: Callable[[Sequence[str]], None]) -> None:
        self._dispatcher, self._note = dispatcher, note
        self._emitted: list[str] = []
        self._under_way: list[str] = []
        self._barriers: list[Any] = []
        self._asked_at = monotonic()

    def add(self, judgement: str) -> None:
        """Follow a verdict that was emitted just now."""
        self._emitted.append(judgement)

    def look(self) -> None:
        """Note what has arrived, and begin to follow what was emitted since; waits for nothing."""
        if self._under_way and all(barrier.done.is_set() for barrier in self._barriers):
            self._note(self._under_way)
            self._under_way = []
        if not self._under_way and monotonic() > self._asked_at + NOTE_SECONDS:
            self._follow()

    def _follow(self) -> None:
        self._asked_at = monotonic()
        if self._emitted:
            self._under_way, self._emitted = self._emitted, []
            self._barriers = self._dispatcher.barriers()

    def finish(self, seconds: float) -> bool:
        """Wait so many seconds for the exporters; return whether they have all, and note it."""
        self._emitted = self._under_way + self._emitted
        self._follow()
        deadline = monotonic() + seconds
        for barrier in self._barriers if self._under_way else ():
            if not barrier.done.wait(max(0.0, deadline - monotonic())):
                return False
        self.look()
        return True


def wait_for_budget(limiter: BudgetLimiter, seconds: float) -> None:
    """Wait a moment until a call would be paid for; judgements taken before would be refused.

    The budget of a minute comes back within it.
    """
    deadline = monotonic() + seconds
    while (refused := _refusal(limiter)) is not None:
        after = refused.retry_after
        if after is None or monotonic() + after > deadline:
            return
        sleep(min(after, 0.2))


def _refusal(limiter: BudgetLimiter) -> Refused | None:
    """Return why a call would not be paid for now; nothing stays reserved."""
    reserved = limiter.reserve("", calls=1)
    if isinstance(reserved, Refused):
        return reserved
    refused = limiter.confirm_now(reserved)
    if refused is None:
        with shield("fleet", calls_out=True):
            limiter.release(reserved)
    return refused


class GiveBackError(Exception):
    """The message cannot be finished now: it belongs back in the queue."""


class FleetWorker(Judging):
    """Makes judgements of messages. Those of this process's own requests run as without a fleet."""

    def __init__(self, plan: Plan, dispatcher: Dispatcher, own: FleetSettings) -> None:
        super().__init__(plan, dispatcher)
        assert own.judge_queue is not None
        assert own.fleet_key is not None
        self.key = own.fleet_key
        self._dispatcher = dispatcher
        self._redis = connect(own.judge_queue)
        self._store = JudgementStore(self._redis)
        self._emitted: OrderedDict[str, None] = OrderedDict()
        """The judgements whose verdicts wait for exporters here: their message may come again."""
        self.room = threading.BoundedSemaphore(plan.concurrency)
        """One place for each judgement that may run at a time in this process."""

    def answer(self, body: Any, signed: Any) -> None:
        """Make the judgements of a message, each once, and wait until exporters have the verdicts.

        Raises:
            GiveBackError: Redis stays away, no thread can be started, or exporters do not take the
                verdicts in time.
        """
        try:
            message = message_of(body, signed, self.key)
        except RefusedError as error:
            self._refuse(error)
            if error.ids:  # only a message that is signed has any, and all have an outcome now
                self.patiently(lambda: self._store.forget_message(signed))
            return
        if not self._loop.is_ready():
            raise GiveBackError("no thread can be started")
        for serial in message.unreadable:
            self.note_outcome(JudgementOutcome(serial, []), "refused:unreadable", None)
        wait_for_budget(self._plan.limiter, self._plan.judge_timeout)
        sending = DeliveryTracker(self._dispatcher, self._note_sent)
        work = _MessageWork(self, message, sending)
        work.run()
        if work.is_replayed:
            self._refuse(RefusedError("replayed"))
        if not sending.finish(DELIVERY_SECONDS):
            raise GiveBackError("exporters have not taken the verdicts yet")
        self.patiently(lambda: self._store.forget_message(signed))

    def _refuse(self, error: RefusedError) -> None:
        tell("fleet", f"a message is refused: {error.reason}")
        for serial in error.ids:
            self.note_outcome(JudgementOutcome(serial, []), f"refused:{error.reason}", None)
        if not error.ids:
            self.patiently(lambda: self._store.refuse_message(error.reason))

    def note_outcome(
        self, outcome: JudgementOutcome, field: str, host: str | None, owner: str = ""
    ) -> bytes | None:
        """Note an outcome, unless there is one already, and return that."""
        text = outcome.text(self.key)
        first: bytes | None = self.patiently(
            lambda: self._store.settle(outcome.id, text, field=field, host=host, owner=owner)
        )
        return first

    def _note_sent(self, judgements: Sequence[str]) -> None:
        self.patiently(lambda: self._store.note_sent(judgements))
        for judgement in judgements:
            self._emitted.pop(judgement, None)

    def patiently(self, ask: Any) -> Any:
        """Ask Redis until it answers; raises `GiveBackError` where it stays away."""
        until = monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except Exception as error:
                if not is_redis_error(error):
                    raise
                tell("fleet", f"Redis cannot be used: {trouble(error, self._redis)}")
                if monotonic() > until:
                    raise GiveBackError("Redis stays away") from error
            sleep(_AWAY_SECONDS)

    # -- one judgement ----------------------------------------------------------------------------

    def known(self, name: str) -> Judge | None:
        """Return the judge of a name, of those that were configured here and the built-in ones.

        No name in a message is ever imported as an address: one with a colon is that of a
        configured judge or of a family.
        """
        family, colon, _ = name.partition(":")
        if colon and family not in registry.table("families"):
            return next((judge for judge in self._plan.judges if judge.name == name), None)
        try:
            evaluator = self._plan.find(name)
        except Exception as error:
            if not swallow("fleet", error):
                raise
            return None
        return evaluator if evaluator is not None and evaluator.kind == "judge" else None

    def claim(self, serial: str, owner: str, sent: float) -> Claim:
        """Claim a judgement for as long as its judge may take."""
        seconds = self._plan.judge_timeout + CLAIM_MARGIN
        claim: Claim = self.patiently(
            lambda: self._store.claim(serial, owner, seconds=seconds, sent=sent)
        )
        return claim

    def begin(self, job: Job) -> Future[list[Any]]:
        """Have a judgement made on the judges' thread; its result is what it emits."""
        loop = self._loop._loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(self._made(job), loop)

    async def _made(self, job: Job) -> list[Any]:
        try:
            items = await self._judge(job)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            swallow(f"judge {job.judge.name}", error)
            items = [job.not_run("error", type(error).__name__)]
        return [self._dispatcher.written(item) for item in items]

    def emit_once(self, judgement: str, items: Iterable[Any]) -> None:
        """Emit what came of a judgement, unless that still waits for an exporter here."""
        if judgement in self._emitted:
            return
        while len(self._emitted) >= MAX_EMITTED:
            self._emitted.popitem(last=False)
        self._emitted[judgement] = None
        for item in items:
            self._emit(item)


class _MessageWork:
    """The work on one message, on the thread of its task."""

    def __init__(self, by: FleetWorker, message: FleetMessage, sending: DeliveryTracker) -> None:
        self._by = by
        self._me = uuid4().hex
        """Who holds its claims: one process works on several messages, and two may be the same."""
        self._sending = sending
        self._host, self._sent = message.host, message.sent
        self.is_replayed = False
        """Whether it holds judgements of which nothing is known, and its time is not of now."""
        self._waiting = deque({asked.id: asked for asked in message.asked}.values())
        self._held: list[tuple[float, Asked]] = []
        self._running = 0
        self._ended: SimpleQueue[tuple[Asked, Future[list[Any]]]] = SimpleQueue()

    def run(self) -> None:
        """Make all judgements, each unless another worker makes it."""
        while self._waiting or self._running or self._held:
            self._take_back()
            self._sending.look()
            # A place that another message's judgement leaves wakes whoever still has one to begin.
            while self._waiting and self._by.room.acquire(timeout=_LOOK_SECONDS):
                asked = self._waiting.popleft()
                self._alone(asked, self._begin, asked)
                self._end_finished(0.0)
            self._end_finished(0.0 if self._waiting else _LOOK_SECONDS)

    def _end_finished(self, seconds: float) -> None:
        """Deal with judgements that have finished; wait up to ``seconds`` for the first."""
        with suppress(Empty):
            while True:
                asked, future = self._ended.get(timeout=seconds)
                seconds = 0.0
                self._running -= 1
                self._alone(asked, self._end, asked, future.result())

    def _alone(self, asked: Asked, step: Callable[..., None], *arguments: object) -> None:
        """Take a step of one judgement, which ends alone where the step raises."""
        try:
            step(*arguments)
        except GiveBackError:
            raise
        except Exception as error:
            if not swallow("fleet", error):
                raise
            self._refuse(asked, "error", "error", type(error).__name__)

    def _take_back(self) -> None:
        """Look again at judgements that another worker held."""
        now = monotonic()
        self._waiting.extend(asked for at, asked in self._held if at <= now)
        self._held = [(at, asked) for at, asked in self._held if at > now]

    def _look_again(self, asked: Asked, seconds: float) -> None:
        """Look again at a judgement when whoever holds it may have finished."""
        self._held.append((monotonic() + min(seconds, 1.0) + _LOOK_SECONDS, asked))

    def _begin(self, asked: Asked) -> None:
        """Claim a judgement and begin it; whatever else becomes of it frees its place again."""
        is_begun = False
        try:
            claim = self._by.claim(asked.id, self._me, self._sent)
            judge = self._by.known(asked.judge)
            if claim.state == "claimed" and judge is not None:
                job = Job(judge, own_copy(asked.record), asked.target, asked.admitted)
                future = self._by.begin(job)
                self._running += 1
                is_begun = True
                future.add_done_callback(lambda done: self._note(asked, done))
            elif claim.state == "held":
                self._look_again(asked, claim.seconds)
            elif claim.state == "replayed":
                self.is_replayed = True
            elif claim.state == "settled":
                self._attach(asked, claim)
            elif claim.state == "claimed":
                self._refuse(asked, "error", "unknown_judge", "the fleet has no judge of this name")
            elif claim.state == "expired":
                self._refuse(asked, "error", "expired", "no worker had time for it")
            else:
                self._refuse(asked, "worker_lost", "worker_lost", "workers ended while they judged")
        finally:
            if not is_begun:
                self._by.room.release()

    def _note(self, asked: Asked, future: Future[list[Any]]) -> None:
        """Free the place and wake the task; on the judges' thread."""
        self._by.room.release()
        self._ended.put((asked, future))

    def _refuse(self, asked: Asked, reason: str, counted: str, detail: str) -> None:
        judge: Any = _NamedJudge(asked.judge)
        item = not_run(judge, asked.target, reason, f"{counted}: {detail}")
        self._end(asked, [item], f"refused:{counted}")

    def _end(self, asked: Asked, items: list[Any], field: str = "") -> None:
        """Settle a judgement, and emit it where its outcome does not return to its host."""
        outcome = JudgementOutcome(asked.id, items)
        owner = self._me if self._host is None else ""
        first = self._by.note_outcome(outcome, field or outcome.field, self._host, owner)
        if self._host is not None:
            return
        if first is not None:  # another worker was faster: what it wrote is what counts
            self._look_again(asked, 0.0)
        else:
            self._by.emit_once(asked.id, items)
            self._sending.add(asked.id)

    def _attach(self, asked: Asked, claim: Claim) -> None:
        """Emit an outcome that is there already, unless the exporters have had it."""
        if self._host is not None or claim.is_sent or not claim.outcome:
            return
        try:
            outcome = outcome_of(claim.outcome, self._by.key)
        except UnreadableError as error:
            tell("fleet", f"a verdict is left out: {error}")
            return
        self._by.emit_once(asked.id, outcome.items)
        self._sending.add(asked.id)


class _NamedJudge:
    """Stands for a judge that is known by name only."""

    def __init__(self, name: str) -> None:
        self.name = name
