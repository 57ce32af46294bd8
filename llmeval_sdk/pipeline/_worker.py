"""The worker: drains the intake, scores in the background, decides about judges, hands on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic
from typing import Any

from llmeval_sdk._process.counters import Counts
from llmeval_sdk._process.shield import shield, swallow, write_notices
from llmeval_sdk._process.threads import OneThread
from llmeval_sdk.evaluation import own_copy
from llmeval_sdk.heuristics._budget import limit_processor_time
from llmeval_sdk.model import Evaluation, EvaluationEvent, NotRun, Record, SpanData, Target
from llmeval_sdk.pipeline._app_heuristics import AppHeuristics
from llmeval_sdk.pipeline._delivery import Barrier, Delivery
from llmeval_sdk.pipeline._intake import Intake, Unread
from llmeval_sdk.pipeline._judging import Judging, event
from llmeval_sdk.pipeline._kept import Kept
from llmeval_sdk.pipeline._pace import Pace
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.pipeline._privacy import Emitted, Privacy, bare
from llmeval_sdk.pipeline._saying import Saying
from llmeval_sdk.pipeline._spooling import Spooling
from llmeval_sdk.pipeline._turns import Job, not_run
from llmeval_sdk.pipeline._warming import warm
from llmeval_sdk.policy.decisions import Refused
from llmeval_sdk.policy.prices import total, with_cost
from llmeval_sdk.protocols import Judge
from llmeval_sdk.records import ANSWERED, record_of, spent_by
from llmeval_sdk.registry import HEURISTICS
from llmeval_sdk.tracing import Span, disabled
from llmeval_sdk.tracing._inner import off, span_data


LINGER_SECONDS = 0.02
"""How long the first record of a burst waits for others: fewer wake-ups beside the app's thread."""
IDLE_SECONDS = 1.0
HEURISTIC_SECONDS = 0.5
"""Processor time that a built-in heuristic may take for one record, however slow the machine is."""


