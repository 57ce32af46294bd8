"""Makes the plan of a pipeline, of the settings and of what ``configure()`` was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk import config, registry
from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import DECISION_BUDGET, Budget
from llmeval_sdk.evaluation.escalation import (
    Cascade,
    Escalation,
    JudgeGate,
    compared_by,
)
from llmeval_sdk.evaluation.json_rules import EscalationRules, parse_budgets, parse_rules
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.models import configured_model
from llmeval_sdk.evaluation.resolve import (
    considered_judges,
    escalations_as_written,
    escalations_in_force,
    finder,
    idle_rules,
    read_by,
    requested_evaluators,
    resolve,
)
from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules
from llmeval_sdk.evaluation.scoring import Heuristics, Unloaded
from llmeval_sdk.evaluation.standing import place_of, standing_heuristics
from llmeval_sdk.evaluation.verdicts import Verdicts
from llmeval_sdk.judges.base import unrated_categories
from llmeval_sdk.model.protocols import (
    BaseExporter,
    DecisionModel,
    Evaluator,
    Exporter,
    Heuristic,
    Judge,
)
from llmeval_sdk.pipeline.intake import NOTHING_EARLY, Early, make_exporters, make_redactor
from llmeval_sdk.pipeline.plan import DecisionPlan, Plan, Planning, Plugin
from llmeval_sdk.pipeline.spool import Folder, children_folder
from llmeval_sdk.process.shield import caught, describe, is_ours
from llmeval_sdk.store.state import HostLedger, ledger_path, state_path
from llmeval_sdk.tracing.internals import state


if TYPE_CHECKING:
    from llmeval_sdk.exporters.redaction import Redactor


# What settings alone say of a plan: what may leave, where records survive, who works.


def _spool_of(settings: Settings) -> Folder | None:
    """Return the spool's folder; ``None`` where none is set."""
    if not settings.spool:
        return None
    return Folder(settings.spool)


def _role_of(settings: Settings, problems: list[str], *, strict: bool) -> str:
    """Return the role of this process. Without a spool no other process can do its work."""
    if settings.worker == "thread" or settings.spool:
        return settings.worker
    problem = f"worker={settings.worker!r} needs a spool: set LLMEVAL_SPOOL to a folder"
    if strict:
        raise ConfigurationError(problem)
    problems.append(f"{problem}; using a thread")
    return "thread"


def _recent_scores_of(settings: Settings, name: str) -> list[tuple[str | None, float]]:
    """Read an evaluator's latest scores from the store, if there is one; see `Plan.recent`."""
    from llmeval_sdk.store.reader import recent_scores

    return recent_scores(settings.store, name)


def _ledger_of(settings: Settings) -> HostLedger:
    """Return the file in which the processes of this host keep the budget's books."""
    return HostLedger(ledger_path(settings.store))


# The decision model of a plan: which one is asked, and the questions of which judges.


class _Decided(NamedTuple):
    """What a decision model answers, and what is asked for so that it may."""

    plan: DecisionPlan
    requested: list[Evaluator]
    """The evaluators asked for, with the judges whose decisions escalations read."""
    escalations: Sequence[Escalation] | None
    """The escalations that were configured, with the cascades of the settings."""


def _plan_decisions(
    decisions: object,
    settings: Settings,
    requested: list[Evaluator],
    escalations: Sequence[Escalation] | None,
    problems: list[str],
    *,
    strict: bool,
) -> _Decided | None:
    """Return what a decision model answers; ``None`` where none is named.

    A key alone names none. A mistake of the environment is a line of ``problems``.

    Raises:
        ConfigurationError: What ``configure()`` was given cannot be used, or a person is watching
            and the environment names a decision model that cannot be used.
    """
    own = settings.of(DecisionSettings)
    if decisions is None and own.decision_model is None:
        _refuse_readers(requested, escalations or ())
        return None
    from llmeval_sdk.evaluation.decisions import checked_thresholds, divided

    model, why_not = _model(decisions, settings, problems, strict=strict)
    if escalations is not None:
        escalations = [_with_its_judge(escalation, settings) for escalation in escalations]
    read = _read(requested, escalations or (), settings)
    judges = [evaluator for evaluator in requested if evaluator.kind == "judge"]
    typed, others = divided([*judges, *read])
    for judge in others:
        if judge in read:
            raise ConfigurationError(
                f"an escalation reads the decision on {judge.name!r}, and {_UNTYPED}"
            )
        problems.append(f"decisions: {judge.name}: {_UNTYPED}; it is left to the judge model")
    _refuse_unrated(typed, escalations or ())
    plan = DecisionPlan(
        model=model,
        why_not=why_not,
        judges=frozenset(judge.name for judge in typed),
        thresholds=checked_thresholds(getattr(model, "thresholds", None)),
        concurrency=DECISION_BUDGET.concurrency,
        calibrations=state_path(settings.store),
    )
    return _Decided(plan, [*requested, *read], escalations)


