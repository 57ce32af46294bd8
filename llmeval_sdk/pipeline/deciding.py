"""Decision models in a pipeline: which is asked in the place of which judges, and asking it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import WorkerPool, addressed, own_copy
from llmeval_sdk.evaluation.admission import NOT_RUN_REASONS, Admitted, Refused
from llmeval_sdk.evaluation.conditions import compared_by
from llmeval_sdk.evaluation.deciding import Decided, Decider, ModelReply, Prepared
from llmeval_sdk.evaluation.decision_budget import BUDGET
from llmeval_sdk.evaluation.escalation import Escalation, default_escalation
from llmeval_sdk.judges.base import typed_form_of
from llmeval_sdk.model import Evaluation, NotRun, Target, Usage, tier_name
from llmeval_sdk.model.protocols import DecisionModel, Evaluator, Judge
from llmeval_sdk.pipeline.jobs import QueuedJob, not_run
from llmeval_sdk.pipeline.judging import JudgesLoop
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.process.shield import shield, swallow, tell
from llmeval_sdk.store.files import path_of


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.deciding import Decider
    from llmeval_sdk.evaluation.limiter import BudgetLimiter
    from llmeval_sdk.pipeline.evaluating import Case
    from llmeval_sdk.pipeline.judging import JudgesLoop
    from llmeval_sdk.pipeline.plan import Plan


# Orders what is done around the requests of a loop, so that no request waits for it.
#
# Making a request ready and reading an answer take longer than sending and receiving. If each
# task did both around its own request, answers that arrive together would be read one after the
# other before any of their successors is sent, and the server would have nothing to do
# meanwhile. So some requests are made ready ahead, and the loop looks at the network between any
# two pieces of work: the interpreter's lock is never held for longer than one of them takes.

SENDING_SECONDS = 0.001
"""How long other work waits after an answer, so that the next request is sent first."""

JobT = TypeVar("JobT")
ReadyT = TypeVar("ReadyT")


class Prefetch(Generic[JobT, ReadyT]):
    """Makes jobs ready and reads their answers, one piece of work at a time.

    Args:
        make_ready: Makes one job ready; returns ``None`` where it needs nothing further.
        on_ready: Called when one more job is ready.
        ahead: How many jobs are ready at most, before anybody takes them.
    """

    def __init__(
        self,
        make_ready: Callable[[JobT], ReadyT | None],
        on_ready: Callable[[], None],
        *,
        ahead: int,
    ) -> None:
        self._make_ready = make_ready
        self._on_ready = on_ready
        self._ahead = ahead
        self._jobs: deque[JobT] = deque()
        self._ready: deque[ReadyT] = deque()
        self._answers: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_told = False
        """Whether the loop will wake for a job that was put."""
        self._is_sending = False
        """Whether an answer has come since the last piece of work, so that a request follows it."""

    def put(self, job: JobT) -> bool:
        """Add a job, from any thread; return whether the loop has to be told to `wake`.

        A burst of jobs tells it once: each call from another thread is a write to a socket, at
        which the threads contend for the interpreter's lock.
        """
        self._jobs.append(job)
        is_new, self._is_told = not self._is_told, True
        return is_new

    def next(self) -> ReadyT | None:
        """Take the job that has been ready for longest, if there is one."""
        ready = self._ready.popleft() if self._ready else None
        self.wake()
        return ready

    def read_later(self, read: Callable[[], None]) -> None:
        """Call this when the requests that can be sent have been sent."""
        self._answers.append(read)
        self._is_sending = True
        self.wake()

    def wake(self) -> None:
        """Have the running loop do what there is to do."""
        self._is_told = False  # before the look at the jobs, so that none is missed
        if self._is_busy or not (self._answers or self._has_room()):
            return
        self._is_busy = True
        loop = asyncio.get_running_loop()
        if self._is_sending and self._ready:
            loop.call_later(SENDING_SECONDS, self._work)
        else:
            loop.call_soon(self._work)
        self._is_sending = False

    def _has_room(self) -> bool:
        return bool(self._jobs) and len(self._ready) < self._ahead

    def _work(self) -> None:
        try:
            # The more answers wait, the fewer jobs are made ready, so that neither runs away.
            if self._has_room() and len(self._ready) + len(self._answers) < self._ahead:
                ready = self._make_ready(self._jobs.popleft())
                if ready is not None:
                    self._ready.append(ready)
                    self._on_ready()
            elif self._answers:
                self._answers.popleft()()
        finally:
            self._is_busy = False
            self.wake()


# A record that a decision model is asked about, and the judges that wait for what it says.

Ask = Callable[["Case", Judge, Mapping[str, Evaluation], float], "Future[None] | None"]
"""Submits a record to a judge model: the case, the judge, all evaluations, the chance so far."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """One record that the decision model is asked about."""

    case: Case
    asked: Mapping[str, tuple[Judge, Admitted]]
    """The judges in whose place it is asked."""
    unsampled: Mapping[str, str]
    """The judges in whose place it is not asked because of a sampling rule, and the rule."""
    later: Sequence[Judge]
    """The judges that are escalated by one of these decisions."""
    ask: Ask

    def refused(self, reason: str, detail: str) -> list[NotRun]:
        """Say for each judge why the decision model was not asked."""
        return [
            _not_decided(judge, self.case.target, reason, detail)
            for judge, _ in self.asked.values()
        ]

    def decided_by(self, decided: Decided) -> tuple[list[Any], dict[str, Evaluation]]:
        """Return what there is to tell of the decisions, and their evaluations by name."""
        items: list[Any] = []
        evaluations: dict[str, Evaluation] = {}
        target = self.case.target
        for name, (judge, admitted) in self.asked.items():
            evaluation = decided.evaluations[name]
            error = evaluation.error
            if error is not None:
                is_known = error.type in NOT_RUN_REASONS
                detail = error.message if is_known else f"{error.type}: {error.message}"
                reason = error.type if is_known else "error"
                items.append(_not_decided(judge, target, reason, detail))
                if is_known and error.type != "timeout" and not decided.calls:
                    continue
                tell(f"decision {name}", f"gave no answer: {error.type}")
            elif evaluation.metadata.get("cached"):
                why = "an identical question was answered a moment ago"
                items.append(_not_decided(judge, target, "cached", why))
            evaluations[name] = replace(
                evaluation,
                inclusion_probability=admitted.probability,
                metadata={**evaluation.metadata, "why": admitted.why},
            )
            items.append(addressed(evaluations[name], target))
        return items, evaluations


def _not_decided(judge: Judge, target: Target, reason: str, detail: str) -> NotRun:
    """Say why a decision model was not asked in the place of a judge, or gave no answer."""
    item = not_run(judge, target, reason, detail)
    name = tier_name(judge.name, "decision")
    return replace(item, id=f"{target.span_id or ''}-{name}", evaluator=name)


def _all_done(futures: Sequence[Future[None]]) -> Future[None] | None:
    """Return what is done when all of these are; ``None`` where there are none."""
    if len(futures) < 2:
        return futures[0] if futures else None
    done: Future[None] = Future()
    finished = count(1)

    def one_done(_: Future[None]) -> None:
        if next(finished) < len(futures):
            return
        if any(each.cancelled() for each in futures):
            done.cancel()
            done.set_running_or_notify_cancel()
        else:
            done.set_result(None)

    for future in futures:
        future.add_done_callback(one_done)
    return done


# The tier of decisions in a plan: which model is asked, and in the place of which judges.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """What a decision model is asked, and what that may cost."""

    model: DecisionModel | None
    """``None`` where the one that the environment names cannot be used."""
    why_not: str = ""
    """Why it cannot be used."""
    requested: list[Evaluator]
    """The evaluators asked for, with the judges whose decisions escalations read."""
    escalations: Sequence[Escalation] | None
    """The escalations that were configured, with the cascades of the settings."""
    everywhere: frozenset[str]
    """The judges that are decided about all traffic."""
    limiter: BudgetLimiter
    thresholds: Mapping[str, float]
    settings: Settings

    def decides(self, evaluator: Evaluator) -> bool:
        """Say whether the decision model is asked in the place of an evaluator on all traffic."""
        return evaluator.name in self.everywhere

    def begun(self, plan: Plan, loop: JudgesLoop, emit: Callable[[Any], None]) -> Deciding:
        """Return what asks the model, for one pipeline; see `Deciding`."""
        return Deciding(self, plan, loop, emit)

    def decider(self, plan: Plan) -> Decider:
        """Return what asks the model."""
        from llmeval_sdk.evaluation.calibrations import Calibrations, path_beside
        from llmeval_sdk.evaluation.deciding import Decider
        from llmeval_sdk.evaluation.verdicts import RecentVerdicts

        assert self.model is not None
        path = path_beside(path_of(self.settings.store))
        return Decider(
            self.model,
            self.limiter,
            timeout=plan.judge_timeout,
            thresholds=self.thresholds,
            prices=plan.prices,
            verdicts=RecentVerdicts(),
            calibrations=Calibrations(path, lambda problem: tell("calibration", problem)),
        )

    def close(self) -> None:
        """Let go of the budget's file."""
        self.limiter.close()