class Worker:
    """One daemon thread between the intake and the deliveries."""

    def __init__(
        self,
        plan: Plan,
        intake: Intake,
        deliveries: Iterable[Delivery],
        privacy: Privacy,
        spooling: Spooling | None = None,
        *,
        often: Callable[[], None] = write_notices,
    ) -> None:
        self._plan = plan
        self._intake = intake
        self._deliveries = tuple(deliveries)
        self._privacy = privacy
        self._spooling = spooling
        self._often = often
        self._judgements: list[Future[None]] = []
        self._whole = True
        """False while the record at hand is one whose redaction failed."""
        self.judging = Judging(plan, self._emit_judged)
        self.judged = Counts()
        self.not_run: dict[str, Counts] = {}
        self._saying = Saying(plan)
        self._urgent = threading.Event()
        self.linger = LINGER_SECONDS
        self.hasten = self._urgent.set
        self._barriers: list[Barrier] = []
        self._thread = OneThread(self._run, name="llmeval-worker")
        self._pace = Pace(plan.background_share)
        self._app_heuristics = AppHeuristics(lambda: self._stop)
        self._due = 0.0
        self._hurry = False
        self._foreign = False
        self._stop = False

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self._thread.start()

    def join(self, deadline: float) -> bool:
        """Wait for the thread until a monotonic deadline; say whether it ended, or never began."""
        return self._thread.join(deadline)

    def barrier(self, *, stop: bool = False) -> Barrier:
        """Return a barrier that is set when all taken in before is scored and handed on."""
        barrier = Barrier()
        self._stop = self._stop or stop
        self._barriers.append(barrier)
        self._hurry = True
        self._urgent.set()
        self._intake.wake()
        return barrier

    def emit(self, item: Emitted, size: int = 1_000) -> None:
        """Hand a record to every delivery. Called by the worker and by the judges' thread."""
        if not self._plan.content:
            item = bare(item, names=self._plan.names)
        if type(item) is NotRun:
            self.not_run.setdefault(item.evaluator, Counts()).add(item.reason)
            self._saying.not_run(item)
        for delivery in self._deliveries:
            delivery.offer(item, size)

    def _emit_judged(self, item: Emitted) -> None:
        """Count and hand on what a judgement of this pipeline gave: its verdict, its trace."""
        if type(item) is EvaluationEvent:
            self._intake.evaluations.add("judged")
            if item.evaluation.error is None:
                self.judged.add(item.evaluation.name)
        elif type(item) is SpanData:
            self._intake.spans.add()
        self.emit(self._screened(item))

    def _screened(self, item: Emitted) -> Emitted:
        """Redact what an evaluator wrote; where that fails, nothing that it wrote may leave."""
        try:
            return self._privacy.screen(item)
        except Exception as error:
            if not swallow("redact", error):
                raise
            if type(item) is SpanData:
                item = replace(item, response=None)
            return bare(item, names=True)

    def work(self) -> None:
        """Do the thread's work in this one, where no thread can start."""
        self._hurry = True  # the app has ended, so that nothing is spared by pauses
        with disabled(), shield("worker"):
            self._drain()
            self._tend()

    # -- its own thread -------------------------------------------------------------------------

    def _run(self) -> None:
        off()
        limit_processor_time(HEURISTIC_SECONDS)
        warm(self._plan)
        stop = False
        while not stop:
            patience = IDLE_SECONDS if self._spooling is None else self._spooling.patience
            if not self._intake.sleep(patience, unless=self._barriers):
                self._pace.begin()
                self._tend()
                self._often()
                continue
            self._urgent.wait(self.linger)
            self._urgent.clear()
            stop = self._stop
            barriers, self._barriers = self._barriers, []
            self._pace.begin()
            try:
                self._drain()
                self._tend()
                self._often()
            except BaseException as error:
                if not swallow("worker", error):
                    raise
            self._hurry = bool(self._barriers)
            for barrier in barriers:
                barrier.done.set()

    def _rest(self) -> None:
        self._pace.rest(hurry=self._hurry)

    def _drain(self) -> None:
        """Deal with what is there now: steady load has no end, and barriers wait for one.

        One more is taken than there were, because only an empty lane sets its sum of bytes right.
        """
        for lane in (self._intake.reserved, self._intake.lane):
            for _ in range(len(lane) + 1):
                if (item := lane.take()) is None:
                    break
                self._take(item)
                self._rest()
                if monotonic() > self._due:
                    self._due = monotonic() + IDLE_SECONDS
                    self._often()

    def _tend(self) -> None:
        """Acknowledge at the spool what is dealt with, and take in what other processes left."""
        if self._spooling is not None:
            for kept in self._spooling.tend():
                if type(kept.item) is Span:
                    self._intake.spans.add()
                else:
                    self._intake.evaluations.add("submitted")
                self._take(kept)
                self._rest()

    def _take(self, item: Any) -> None:
        if type(item) is Unread:
            self._read(item)
            return
        kept = item if type(item) is Kept else None
        missed = self._spooling.missed if kept is not None and self._spooling is not None else 0
        self._judgements = []
        try:
            item, self._whole = self._privacy.redact(item if kept is None else kept.item)
            if type(item) is Span:
                self._span(item)
            else:
                self.emit(item)
        except Exception as error:
            if not swallow("worker", error):
                raise
        if kept is not None and self._spooling is not None:
            self._spooling.handed_on(kept, self._judgements, missed)

    def _read(self, item: Unread) -> None:
        """Score spans that another library made. It exports them itself; the store keeps them."""
        self._foreign = True
        try:
            for span in item.read():
                if span.owner is None:
                    self._intake.score(span)
                self._take(span)
                self._rest()
        except Exception as error:
            if not swallow("sources", error):
                raise
        finally:
            self._foreign = False

    def _span(self, span: Span) -> None:
        size = span.size
        data = with_cost(span_data(span, content=self._plan.content), own=self._plan.prices)
        if self._foreign:
            for delivery in self._deliveries:
                delivery.keep(data, size)
        else:
            self.emit(data, size)
        target = Target(data.trace_id, data.span_id, data.name, data.kind)
        if not (span.owner is None if self._foreign else span.is_evaluated):
            if span.kind == "llm" and span.prompt is not None:
                self._prompted(span, target)
            return
        evaluations = {evaluation.name: evaluation for evaluation in span.scored or ()}
        self._intake.evaluations.add("inline", len(span.scored or ()))
        for evaluation in span.scored or ():
            self.emit(event(evaluation, target))
        plan = self._plan
        record = span.record or record_of(
            span, span.gathered, retrieved=plan.retrieved, limits=plan.retrieval_limits
        )
        record = self._priced(record, span)
        asked = plan.named(span.spec.evaluators)
        for evaluation in self._score(record, evaluations, asked) if self._whole else ():
            evaluations[evaluation.name] = evaluation
            self._intake.evaluations.add("background")
            scored = event(evaluation, target)
            self.emit(scored if evaluation.name in HEURISTICS else self._screened(scored))
        named = [each for each in asked if each.kind == "judge"]
        answered = ANSWERED in (span.gathered or ())
        for judge in (*plan.judges, *(each for each in named if each not in plan.judges)):
            if answered and judge not in named and self._plan.prefers_llm(judge):
                continue  # the llm span below was judged in its place
            self._decide(judge, record, evaluations, target, named=judge in named)

    def _prompted(self, span: Span, target: Target) -> None:
        """Consider the judges of ``llm`` spans for one whose prompt says what it was given."""
        judges = [judge for judge in self._plan.judges if self._plan.prefers_llm(judge)]
        if judges and span.response is not None:
            record = self._priced(record_of(span, span.gathered), span)
            for judge in judges:
                self._decide(judge, record, {}, target, named=False)

    def _priced(self, record: Record, span: Span) -> Record:
        """Add what its model calls cost: the app's own thread, which may hold it, reads no list."""
        if record.usage is None:
            return record
        return replace(record, usage=total(spent_by(span, span.gathered), own=self._plan.prices))

    def _score(
        self, record: Record, done: dict[str, Evaluation], asked: list[Any]
    ) -> Iterable[Evaluation]:
        """Run the background heuristics, and those asked for on this span."""
        for heuristic in asked:
            if heuristic.kind == "heuristic" and heuristic.name not in done:
                if (evaluation := self._app_heuristics.run(heuristic, record)) is not None:
                    yield evaluation
                self._rest()
        aside = self._app_heuristics.run_aside
        yield from self._plan.inline.run(record, but=done, postponed=True, by=aside)
        background = self._plan.background
        yield from background.run(record, but=done, by=aside, rest=self._rest)
        yield from background.run(record, but=done, postponed=True, by=aside, rest=self._rest)
        background.learn(record)

    def _decide(
        self,
        judge: Judge,
        record: Record,
        evaluations: dict[str, Evaluation],
        target: Target,
        *,
        named: bool,
    ) -> None:
        """Let a judge run or say why not; one that was not asked for needs a configured model."""
        may_spend = named or self._plan.has_model or not judge.needs_model
        decision = self._plan.gate.decide(
            judge, record, evaluations, off=None if may_spend else "no_judge_model"
        )
        if isinstance(decision, Refused):
            self.emit(not_run(judge, target, decision.reason, decision.detail))
            return
        if not self._whole:
            self.emit(not_run(judge, target, "error", "the redaction failed"))
            return
        job = Job(judge, own_copy(record), target, decision)
        if (judgement := self.judging.submit(job)) is not None:
            self._judgements.append(judgement)