_UNTYPED = "it cannot be asked as a typed question (a free score, code or a model of its own)"


def _model(
    decisions: object, settings: Settings, problems: list[str], *, strict: bool
) -> tuple[DecisionModel | None, str]:
    from llmeval_sdk.judges.models import decisions as models

    if config.JUDGES in settings.closed:
        return None, settings.closed[config.JUDGES]
    try:
        return models.resolve(decisions, settings=settings), ""
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{config.source_of('decision_model')}: {error}")
        return None, str(error)


def _with_its_judge(escalation: Escalation, settings: Settings) -> Escalation:
    """Return a cascade of the judge that its address stands for: it goes by the judge's name."""
    judge = escalation.judge
    if not isinstance(escalation, Cascade) or not isinstance(judge, str) or ":" not in judge:
        return escalation
    evaluator = resolve(judge, settings)
    if evaluator.kind != "judge":
        raise ConfigurationError(f"Cascade({judge!r}): it is no judge but a {evaluator.kind}")
    return escalation.asking(evaluator)


def _read(
    requested: Iterable[Evaluator], escalations: Iterable[Escalation], settings: Settings
) -> list[Judge]:
    """Return the judges whose decisions escalations read, beside those that were asked for."""
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


# The plan itself.


def make_plan(
    settings: Settings,
    problems: list[str],
    *,
    evaluators: Sequence[object] = (),
    escalations: Sequence[Escalation] | None = None,
    rules: Sequence[SamplingRule] | str | None = None,
    budget: Budget | None = None,
    llm: Any = None,
    decisions: object = None,
    exporters: Sequence[Exporter] = (),
    redact: Callable[[str], str] | None = None,
    strict: bool = False,
    early: Early = NOTHING_EARLY,
    pause: Callable[[], None] = lambda: None,
) -> Plan:
    """Resolve all names and make the plan.

    A mistake in what ``configure()`` was given is raised; one of the environment becomes a line of
    ``problems``. A paid judge may run only where a model was named or judges were asked for: a key
    in the environment alone starts none.

    Args:
        settings: the settings in force.
        problems: gets a line for each mistake of the environment.
        evaluators: evaluators beside those of the settings: names or objects.
        escalations: see ``configure()``.
        rules: sampling rules; see ``configure()``.
        budget: what judges may use; by default as the settings say.
        llm: the judge model; by default that of the settings.
        decisions: the decision model; by default that of the settings.
        exporters: objects, beside those that the settings name.
        redact: the app's own redaction.
        strict: raise mistakes of the environment too, because a person is watching.
        early: parts of the plan that the app's thread has made.
        pause: called between two pieces of work.

    Raises:
        ConfigurationError: something cannot be used; the message names it and says what to do.
    """
    settings, redactor = _redaction(settings, redact, early, problems, strict=strict)

    def complain(problem: str) -> None:
        problems.append(f"{config.source_of('evaluators')}: {problem}")

    requested = requested_evaluators(evaluators, settings, complain)
    if strict:
        check_decorators(settings)
    pause()
    plugins = [plugin for plugin in registry.plugins() if isinstance(plugin, Plugin)]
    planning = Planning(settings=settings, problems=problems, strict=strict, llm=llm)
    planning.requested = requested
    plugins = [plugin for plugin in plugins if _is_prepared(plugin, planning)]
    pause()
    written = EscalationRules(escalations)
    if escalations is None:
        written = escalations_as_written(settings)
        escalations = written.escalations
        problems.extend(f"{config.source_of('escalations')}: {line}" for line in written.problems)
    decided = _plan_decisions(decisions, settings, requested, escalations, problems, strict=strict)
    by_decision: frozenset[str] = frozenset()
    if decided is not None:
        requested, escalations = decided.requested, decided.escalations
        by_decision = decided.plan.judges
    planning.requested = requested
    asking = (each for each in requested if each.kind == "judge" and each.name not in by_decision)
    named = any(asking) or bool(escalations)
    spending = any((llm is not None, settings.judge_model, named, planning.judging))
    escalations = escalations_in_force(escalations, settings, spending=spending)
    judges = considered_judges(requested, escalations, settings)
    pause()
    sampling = _rules(rules, settings, problems)
    planned = [*requested, *judges]
    nobodys = _check_rules(sampling, rules, planned, settings, problems, spending=spending)
    closing = (SamplingRule(0.0),) if config.JUDGES in settings.closed else written.closing
    sampling = replace(
        sampling,
        rules=(*closing, *sampling.rules),
        nobodys=nobodys,
        awaited=written.nobodys,
    )
    escalations = [*escalations, *written.awaiting]
    read = read_by(planned, escalations, settings)
    inline, background = _divided([*requested, *read], settings)
    pause()
    budget = budget or _budget(settings, problems)
    role = _role_of(settings, problems, strict=strict)
    sinks: tuple[BaseExporter, ...] = ()
    if role != "off":
        sinks = early.exporters or make_exporters(settings, exporters, problems, strict=strict)
    pause()
    sink_names = [sink.name for sink in sinks]
    captured = settings.capture_content
    plan = Plan(
        exporters=sinks,
        inline=Heuristics(inline, asked_for={evaluator.name for evaluator in requested}),
        background=Heuristics(background, asked_for={evaluator.name for evaluator in requested}),
        judges=judges,
        awaited=frozenset(each.name for each in written.awaiting),
        find=finder((*inline, *background, *judges, *requested), settings),
        gate=JudgeGate(sampling, escalations),
        llm=partial(configured_model, llm, settings),
        has_model=spending,
        limiter=BudgetLimiter(budget, _ledger_of(settings), apart=_apart(decided)),
        concurrency=budget.concurrency,
        judge_timeout=settings.judge_timeout,
        retrieved=settings.retrieved_context,
        retrieval_limits=settings.retrieval_limits,
        content=captured is True,
        names=captured != SCORES,
        redactor=redactor,
        spool=_spool_of(settings),
        children=None if settings.spool else children_folder(settings.store, sink_names),
        role=role,
        recent=partial(_recent_scores_of, settings) if "local" in sink_names else None,
        background_share=settings.background_share,
        decisions=None if decided is None else decided.plan,
        verdicts=Verdicts,
        judging=planning.judging,
        hooks=tuple(planning.hooks),
        freezes=planning.freezes,
        new_loop=planning.new_loop,
        prices=settings.prices,
    )
    for plugin in plugins:
        pause()
        plan = _complete(plugin, plan, settings, planning)
    return plan