def make_tier(
    decisions: Any,
    settings: Settings,
    requested: list[Evaluator],
    escalations: Sequence[Escalation] | None,
    problems: list[str],
    *,
    strict: bool,
) -> Tier | None:
    """Make the tier of decisions; ``None`` where no decision model is named.

    A key alone names none. A mistake of the environment is a line of ``problems``.

    Raises:
        ConfigurationError: What ``configure()`` was given cannot be used, or a person is watching
            and the environment names a decision model that cannot be used.
    """
    own = settings.of(DecisionSettings)
    if decisions is None and own.decision_model is None:
        _refuse_readers(requested, escalations or ())
        if own.cascade:
            problems.append(_of_cascade("no decision model is named: set LLMEVAL_DECISION_MODEL"))
        return None
    from llmeval_sdk.evaluation.deciding import checked_thresholds
    from llmeval_sdk.evaluation.decision_budget import host_limiter

    model, why_not = _model(decisions, settings, problems, strict=strict)
    if escalations is not None:
        escalations = [_with_its_judge(escalation, settings) for escalation in escalations]
    cascades = _cascades(own.cascade, escalations or (), settings, problems)
    if cascades:
        first = escalations
        if first is None:
            first = [default_escalation(settings.recall_threshold)]
        escalations = [*first, *cascades]
    read = _read(requested, escalations or (), settings)
    judges = [evaluator for evaluator in requested if evaluator.kind == "judge"]
    typed, others = _divided([*judges, *read])
    for judge in others:
        if judge in read:
            raise ConfigurationError(
                f"an escalation reads the decision on {judge.name!r}, and {_UNTYPED}"
            )
        problems.append(f"decisions: {judge.name}: {_UNTYPED}; it is left to the judge model")
    _refuse_unrated(typed, escalations or ())
    return Tier(
        model=model,
        why_not=why_not,
        requested=[*requested, *read],
        escalations=escalations,
        everywhere=frozenset(judge.name for judge in typed),
        limiter=host_limiter(settings),
        thresholds=checked_thresholds(own.decision_thresholds),
        settings=settings,
    )


