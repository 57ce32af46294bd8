"""What the worker does with a finished span: hand it on, score it, decide which judges see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from time import time_ns

from llmeval_sdk import registry
from llmeval_sdk.evaluation.admission import Admitted, Refused
from llmeval_sdk.evaluation.running import addressed, record_for
from llmeval_sdk.evaluation.sampling import scoring_draw
from llmeval_sdk.evaluation.scoring import (
    Heuristics,
    failed,
    is_built_in,
    own_copy,
    raised,
    run_heuristic,
    run_requested,
    without_answer,
)
from llmeval_sdk.judges.base import typed_form_of
from llmeval_sdk.judges.models.prices import total, with_cost
from llmeval_sdk.model import Evaluation, NotRun, Record, Target
from llmeval_sdk.model.protocols import Evaluator, Heuristic, Judge
from llmeval_sdk.model.records import (
    ANSWERED,
    lacks_passages,
    record_of,
    spent_by,
    with_steps,
    without_marks,
)
from llmeval_sdk.model.schemas import described
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.pipeline.judging import DecisionJob, Job, Judging, not_decided, not_run
from llmeval_sdk.pipeline.overload import chance_of_scores
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.process.shield import Counts, shield, swallow
from llmeval_sdk.process.threads import (
    HelperThreads,
    NoAnswerError,
    NotCalledError,
    NoThreadError,
)
from llmeval_sdk.statistics.reasons import HEURISTICS
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import span_data


# Runs the heuristics of the app beside the worker.
#
# Built-in heuristics run in the worker itself. A function of the app may never return, so it runs
# on a thread that can be abandoned, by the rules of `llmeval_sdk.process.threads`.


PATIENCE_SECONDS = 5.0
"""How long the worker waits for one heuristic and one record."""
LAST_PATIENCE_SECONDS = 0.2
"""How long it waits while the process ends. Each call that misses this deadline halves it for the
next one, so that code that hangs costs less than 0.4 s in all, and all records are delivered."""


class AppHeuristics:
    """Runs heuristics for one worker; ``ending`` says whether the worker has no time to lose."""

    def __init__(self, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self._helpers: dict[str, HelperThreads] = {}
        self._last_patience = LAST_PATIENCE_SECONDS

    def run(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic; one of the app as `run_with_deadline` does."""
        run = run_heuristic if is_built_in(heuristic) else self.run_with_deadline
        return run(heuristic, record)

    def run_with_deadline(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic that calls code of the app, and wait for it until its deadline.

        Returns ``None`` where it is not called because too many of its calls hang; this is counted.
        """
        name = heuristic.name
        helper = self._helpers.get(name)
        if helper is None:
            helper = self._helpers[name] = HelperThreads(f"heuristic {name}")
        try:
            return helper.call(_run, heuristic, own_copy(record), patience=self._patience)
        except NoThreadError as error:
            return failed(heuristic, error.type, str(error))
        except NotCalledError:
            return None
        except NoAnswerError as error:
            if self._ending():
                self._last_patience /= 2
            return failed(heuristic, error.type, str(error))

    def _patience(self) -> float:
        return self._last_patience if self._ending() else PATIENCE_SECONDS


def _run(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run a heuristic on a thread where any exception can only be its own."""
    try:
        return run_heuristic(heuristic, record)
    except BaseException as error:
        return raised(heuristic, error)


# What the worker does with a finished span: hand it on, score it, decide which judges see it.


MAX_KNOWN = 1_000
"""How many judges that spans named are known at a time."""


@dataclass(slots=True)
class Subject:
    """One span on its way through the worker."""

    span: Span
    is_foreign: bool
    """Whether another library made it."""
    is_whole: bool
    """False where its redaction failed: then no evaluator may read it."""
    judgements: list[Future[None]] = field(default_factory=list)
    """The judgements of it that were begun."""
    in_spool: bool = False
    """Whether the spool holds its record until they are made."""
    is_exported: bool = True
    """Whether our exporters send it; otherwise the library that made it does."""
    share: float = 1.0
    """The chance with which it was scored, as others gave way; 0 where it gave way itself."""

    @property
    def chance(self) -> float:
        """The chance with which its trace stayed."""
        if self.span is None:  # a session has no span of its own
            return 1.0
        return self.span.inclusion_probability or 1.0

    @property
    def is_evaluated(self) -> bool:
        """Whether it is a request of its own, and not a step of one above it."""
        return self.span.owner is None if self.is_foreign else self.span.is_evaluated

    @property
    def is_lone_call(self) -> bool:
        """Whether it is a call of a model that stands below no workflow or agent.

        Heuristics score it as an answer of its own. Judges, which cost money, see it only where its
        prompt says what there is to judge.
        """
        return self.span.kind == "llm" and self.span.owner is None


@dataclass(slots=True)
class Case:
    """What judges are considered for: a record with its scores, and who asked for judges."""

    subject: Subject
    record: Record
    target: Target
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    named: Sequence[Judge] = ()
    """The judges that the span itself names."""


class Evaluating:
    """Evaluates finished spans for one worker.

    Args:
        plan: which evaluators run and which judges are considered.
        outlet: takes what comes of it.
        judging: runs the judges that may run.
        app_heuristics: runs heuristics that are code of the app.
        counts: counts evaluations by how they came about.
        rest: called after each piece of work, so that the worker can pause.
        level: says how full the queue before the worker is; see `overload`.
    """

    def __init__(
        self,
        plan: Plan,
        dispatcher: Dispatcher,
        judging: Judging,
        app_heuristics: AppHeuristics,
        *,
        counts: Counts,
        rest: Callable[[], None],
        level: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._dispatcher = dispatcher
        self._judging = judging
        self._app_heuristics = app_heuristics
        self._counts = counts
        self._rest = rest
        self._level = level
        self._typed: dict[int, tuple[Judge, bool]] = {}
        """The judges that spans named, and whether a decision model can be asked for them."""

    def evaluate(self, subject: Subject) -> None:
        """Hand a span on with all its scores, and submit it to the judges that may run."""
        span, plan = subject.span, self._plan
        target = self._hand_on(subject)
        if subject.is_evaluated or subject.is_lone_call:
            self._let_give_way(subject, target)
        if not subject.is_evaluated:
            if subject.is_lone_call and subject.is_whole and span.error is None:
                record = described(record_of(span, span.gathered), span.spec.function)
                self._emit(self._score(record, {}, [], subject), target, {})
            if span.kind == "llm" and span.prompt is not None:
                self._consider_for_prompt(subject, target)
            return
        for evaluation in span.scored or ():
            self._counts.add("inline")
            self._dispatcher.emit(addressed(_weighted(evaluation, subject.chance), target))
        record = span.record or record_of(
            span, span.gathered, retrieved=plan.retrieved, limits=plan.retrieval_limits
        )
        record = self._priced(with_steps(record, span.gathered), span)
        record = described(record, span.spec.function)
        if subject.is_whole:
            for hooks in plan.hooks:
                with shield("plugins", calls_out=True):
                    subject.judgements += hooks.record_evaluated(
                        span, record, in_spool=subject.in_spool
                    )
        requested = plan.named(span.spec.evaluators)
        evaluations = {evaluation.name: evaluation for evaluation in span.scored or ()}
        if subject.is_whole:
            if span.error is None:
                scores = [each for each in requested if each.kind == "heuristic"]
                misses = (_weighted(miss, subject.chance) for miss in _misses(record, scores))
                self._emit(misses, target, evaluations)
            scored = self._score(record, evaluations, requested, subject)
            self._emit(scored, target, evaluations)
        named = [evaluator for evaluator in requested if evaluator.kind == "judge"]
        case = Case(subject, record, target, evaluations, named)
        self._consider(case, self._considered(span, named))

    def evaluate_case(self, case: Case, heuristics: Heuristics, judges: list[Judge]) -> None:
        """Evaluate what is no span, such as a session; its judgements go to its subject."""
        scores = heuristics.run(
            case.record, by=self._app_heuristics.run_with_deadline, rest=self._rest
        )
        self._emit(scores, case.target, case.evaluations)
        self._consider(case, judges)

    def _emit(
        self, scores: Iterable[Evaluation], target: Target, evaluations: dict[str, Evaluation]
    ) -> None:
        """Hand on scores that were made in the background, and add them to those there are."""
        for evaluation in scores:
            evaluations[evaluation.name] = evaluation
            self._counts.add("background")
            emit = (
                self._dispatcher.emit
                if evaluation.name in registry.heuristics()
                else self._dispatcher.emit_written
            )
            emit(addressed(evaluation, target))

    def _hand_on(self, subject: Subject) -> Target:
        span = subject.span
        data = with_cost(span_data(span, content=self._plan.content), own=self._plan.prices)
        (self._dispatcher.emit if subject.is_exported else self._dispatcher.emit_foreign)(
            data, span.size
        )
        return Target(data.trace_id, data.span_id, data.name, data.kind)

    def _considered(self, span: Span, named: list[Judge]) -> list[Judge]:
        """Return the judges of the plan and those that the span names.

        Where an ``llm`` span below was judged in its place, those that prefer it are left out.
        """
        names = {judge.name for judge in named}
        late = [judge for judge in self._plan.late if judge.name not in names]
        judges: Iterable[Judge] = self._plan.judges
        if ANSWERED in (span.gathered or ()):
            judges = (j for j in judges if j in named or not self._plan.prefers_llm(j))
        return [*judges, *late, *(judge for judge in named if judge not in self._plan.judges)]

    def _consider_for_prompt(self, subject: Subject, target: Target) -> None:
        """Consider the judges of ``llm`` spans for a step whose prompt lets them judge it alone."""
        span = subject.span
        judges = [judge for judge in self._plan.judges if self._plan.prefers_llm(judge)]
        if judges and span.response is not None:
            record = self._priced(record_of(span, span.gathered), span)
            self._consider(Case(subject, record, target), judges)

    def _priced(self, record: Record, span: Span) -> Record:
        """Add what the model calls cost: prices are looked up here, not on the app's thread."""
        if record.usage is None:
            return record
        return replace(record, usage=total(spent_by(span, span.gathered), own=self._plan.prices))

    def _let_give_way(self, subject: Subject, target: Target) -> None:
        """Leave out the heuristics of a random share of records while many records wait.

        Those that run on the app's thread, that the span names or that are the app's own always
        run: they give way with the whole trace.
        """
        chance = chance_of_scores(self._level())
        if chance >= 1:
            return
        subject.share = chance if scoring_draw(target.trace_id) < chance else 0.0
        if not subject.share and len(self._plan.background):
            name = f"{target.span_id}-{HEURISTICS}"
            self._dispatcher.emit(NotRun(name, target, HEURISTICS, "busy", "", time_ns()))

    def _score(
        self,
        record: Record,
        done: dict[str, Evaluation],
        requested: list[Evaluator],
        subject: Subject,
    ) -> Iterable[Evaluation]:
        """Run the background heuristics, and those asked for on this span, each with its weight."""
        chance, share = subject.chance, subject.share
        for heuristic in requested:
            if heuristic.kind == "heuristic" and heuristic.name not in done:
                evaluation = run_requested(heuristic, record, self._app_heuristics.run)
                if evaluation is not None:
                    yield _weighted(evaluation, chance)
                self._rest()
        aside, background = self._app_heuristics.run_with_deadline, self._plan.background
        own, is_part = not share, lacks_passages(record)
        for score in background.run(
            without_marks(record), but=done, own=own, by=aside, aside=aside, rest=self._rest
        ):
            gives_way = share and score.name in registry.heuristics()
            said = _of_part(score) if is_part and _compares(background.get(score.name)) else score
            yield _weighted(said, chance * share if gives_way else chance)

    def _consider(self, case: Case, judges: list[Judge]) -> None:
        """Have the decision model asked where it can answer, and submit the record to the others.

        A judge whose escalation reads a decision is considered when that is there.
        """
        judges = self._without_misses(case, self._without_those_that_give_way(case, judges))
        decided = [judge for judge in judges if self._is_decided(judge, case)]
        if decided:
            judges = self._have_decided(case, judges, decided)
        for judge in judges:
            judgement = self._decide(case, judge, case.evaluations)
            case.subject.judgements += [] if judgement is None else [judgement]

    def _without_those_that_give_way(self, case: Case, judges: list[Judge]) -> list[Judge]:
        """Emit which judges do not see a record whose scores have given way; return the others."""
        if case.subject.share:
            return judges
        for judge in judges:
            concerned = self._plan.gate.concerns(judge.name, case.evaluations, case.record)
            if judge not in case.named and concerned:
                self._dispatcher.emit(not_run(judge, case.target, "busy", ""))
        return [judge for judge in judges if judge in case.named]

    def _is_decided(self, judge: Judge, case: Case) -> bool:
        """Say whether the decision model answers what a judge asks about a record."""
        decisions = self._plan.decisions
        if decisions is None or judge.name in decisions.judges or judge not in case.named:
            return decisions is not None and judge.name in decisions.judges
        known = self._typed.get(id(judge))
        if known is None:
            is_typed = False
            with shield(f"judge {judge.name}", calls_out=True):
                is_typed = typed_form_of(judge) is not None
            if len(self._typed) >= MAX_KNOWN:
                self._typed.clear()
            known = self._typed[id(judge)] = judge, is_typed
        return known[1]

    def _have_decided(
        self, case: Case, judges: list[Judge], decided: Sequence[Judge]
    ) -> list[Judge]:
        """Have the decision model asked about a record, in one request for several judges.

        Returns:
            The judges that are asked themselves, and need not wait for the decision.
        """
        names = {judge.name for judge in decided}
        reads = {judge.name: self._plan.gate.names(judge.name) for judge in judges}
        asking = [judge for judge in judges if judge.name not in names or reads[judge.name]]
        later = [judge for judge in asking if names & reads[judge.name]]
        asked: dict[str, tuple[Judge, Admitted]] = {}
        unsampled: dict[str, str] = {}
        for judge in decided:
            admitted = self._admitted_to_decision(judge, case)
            if isinstance(admitted, Admitted):
                asked[judge.name] = judge, admitted
                continue
            if admitted.reason == "not_sampled":
                unsampled[judge.name] = admitted.detail
            reason, detail = admitted.reason, admitted.detail
            self._dispatcher.emit(not_decided(judge, case.target, reason, detail))

        def follow_up(evaluations: Mapping[str, Evaluation]) -> list[Future[None]]:
            known = {**case.evaluations, **evaluations}
            begun: list[Future[None]] = []
            for judge in later:
                begun += self._follow(case, judge, known, asked, unsampled)
            return begun

        case.subject.judgements += (
            self._judging.decide(DecisionJob(case.record, case.target, asked, follow_up))
            if asked
            else follow_up({})
        )
        return [judge for judge in asking if judge not in later]

    def _admitted_to_decision(self, judge: Judge, case: Case) -> Admitted | Refused:
        """Say whether the decision model is asked a judge's questions about a record."""
        decisions = self._plan.decisions
        if decisions is None or decisions.model is None:
            return Refused("no_judge_model", "" if decisions is None else decisions.why_not)
        admitted = self._plan.gate.decide(judge, case.record, {}, everywhere=True)
        if isinstance(admitted, Refused):
            return admitted
        if not case.subject.is_whole:
            return Refused("error", "the redaction failed")
        return replace(admitted, probability=admitted.probability * _weight(case, judge))

    def _follow(
        self,
        case: Case,
        judge: Judge,
        evaluations: Mapping[str, Evaluation],
        asked: Mapping[str, tuple[Judge, Admitted]],
        unsampled: Mapping[str, str],
    ) -> list[Future[None]]:
        """Submit a record to a judge whose escalation reads decisions, now that they are there.

        The chance of the decisions multiplies that of the judge. One draw for each trace decides
        for all sampling rules, so of several chances the rarest alone counts. Whatever the app's
        judge raises costs that judge alone.
        """
        gate, reads = self._plan.gate, self._plan.gate.names(judge.name)
        missing = next((name for name in unsampled if name in reads), None)
        if missing is not None:
            detail = f"{missing} was not decided: {unsampled[missing]}"
            self._dispatcher.emit_judged(not_run(judge, case.target, "not_sampled", detail))
            return []
        try:
            rates = [
                admitted.probability / _weight(case, other)
                for name, (other, admitted) in asked.items()
                if name in reads
            ]
            own = gate.decide(judge, case.record, {}, everywhere=True)
            chance = 1.0
            if rates and isinstance(own, Admitted):
                chance = min(1.0, min(rates) / own.probability)
            judgement = self._decide(case, judge, evaluations, chance)
        except BaseException as error:
            if not swallow(f"judge {judge.name}", error):
                raise
            error_type = type(error).__name__
            self._dispatcher.emit_judged(not_run(judge, case.target, "error", error_type))
            return []
        return [] if judgement is None else [judgement]

    def _without_misses(self, case: Case, judges: list[Judge]) -> list[Judge]:
        """Hand on what judges say of a missing answer where one was expected; return the others."""
        span = case.subject.span
        if span is None or span.error is not None:  # a session has no span of its own
            return judges
        misses = {miss.name: miss for miss in _misses(case.record, judges)}
        for miss in misses.values():
            self._dispatcher.emit(addressed(miss, case.target))
        return [judge for judge in judges if judge.name not in misses] if misses else judges

    def _decide(
        self, case: Case, judge: Judge, evaluations: Mapping[str, Evaluation], chance: float = 1.0
    ) -> Future[None] | None:
        """Submit a record to a judge, or report why the judge does not run.

        A judge that the span does not name needs a judge model that was configured. ``chance`` is
        that of the decisions that the judge's escalation reads.
        """
        if judge not in case.named and not self._plan.gate.concerns(
            judge.name, evaluations, case.record
        ):
            return None
        may_spend = judge in case.named or self._plan.has_model or not judge.needs_model
        record, target = case.record, case.target
        decision = self._plan.gate.decide(
            judge, record, evaluations, off=None if may_spend else "no_judge_model"
        )
        if isinstance(decision, Refused):
            self._dispatcher.emit(not_run(judge, target, decision.reason, decision.detail))
            return None
        if not case.subject.is_whole:
            self._dispatcher.emit(not_run(judge, target, "error", "the redaction failed"))
            return None
        for hooks in self._plan.hooks:
            with shield("plugins", calls_out=True):
                hooks.judgement_wanted(judge.name, record)
        chance *= _weight(case, judge)
        admitted = replace(decision, probability=decision.probability * chance)
        in_spool = case.subject.in_spool
        asked = own_copy(record_for(judge, record, evaluations))
        return self._judging.submit(Job(judge, asked, target, admitted, in_spool))


def _weight(case: Case, judge: Judge) -> float:
    """Return the chance with which a record was there for a judge to see."""
    share = 1.0 if judge in case.named else case.subject.share
    return case.subject.chance * share


def _weighted(evaluation: Evaluation, chance: float) -> Evaluation:
    """Return an evaluation that was made only where its record stayed and was scored."""
    if chance >= 1:
        return evaluation
    probability = evaluation.inclusion_probability * chance
    return replace(evaluation, inclusion_probability=probability)


def _compares(heuristic: Heuristic | None) -> bool:
    """Say whether a heuristic looks for something in the passages of a record."""
    return heuristic is not None and any("retrieved_context" in need for need in heuristic.needs)


def _of_part(evaluation: Evaluation) -> Evaluation:
    """Say of a score that what it did not find may stand in passages that were not kept."""
    if evaluation.value is None:
        return evaluation
    words = [evaluation.explanation or "", "only a part of the context was kept"]
    metadata = {**evaluation.metadata, "context_capped": True}
    return replace(evaluation, explanation="; ".join(filter(None, words)), metadata=metadata)


def _misses(record: Record, evaluators: Iterable[Evaluator]) -> Iterator[Evaluation]:
    """Yield what evaluators say that compare an answer which is missing with the expected one."""
    for evaluator in evaluators:
        miss = without_answer(evaluator, record)
        if miss is not None and miss.value is not None:
            yield miss