def _redaction(
    settings: Settings,
    redact: Callable[[str], str] | None,
    early: Early,
    problems: list[str],
    *,
    strict: bool,
) -> tuple[Settings, Redactor]:
    """Return what takes out of every record what may not leave, and the settings in force with it.

    Where it cannot be made, what it protects does not leave: no text, no name, nothing to a judge.
    """
    try:
        return settings, early.redactor or make_redactor(settings, redact)
    except Exception as error:
        if strict or not is_ours(error):
            raise
        why = f"redaction cannot be made: {describe(error)}; no text is sent and no judge runs"
        caught.add("redact")
        problems.append(f"redact: {why}")
        closed = settings.without_texts_and_judges(why).changed(capture_content=SCORES, redact=())
        return closed, make_redactor(closed, None)


def _is_prepared(plugin: Plugin, planning: Planning) -> bool:
    """Have a plugin prepare; one that raises what is no mistake of the settings is left out."""
    try:
        plugin.prepare(planning)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        if not is_ours(error):
            raise
        registry.leave_out(plugin.name, describe(error))
        return False
    return True


def _complete(plugin: Plugin, plan: Plan, settings: Settings, planning: Planning) -> Plan:
    try:
        completed = plugin.complete(plan, settings, planning)
        if not isinstance(completed, Plan):
            raise TypeError("its complete() returns no plan")  # noqa: TRY301
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        if not is_ours(error):
            raise
        registry.leave_out(plugin.name, describe(error))
        return plan
    return completed