_UNTYPED = "it cannot be asked as a typed question (a free score, code or a model of its own)"


def _divided(judges: Iterable[Judge]) -> tuple[list[Judge], list[Judge]]:
    from llmeval_sdk.evaluation.deciding import divided

    return divided(judges)


def _model(
    decisions: Any, settings: Settings, problems: list[str], *, strict: bool
) -> tuple[DecisionModel | None, str]:
    from llmeval_sdk.judges.models.decisions import resolve

    try:
        return resolve(decisions, settings=settings), ""
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{config.source_of('decision_model')}: {error}")
        return None, str(error)


def _cascades(
    names: Sequence[str],
    escalations: Sequence[Escalation],
    settings: Settings,
    problems: list[str],
) -> list[Escalation]:
    """Make the cascades of the settings, of judges that no escalation names."""
    if not names:
        return []
    from llmeval_sdk.evaluation.cascade import Cascade
    from llmeval_sdk.evaluation.resolve import resolve

    named = {escalation.name for escalation in escalations}
    cascades: list[Escalation] = []
    for name in dict.fromkeys(names):
        if name in named:
            continue
        try:
            judge = resolve(name, settings)
            typed = _divided([judge])[0] if judge.kind == "judge" else []
        except ConfigurationError as error:
            problems.append(_of_cascade(str(error)))
            continue
        try:
            made = [Cascade(judge) for judge in typed]
            _refuse_unrated(typed, made)
        except ConfigurationError as error:
            problems.append(_of_cascade(str(error)))
            continue
        cascades += made
        if not typed:
            problems.append(_of_cascade(f"{name!r} is no judge, or {_UNTYPED}"))
    return cascades


def _with_its_judge(escalation: Escalation, settings: Settings) -> Escalation:
    """Return a cascade of the judge that its address stands for: it goes by the judge's name."""
    from llmeval_sdk.evaluation.cascade import Cascade
    from llmeval_sdk.evaluation.resolve import resolve

    judge = escalation.judge
    if not isinstance(escalation, Cascade) or not isinstance(judge, str) or ":" not in judge:
        return escalation
    evaluator = resolve(judge, settings)
    if evaluator.kind != "judge":
        raise ConfigurationError(f"Cascade({judge!r}): it is no judge but a {evaluator.kind}")
    return escalation.asking(evaluator)


def _of_cascade(problem: str) -> str:
    return f"{config.source_of('cascade')}: {problem}"


def _read(
    requested: Iterable[Evaluator], escalations: Iterable[Escalation], settings: Settings
) -> list[Judge]:
    """Return the judges whose decisions escalations read, beside those that were asked for."""
    from llmeval_sdk.evaluation.resolve import resolve

    known = {evaluator.name for evaluator in requested}
    own = {each.name: each.judge for each in escalations if not isinstance(each.judge, str)}
    read: dict[str, Judge] = {}
    for escalation in escalations:
        for name in sorted(escalation.names() - known - read.keys()):
            if name in registry.heuristics():
                continue
            evaluator = resolve(own.get(name, name), settings)
            if evaluator.kind == "judge":
                read[name] = evaluator
    return list(read.values())


