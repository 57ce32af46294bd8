"""The tier of decisions in a plan: which model is asked, and in the place of which judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config, registry
from llmeval_sdk._process.shield import tell
from llmeval_sdk.config import Settings
from llmeval_sdk.config.decisions import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.policy.conditions import compared_by
from llmeval_sdk.policy.escalation import Escalation, default_escalation
from llmeval_sdk.protocols import DecisionModel, Evaluator, Judge
from llmeval_sdk.store.files import path_of


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.deciding import Decider
    from llmeval_sdk.pipeline._deciding import Deciding
    from llmeval_sdk.pipeline._judges_loop import JudgesLoop
    from llmeval_sdk.pipeline._plan import Plan
    from llmeval_sdk.policy.keeper import BudgetKeeper


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
    keeper: BudgetKeeper
    thresholds: Mapping[str, float]
    settings: Settings

    def decides(self, evaluator: Evaluator) -> bool:
        """Say whether the decision model is asked in the place of an evaluator on all traffic."""
        return evaluator.name in self.everywhere

    def begun(self, plan: Plan, loop: JudgesLoop, emit: Callable[[Any], None]) -> Deciding:
        """Return what asks the model, for one pipeline; see `Deciding`."""
        from llmeval_sdk.pipeline._deciding import Deciding

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
            self.keeper,
            timeout=plan.judge_timeout,
            thresholds=self.thresholds,
            prices=plan.prices,
            verdicts=RecentVerdicts(),
            calibrations=Calibrations(path, lambda problem: tell("calibration", problem)),
        )

    def close(self) -> None:
        """Let go of the budget's file."""
        self.keeper.close()


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
    from llmeval_sdk.evaluation.decision_budget import host_keeper

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
        keeper=host_keeper(settings),
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
    from llmeval_sdk.llms.decisions import resolve

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
    from llmeval_sdk.evaluation.resolve import resolve
    from llmeval_sdk.policy.cascade import Cascade

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
    from llmeval_sdk.evaluation.resolve import resolve
    from llmeval_sdk.policy.cascade import Cascade

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
            if name in registry.HEURISTICS:
                continue
            evaluator = resolve(own.get(name, name), settings)
            if evaluator.kind == "judge":
                read[name] = evaluator
    return list(read.values())


def _refuse_unrated(typed: Iterable[Judge], escalations: Iterable[Escalation]) -> None:
    """Raise where an escalation compares a decision that never has a probability."""
    from llmeval_sdk.judges.typed import unrated_categories

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
        for name in escalation.names() - registry.HEURISTICS.keys():
            known = registry.known(name)
            is_judge = known is not None and known.kind == "judge"
            if is_judge or name in judges:
                raise ConfigurationError(
                    f"{type(escalation).__name__}({escalation.name!r}) reads the decision on "
                    f"{name!r}, and no decision model is named: set LLMEVAL_DECISION_MODEL or "
                    "configure(decisions=...)"
                )