def recording_plan(
    settings: Settings, problems: list[str], *, exporters: Sequence[Exporter], exports: bool
) -> Plan:
    """Make a plan that traces and evaluates nothing; with ``exports=False`` it exports nothing.

    Raises:
        ConfigurationError: an exporter that is not known or lacks its library.
    """
    plan = make_plan(settings, problems, exporters=exporters, escalations=[], rules=[], strict=True)
    plan = replace(plan, background=Heuristics(), judges=(), decisions=None, hooks=())
    return plan if exports else replace(plan, exporters=())


def check_decorators(settings: Settings) -> None:
    """Raise `ConfigurationError` for an evaluator that a decorator names and that is not known."""
    for span_name, evaluators in list(state.requested.values()):
        for evaluator in evaluators:
            try:
                resolve(evaluator, settings)
            except ConfigurationError as error:
                raise ConfigurationError(f"evaluators= of {span_name!r}: {error}") from None


def _divided(
    requested: Sequence[Evaluator], settings: Settings
) -> tuple[list[Heuristic | Unloaded], list[Heuristic | Unloaded]]:
    """Divide the heuristics into those for the app's thread and those for the worker."""
    wanted = {heuristic.name: heuristic for heuristic in requested if heuristic.kind == "heuristic"}
    standing = {heuristic.name: heuristic for heuristic in standing_heuristics(settings)}
    every: Mapping[str, Heuristic | Unloaded] = {**standing, **wanted}
    heuristics = [
        (place_of(heuristic, settings, requested=heuristic.name in wanted), heuristic)
        for heuristic in every.values()
    ]
    inline = [heuristic for place, heuristic in heuristics if place == "caller"]
    return inline, [heuristic for place, heuristic in heuristics if place == "worker"]


def _budget(settings: Settings, problems: list[str]) -> Budget:
    """Return the budget of the settings. It allows nothing while a limit cannot be read.

    Raises:
        ConfigurationError: code has set limits of groups that cannot be read.
    """
    groups = parse_budgets(settings.budget_groups)
    source = config.source_of("budget_groups")
    if groups.problems and source == "default":
        raise ConfigurationError(f"budget_groups: {groups.problems[0]}")
    problems.extend(
        f"{source}: {line}; until it can be read, no judge pays" for line in groups.problems
    )
    return Budget(
        calls_per_minute=0 if groups.problems else settings.calls_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        usd_per_day=settings.usd_per_day,
        concurrency=max(1, settings.judge_concurrency),
        groups=groups.groups,
    )


def _apart(decided: _Decided | None) -> dict[str, Budget]:
    """Return the accounts that do not count in the budget of judge models: that of decisions."""
    if decided is None:
        return {}
    from llmeval_sdk.evaluation.decisions import ACCOUNT

    return {ACCOUNT: getattr(decided.plan.model, "budget", None) or DECISION_BUDGET}


def _rules(
    configured: Sequence[SamplingRule] | str | None, settings: Settings, problems: list[str]
) -> SamplingRules:
    if configured is not None and not isinstance(configured, str):
        return SamplingRules.of(configured)
    rules = parse_rules(configured if configured is not None else settings.sampling_rules)
    problems.extend(rules.problems)
    return rules


def _check_rules(
    sampling: SamplingRules,
    configured: Sequence[SamplingRule] | str | None,
    planned: Sequence[Evaluator],
    settings: Settings,
    problems: list[str],
    *,
    spending: bool,
) -> frozenset[str]:
    """Tell each sampling rule that limits nothing, where a judge may run.

    Returns the names in rules that nobody has.

    Raises `ConfigurationError` where one that names no evaluator is an object that ``configure()``
    was given.
    """
    if not sampling.rules:
        return frozenset()
    nobodys = set[str]()
    named = [name for _, names in list(state.requested.values()) for name in names]
    find = finder(planned, settings)
    by_spans = [evaluator for name in named if (evaluator := find(name)) is not None]
    for finding in idle_rules(sampling, [*planned, *by_spans], settings):
        if finding.unknown and configured is not None and not isinstance(configured, str):
            raise ConfigurationError(finding.words)
        if finding.unknown or spending:
            problems.append(finding.words)
        if finding.unknown:
            nobodys.add(finding.unknown)
    return frozenset(nobodys)
