"""The plan that a pipeline works by, made of the settings and of what ``configure()`` was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk._process.shield import shield, tell
from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import Heuristics, Models, configured_model
from llmeval_sdk.evaluation.resolve import (
    considered_judges,
    escalations_in_force,
    finder,
    idle_rules,
    place_of,
    read_by,
    requested_evaluators,
    resolve,
    standing_heuristics,
)
from llmeval_sdk.evaluation.verdicts import RecentVerdicts, Verdicts
from llmeval_sdk.pipeline._destinations import make_exporters
from llmeval_sdk.pipeline._from_settings import (
    ledger_of,
    make_redactor,
    recent_scores_of,
    role_of,
    spool_of,
    what_may_leave,
)
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.escalation import Escalation
from llmeval_sdk.policy.gate import JudgeGate
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.sampling import SamplingRule, SamplingRules, parse_rules
from llmeval_sdk.protocols import LLM, BaseExporter, Evaluator, Exporter, Heuristic, Judge
from llmeval_sdk.redaction import Redactor
from llmeval_sdk.spool import Folder, children_folder
from llmeval_sdk.tracing._inner import state


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The resolved configuration of one pipeline."""

    exporters: tuple[BaseExporter, ...]
    inline: Heuristics
    """Built-in metadata heuristics and those declared inline: run on the app's thread."""
    background: Heuristics
    judges: tuple[Judge, ...] = ()
    """Judges considered for every evaluated span."""
    find: Callable[[Any], Evaluator | None]
    """Resolves what a span's own ``evaluators=`` names; ``None`` if unknown, which is counted."""
    gate: JudgeGate
    llm: Callable[[], LLM | None]
    """Makes the judge model; ``None`` when no judge may spend anything."""
    has_model: bool = False
    keeper: BudgetKeeper
    concurrency: int = 8
    judge_timeout: float = 60.0
    retrieved: str = "last"
    retrieval_limits: Mapping[str, int] | None = None
    content: bool = True
    """Whether the app's texts may leave."""
    names: bool = True
    """Whether names, tags, metadata and document ids that the app chose may leave."""
    redactor: Redactor = field(default_factory=Redactor)
    """Takes out of every record what may not leave the process."""
    spool: Folder | None = None
    """Where records survive the process."""
    children: Folder | None = None
    """Where records of multiprocessing's children survive them, where there is no ``spool``."""
    role: str = "thread"
    """What this process does with records: ``thread`` evaluates and delivers them, ``off`` leaves
    them in the spool, and ``agent`` also takes those that living processes leave there."""
    recent: Callable[[str], list[tuple[str | None, float]]] | None = None
    """Returns the latest scores of an evaluator in earlier processes, with their span names, oldest
    first; escalation by share begins with them."""
    queue_records: int = 20_000
    queue_bytes: int = 32 << 20
    background_share: float = 0.5
    tier: Any = None
    """Which decision model is asked in the place of which judges; ``None`` where none is."""
    judging: Callable[[Any, Any], Any] | None = None
    """Makes what takes judgements, of the plan and its outlet; ``None`` judges in this process."""
    verdicts: Callable[[], Verdicts] = RecentVerdicts
    """Makes what finds the verdicts of identical judgements."""
    sessions: Any = None
    """Has sessions evaluated when they have been idle; ``None`` where nobody asked for it."""
    learning: Any = None
    """Re-fits risk scores on what is said of records; ``None`` where that is absent or off."""
    prices: Mapping[str, tuple[float, ...]] | None = field(default=None)
    """Own prices of models, judges' and the app's: USD per million input and output tokens."""

    def close(self) -> None:
        """Let go of files; last of the link to Redis, which takes what the other parts leave."""
        for part in (self.sessions, self.learning, self.tier, self.keeper):
            if part is not None:
                with shield("the files of a plan"):
                    part.close()

    def prefers_llm(self, judge: Judge) -> bool:
        """Return whether a judge looks at ``llm`` spans rather than at the requests above them.

        An escalated one does not: it needs the scores of the request.
        """
        return "llm" in judge.span_kinds and not self.gate.names(judge.name)

    def named(self, names: Iterable[Any]) -> list[Evaluator]:
        """Return the evaluators that a span names.

        A line in the log says which are unknown, or evaluate sessions: `configure` takes those.
        """
        evaluators = []
        for name in names:
            evaluator = self.find(name)
            if evaluator is None or getattr(evaluator, "per", "answer") == "session":
                tell("evaluators=", f"no evaluator of requests is named {name!r}"[:120])
            else:
                evaluators.append(evaluator)
        return evaluators

    def models(self) -> Models:
        """Return the judge models, none of them made yet."""
        return Models(self.llm, self.keeper, concurrency=self.concurrency, prices=self.prices)