def _refuse_unrated(typed: Iterable[Judge], escalations: Iterable[Escalation]) -> None:
    """Raise where an escalation compares a decision that never has a probability."""
    from llmeval_sdk.judges.base import unrated_categories

    unrated = {judge.name: words for judge in typed if (words := unrated_categories(judge))}
    for escalation in escalations:
        when = escalation.when
        compared = escalation.risks if when is None else compared_by(when)
        for name in sorted(unrated.keys() & compared):
            word = unrated[name][0]
            raise ConfigurationError(
                f"{type(escalation).__name__}({escalation.name!r}) compares the decision on "
                f"{name!r}, and nobody knows how good its category {word!r} is: call each category "
                f"good or bad, pass or fail, or write "
                f"Escalation({escalation.name!r}, when=flagged({name!r}, {word!r}))"
            )


def _refuse_readers(requested: Iterable[Evaluator], escalations: Sequence[Escalation]) -> None:
    """Raise where an escalation reads what only a decision model could say."""
    judges = {evaluator.name for evaluator in requested if evaluator.kind == "judge"}
    judges |= {escalation.name for escalation in escalations}
    for escalation in escalations:
        for name in escalation.names() - registry.heuristics().keys():
            known = registry.known(name)
            is_judge = known is not None and known.kind == "judge"
            if is_judge or name in judges:
                raise ConfigurationError(
                    f"{type(escalation).__name__}({escalation.name!r}) reads the decision on "
                    f"{name!r}, and no decision model is named: set LLMEVAL_DECISION_MODEL or "
                    "configure(decisions=...)"
                )


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
        self._desk = Prefetch(self._made_ready, self._start_more, ahead=BUDGET.concurrency)
        self._waiting: dict[Future[None], QueuedJob[Undecided]] = {}
        self._undecided: set[Future[None]] = set()
        """Those of the waiting that have no decision yet."""
        self._pool = WorkerPool(BUDGET.concurrency, self._next)
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
            emit(_not_decided(judge, case.target, admitted.reason, admitted.detail))
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
            turn = QueuedJob(undecided)
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
        self._pool.dismiss()
        for turn in list(self._waiting.values()):
            if turn.take():
                self._give_up(turn.job, "shutdown", "the process was ending")
            self._settle(turn, is_cut=True)

    # -- on the judges' thread --------------------------------------------------------------------

    def _start_more(self) -> None:
        self._pool.call()

    def _next(self) -> Coroutine[Any, Any, None] | None:
        ready = None if self._shut else self._desk.next()
        return None if ready is None else self._ask_model(*ready)

    def _made_ready(
        self, turn: QueuedJob[Undecided]
    ) -> tuple[QueuedJob[Undecided], Prepared] | None:
        """Return what has to be asked about a record."""
        if self._shut:
            return None
        judges = [judge for judge, _ in turn.job.asked.values()]
        try:
            return turn, self._made().prepared(own_copy(turn.job.case.record), judges)
        except BaseException as error:
            self._fail(turn, error)
            return None

    async def _ask_model(self, turn: QueuedJob[Undecided], prepared: Prepared) -> None:
        try:
            await self._warm()
            reply = await self._made().ask(prepared)
        except BaseException as error:
            if self._shut and isinstance(error, (GeneratorExit, asyncio.CancelledError)):
                raise
            self._fail(turn, error)
        else:
            self._desk.read_later(partial(self._read, turn, prepared, reply))

    def _read(
        self, turn: QueuedJob[Undecided], prepared: Prepared, reply: ModelReply | None
    ) -> None:
        try:
            items, evaluations = turn.job.decided_by(self._made().read(prepared, reply))
            self._add_usage(evaluations.values())
        except BaseException as error:
            self._fail(turn, error)
        else:
            self._conclude(turn, items, evaluations)

    def _fail(self, turn: QueuedJob[Undecided], error: BaseException) -> None:
        """Report that a record is not decided because of an exception, if that is ours to catch."""
        is_cancelled = isinstance(error, asyncio.CancelledError)  # by the model itself
        if not is_cancelled and not swallow("decisions", error, calls_out=True):
            self._settle(turn)
            raise error
        self._conclude(turn, turn.job.refused("error", type(error).__name__), {})

    def _conclude(
        self,
        turn: QueuedJob[Undecided],
        items: Iterable[Any],
        evaluations: Mapping[str, Evaluation],
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

    def _settle(self, turn: QueuedJob[Undecided], *, is_cut: bool = False) -> None:
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
        return _all_done(begun)

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
