"""Asks a decision model about records in the background, and then the judges that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from llmeval_sdk._process.shield import shield, swallow
from llmeval_sdk.evaluation import Crew, own_copy
from llmeval_sdk.evaluation.deciding import Decider
from llmeval_sdk.evaluation.decision_budget import BUDGET
from llmeval_sdk.evaluation.inquiry import ModelReply, Prepared
from llmeval_sdk.judges.typed import typed_form_of
from llmeval_sdk.model import Evaluation, Usage
from llmeval_sdk.pipeline._desk import Desk
from llmeval_sdk.pipeline._judges_loop import JudgesLoop
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.pipeline._turns import Turn, not_run
from llmeval_sdk.pipeline._undecided import Ask, Undecided, all_done, not_decided
from llmeval_sdk.policy.admission import Admitted, Refused
from llmeval_sdk.protocols import Judge


if TYPE_CHECKING:
    from llmeval_sdk.pipeline._evaluating import Case
    from llmeval_sdk.pipeline.tier import Tier


MAX_WAITING = MAX_KNOWN = 1_000
"""Records that may wait for a decision; those that wait for judges then count there."""

Emit = Callable[[Any], None]


class Deciding:
    """Decides records for one pipeline, with one request for each.

    Args:
        tier: which model decides what.
        plan: the plan of the pipeline.
        loop: where requests are made.
        emit: takes what comes of it.
    """

    def __init__(self, tier: Tier, plan: Plan, loop: JudgesLoop, emit: Emit) -> None:
        self.usage = Usage()
        """What all decisions used together; only the judges' thread adds to it."""
        self._tier = tier
        self._gate = plan.gate
        self._loop = loop
        self._emit = emit
        self._desk = Desk(self._made_ready, self._start_more, ahead=BUDGET.concurrency)
        self._waiting: dict[Future[None], Turn[Undecided]] = {}
        self._undecided: set[Future[None]] = set()
        """Those of the waiting that have no decision yet."""
        self._crew = Crew(BUDGET.concurrency, self._next)
        self._typed: dict[int, tuple[Judge, bool]] = {}
        self._shut = False
        self._is_warm = False
        self._decider: Decider | None = None
        self._plan = plan

    # -- in the worker ----------------------------------------------------------------------------

    def take(
        self, case: Case, judges: Sequence[Judge], emit: Emit, ask: Ask
    ) -> tuple[list[Judge], Future[None] | None]:
        """Have a record decided in the place of the judges for which that is possible.

        Args:
            case: the record, with its scores.
            judges: the judges that are considered for it.
            emit: takes why the model is not asked in the place of a judge.
            ask: submits a record to a judge model.

        Returns:
            The judges that need not wait for a decision, and what is done when the record is
            decided and judged; ``None`` where nothing was begun.
        """
        decided = [judge for judge in judges if self._is_decided(judge, case)]
        if not decided:
            return list(judges), None
        names = {judge.name for judge in decided}
        escalated = {judge.name: self._gate.names(judge.name) for judge in judges}
        left = [judge for judge in judges if judge.name not in names or escalated[judge.name]]
        later = [judge for judge in left if names & escalated[judge.name]]
        asked: dict[str, tuple[Judge, Admitted]] = {}
        unsampled: dict[str, str] = {}
        for judge in decided:
            admitted = self._admitted(judge, case)
            if isinstance(admitted, Admitted):
                asked[judge.name] = judge, admitted
                continue
            if admitted.reason == "not_sampled":
                unsampled[judge.name] = admitted.detail
            emit(not_decided(judge, case.target, admitted.reason, admitted.detail))
        undecided = Undecided(case, asked, unsampled, later, ask)
        now = [judge for judge in left if judge not in later]
        return now, self._submit(undecided) if asked else self._go_on(undecided, {})

    def _is_decided(self, judge: Judge, case: Case) -> bool:
        if judge.name in self._tier.everywhere:
            return True
        if judge not in case.named:
            return False
        known = self._typed.get(id(judge))
        if known is None:
            is_typed = False
            with shield(f"judge {judge.name}", calls_out=True):
                is_typed = typed_form_of(judge) is not None
            if len(self._typed) >= MAX_KNOWN:
                self._typed.clear()
            known = self._typed[id(judge)] = judge, is_typed
        return known[1]

    def _admitted(self, judge: Judge, case: Case) -> Admitted | Refused:
        if self._tier.model is None:
            return Refused("no_judge_model", self._tier.why_not)
        admitted = self._gate.decide(judge, case.record, {}, everywhere=True)
        if isinstance(admitted, Admitted) and not case.subject.is_whole:
            return Refused("error", "the redaction failed")
        return admitted

    def _submit(self, undecided: Undecided) -> Future[None] | None:
        if self._shut:
            why = "shutdown", "the process was ending"
        elif len(self._undecided) >= MAX_WAITING:
            why = "queue_full", f"{MAX_WAITING} records were waiting"
        elif not self._loop.is_ready():
            why = "no_worker", "no thread could be started"
        else:
            turn = Turn(undecided)
            self._waiting[turn.done] = turn
            self._undecided.add(turn.done)
            if self._desk.put(turn):
                self._loop.call(self._desk.wake)
            return turn.done
        return self._give_up(undecided, *why)

    def _give_up(self, undecided: Undecided, reason: str, detail: str) -> Future[None] | None:
        """Report that a record is not decided; what waits for the decision goes on without it."""
        for item in undecided.refused(reason, detail):
            self._emit(item)
        return self._go_on(undecided, {})

    @property
    def left_out(self) -> dict[str, int]:
        """Parts of requests that were not shown: no text."""
        return {} if self._decider is None else self._decider.left_out.copy()

    @property
    def pending(self) -> int:
        """How many records wait for a decision, or for the judges that go by it."""
        return len(self._waiting)

    @property
    def waiting(self) -> list[Future[None]]:
        """What is done when the records that wait now are decided and judged."""
        return list(self._waiting)

    def shut(self) -> None:
        """Give up all records that wait, and emit each as not run."""
        self._shut = True
        self._crew.dismiss()
        for turn in list(self._waiting.values()):
            if turn.take():
                self._give_up(turn.job, "shutdown", "the process was ending")
            self._settle(turn, is_cut=True)

    # -- on the judges' thread --------------------------------------------------------------------

    def _start_more(self) -> None:
        self._crew.call()

    def _next(self) -> Coroutine[Any, Any, None] | None:
        ready = None if self._shut else self._desk.next()
        return None if ready is None else self._ask_model(*ready)

    def _made_ready(self, turn: Turn[Undecided]) -> tuple[Turn[Undecided], Prepared] | None:
        """Return what has to be asked about a record."""
        if self._shut:
            return None
        judges = [judge for judge, _ in turn.job.asked.values()]
        try:
            return turn, self._made().prepared(own_copy(turn.job.case.record), judges)
        except BaseException as error:
            self._fail(turn, error)
            return None

    async def _ask_model(self, turn: Turn[Undecided], prepared: Prepared) -> None:
        try:
            await self._warm()
            reply = await self._made().ask(prepared)
        except BaseException as error:
            if self._shut and isinstance(error, (GeneratorExit, asyncio.CancelledError)):
                raise
            self._fail(turn, error)
        else:
            self._desk.read_later(partial(self._read, turn, prepared, reply))

    def _read(self, turn: Turn[Undecided], prepared: Prepared, reply: ModelReply | None) -> None:
        try:
            items, evaluations = turn.job.decided_by(self._made().read(prepared, reply))
            self._add_usage(evaluations.values())
        except BaseException as error:
            self._fail(turn, error)
        else:
            self._conclude(turn, items, evaluations)

    def _fail(self, turn: Turn[Undecided], error: BaseException) -> None:
        """Report that a record is not decided because of an exception, if that is ours to catch."""
        is_cancelled = isinstance(error, asyncio.CancelledError)  # by the model itself
        if not is_cancelled and not swallow("decisions", error, calls_out=True):
            self._settle(turn)
            raise error
        self._conclude(turn, turn.job.refused("error", type(error).__name__), {})

    def _conclude(
        self, turn: Turn[Undecided], items: Iterable[Any], evaluations: Mapping[str, Evaluation]
    ) -> None:
        """Emit what came of a record, and let the judges that waited for it go on."""
        self._undecided.discard(turn.done)
        judgements = None
        try:
            with shield("decisions", on_own_thread=True):
                if turn.take():
                    for item in items:
                        self._emit(item)
                    judgements = self._go_on(turn.job, evaluations)
        finally:
            if judgements is None:
                self._settle(turn)
        if judgements is not None:
            judgements.add_done_callback(lambda done: self._settle(turn, is_cut=done.cancelled()))

    def _made(self) -> Decider:
        """Return what asks the model, made here: its calibrations are read once."""
        if self._decider is None:
            self._decider = self._tier.decider(self._plan)
        return self._decider

    async def _warm(self) -> None:
        """Let the model make its client before the first request's time begins."""
        if not self._is_warm:
            self._is_warm = True
            warm: Any = getattr(self._tier.model, "warm", None)
            if warm is not None:
                with shield("decision model", calls_out=True):
                    await warm()

    def _settle(self, turn: Turn[Undecided], *, is_cut: bool = False) -> None:
        """Say that a record is dealt with; where that was cut short, the spool keeps the record."""
        self._undecided.discard(turn.done)
        if self._waiting.pop(turn.done, None) is None:
            return
        if is_cut and turn.done.cancel():
            turn.done.set_running_or_notify_cancel()  # wakes whoever waits for it
        elif not is_cut:
            turn.done.set_result(None)

    def _add_usage(self, evaluations: Iterable[Evaluation]) -> None:
        for evaluation in evaluations:
            if evaluation.usage is not None:
                self.usage += evaluation.usage

    # -- wherever the decision has come ----------------------------------------------------------

    def _go_on(
        self, undecided: Undecided, decided: Mapping[str, Evaluation]
    ) -> Future[None] | None:
        """Let the judges that waited see what was decided; return when all of them are done."""
        case = undecided.case
        evaluations = {**case.evaluations, **decided}
        begun: list[Future[None]] = []
        for judge in undecided.later:
            try:
                judgement = self._ask(judge, undecided, evaluations)
            except BaseException as error:
                if not swallow(f"judge {judge.name}", error, calls_out=True):
                    raise
                self._emit(not_run(judge, case.target, "error", type(error).__name__))
                continue
            if judgement is not None:
                begun.append(judgement)
        return all_done(begun)

    def _ask(
        self, judge: Judge, undecided: Undecided, evaluations: Mapping[str, Evaluation]
    ) -> Future[None] | None:
        case, reads = undecided.case, self._gate.names(judge.name)
        unsampled = next((name for name in undecided.unsampled if name in reads), None)
        if unsampled is not None:
            detail = f"{unsampled} was not decided: {undecided.unsampled[unsampled]}"
            self._emit(not_run(judge, case.target, "not_sampled", detail))
            return None
        return undecided.ask(case, judge, evaluations, self._chance(judge, undecided, reads))

    def _chance(self, judge: Judge, undecided: Undecided, reads: frozenset[str]) -> float:
        """Return the chance of the decisions that a judge waited for, given its own sampling.

        One draw for each trace decides for all sampling rules, so the rarer one alone counts.
        """
        rates = [
            admitted.probability for name, (_, admitted) in undecided.asked.items() if name in reads
        ]
        own = self._gate.decide(judge, undecided.case.record, {}, everywhere=True)
        if not rates or isinstance(own, Refused):
            return 1.0
        return min(1.0, min(rates) / own.probability)