def make_plan(
    settings: Settings,
    problems: list[str],
    *,
    evaluators: Sequence[Any] = (),
    escalations: Sequence[Escalation] | None = None,
    rules: Sequence[SamplingRule] | str | None = None,
    budget: Budget | None = None,
    llm: Any = None,
    decisions: Any = None,
    exporters: Sequence[Exporter] = (),
    redact: Callable[[str], str] | None = None,
    strict: bool = False,
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

    Raises:
        ConfigurationError: something cannot be used; the message names it and says what to do.
    """

    def complain(problem: str) -> None:
        problems.append(f"{config.source_of('evaluators')}: {problem}")

    requested = requested_evaluators(evaluators, settings, complain)
    _check_model_name(llm, settings, problems, strict=strict)
    if strict:
        _check_decorators(settings)
    tier, left = None, requested
    make_tier = (registry.part if decisions is None else registry.load)(registry.DECIDING)
    if make_tier is not None:
        tier = make_tier(decisions, settings, requested, escalations, problems, strict=strict)
        if tier is not None:
            left = [evaluator for evaluator in requested if not tier.decides(evaluator)]
            requested, escalations = tier.requested, tier.escalations
    named = any(evaluator.kind == "judge" for evaluator in left) or bool(escalations)
    make_fleet = registry.part(registry.FLEET)
    judging = make_fleet and make_fleet(settings, problems, strict=strict)
    spending = any((llm is not None, settings.judge_model, named, judging))
    escalations = escalations_in_force(escalations, settings, spending=spending)
    judges = considered_judges(requested, escalations, settings)
    sampling = _rules(rules, settings, problems)
    _check_rules(sampling, rules, [*requested, *judges], settings, problems, spending=spending)
    read = read_by([*requested, *judges], escalations, settings)
    inline, background = _divided([*requested, *read], settings)
    make_learning = registry.part(registry.LEARNING)
    learning = None if make_learning is None else make_learning(settings)
    if learning is not None:
        background = list(map(learning.taught, background))
    budget = budget or _budget(settings)
    role = role_of(settings, problems, strict=strict)
    sinks: tuple[BaseExporter, ...] = ()
    if role != "off":
        sinks = make_exporters(settings, exporters, problems, strict=strict)
    sink_names = [sink.name for sink in sinks]
    redactor = make_redactor(settings, redact, problems, strict=strict)
    captured = what_may_leave(settings)
    plan = Plan(
        exporters=sinks,
        inline=Heuristics(inline, asked_for={evaluator.name for evaluator in requested}),
        background=Heuristics(background, asked_for={evaluator.name for evaluator in requested}),
        judges=judges,
        find=finder((*inline, *background, *judges, *requested), settings),
        gate=JudgeGate(sampling, escalations),
        llm=partial(configured_model, llm, settings),
        has_model=spending,
        keeper=BudgetKeeper(budget, ledger_of(settings)),
        concurrency=budget.concurrency,
        judge_timeout=settings.judge_timeout,
        retrieved=settings.retrieved_context,
        retrieval_limits=settings.retrieval_limits,
        content=captured is True,
        names=captured != SCORES,
        redactor=redactor,
        spool=spool_of(settings),
        children=None
        if settings.spool
        else children_folder(settings.store, sink_names, max_bytes=settings.spool_max_bytes),
        role=role,
        recent=partial(recent_scores_of, settings) if "local" in sink_names else None,
        queue_records=settings.queue_records,
        queue_bytes=settings.queue_bytes,
        background_share=settings.background_share,
        tier=tier,
        judging=judging,
        learning=learning,
        prices=settings.prices,
    )
    if (share := registry.part(registry.SHARED)) is not None:
        plan = share(plan, settings, problems, strict=strict)
    wanted = (*judges, *requested, *registry.own_evaluators())
    if any(getattr(evaluator, "per", "answer") == "session" for evaluator in wanted):
        plan = registry.load(registry.SESSIONS)(plan, settings, requested)
    return plan


def recording_plan(
    settings: Settings, problems: list[str], *, exporters: Sequence[Exporter], exports: bool
) -> Plan:
    """Make a plan that traces and evaluates nothing; with ``exports=False`` it exports nothing.

    Raises:
        ConfigurationError: an exporter that is not known or lacks its library.
    """
    plan = make_plan(settings, problems, exporters=exporters, escalations=[], rules=[], strict=True)
    plan = replace(plan, background=Heuristics(), judges=(), tier=None, sessions=None)
    return plan if exports else replace(plan, exporters=())


def _check_model_name(llm: Any, settings: Settings, problems: list[str], *, strict: bool) -> None:
    """Say that nothing stands for the judge model's ``provider/model``, where that is so."""
    model: object = settings.judge_model  # or an object, where a test or a worker sets it
    has_provider = llm is None and isinstance(model, str) and "/" in model
    if has_provider and (check := registry.part(registry.JUDGE_MODEL_NAMES)) is not None:
        check(settings, problems, strict=strict)


def _check_decorators(settings: Settings) -> None:
    """Raise `ConfigurationError` for an evaluator that a decorator names and that is not known."""
    for span_name, evaluators in list(state.requested.values()):
        for evaluator in evaluators:
            try:
                resolve(evaluator, settings)
            except ConfigurationError as error:
                raise ConfigurationError(f"evaluators= of {span_name!r}: {error}") from None


def _divided(
    requested: Sequence[Evaluator], settings: Settings
) -> tuple[list[Heuristic], list[Heuristic]]:
    """Divide the heuristics into those for the app's thread and those for the worker."""
    wanted = {heuristic.name: heuristic for heuristic in requested if heuristic.kind == "heuristic"}
    standing = {heuristic.name: heuristic for heuristic in standing_heuristics(settings)}
    heuristics = [
        (place_of(heuristic, settings, requested=heuristic.name in wanted), heuristic)
        for heuristic in (standing | wanted).values()
    ]
    inline = [heuristic for place, heuristic in heuristics if place == "caller"]
    return inline, [heuristic for place, heuristic in heuristics if place == "worker"]


def _budget(settings: Settings) -> Budget:
    return Budget(
        calls_per_minute=settings.calls_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        usd_per_day=settings.usd_per_day,
        concurrency=max(1, settings.judge_concurrency),
    )


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
) -> None:
    """Tell each sampling rule that limits nothing, where a judge may run.

    Raises `ConfigurationError` where one that names no evaluator is an object that ``configure()``
    was given.
    """
    if not sampling.rules:
        return
    named = [name for _, names in list(state.requested.values()) for name in names]
    find = finder(planned, settings)
    by_spans = [evaluator for name in named if (evaluator := find(name)) is not None]
    for finding in idle_rules(sampling, [*planned, *by_spans], settings):
        if finding.unknown and configured is not None and not isinstance(configured, str):
            raise ConfigurationError(finding.words)
        if finding.unknown or spending:
            problems.append(finding.words)
