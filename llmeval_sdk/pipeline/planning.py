"""Makes the plan of a pipeline, of the settings and of what ``configure()`` was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import Heuristics, configured_model
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.gate import JudgeGate
from llmeval_sdk.evaluation.limiter import BudgetLimiter
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
from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules, parse_rules
from llmeval_sdk.evaluation.verdicts import RecentVerdicts
from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model.protocols import (
    BaseExporter,
    Evaluator,
    Exporter,
    Heuristic,
    complete_exporter,
)
from llmeval_sdk.pipeline.deciding import make_tier
from llmeval_sdk.pipeline.plan import Plan, Planning, Plugin
from llmeval_sdk.pipeline.spool import Folder, children_folder
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing.internals import off, state


# What settings alone say of a plan: what may leave, where records survive, who works.


def _what_may_leave(settings: Settings) -> bool | str:
    """Return what content may leave. Raises `ConfigurationError` for any other word."""
    if settings.capture_content not in (True, False, SCORES):
        raise ConfigurationError(
            f"capture_content={settings.capture_content!r}: use True, False or {SCORES!r}"
        )
    return settings.capture_content


def _make_redactor(
    settings: Settings, custom: Callable[[str], str] | None, problems: list[str], *, strict: bool
) -> Redactor:
    """Make the redactor. After a mistake in the environment it takes out all it can."""

    def quietly(text: str) -> str:
        off()  # decorated helpers of the redactor must not make spans that need redaction
        assert custom is not None
        return custom(text)

    own = None if custom is None else quietly
    try:
        return Redactor(settings.redact, own)
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{error}; using all detectors")
        return Redactor(("all",), own)


def _spool_of(settings: Settings) -> Folder | None:
    """Return the spool's folder; ``None`` where none is set."""
    if not settings.spool:
        return None
    return Folder(
        settings.spool, file_bytes=settings.spool_bytes, max_bytes=settings.spool_max_bytes
    )


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


def _ledger_of(settings: Settings) -> Any:
    """Return the file in which the processes of this host keep the budget's books."""
    from llmeval_sdk.store.files import path_of
    from llmeval_sdk.store.ledger import HostLedger

    return HostLedger(path_of(settings.store).with_suffix(".budget"))


# Makes the exporters of a pipeline: by name, from objects, or by the addresses in the settings.


def _make_exporters(
    settings: Settings, own: Sequence[Exporter], problems: list[str], *, strict: bool
) -> tuple[BaseExporter, ...]:
    """Return the app's own exporters and the named ones; by default, those with an address."""
    exporters = [complete_exporter(exporter) for exporter in own]
    for name in settings.exporters or (() if exporters else default_exporters(settings)):
        try:
            exporters.append(complete_exporter(registry.exporter_factory(name)(settings)))
        except ConfigurationError as error:
            if strict:
                raise
            problems.append(f"{config.source_of('exporters')}: {error}; left out")
    return tuple(exporters) or (complete_exporter(registry.exporter_factory("local")(settings)),)


def default_exporters(settings: Settings) -> tuple[str, ...]:
    """Return the exporters for settings that name none: those with an address, else local."""
    names = []
    endpoints = (
        settings.otlp_endpoint, settings.otlp_traces_endpoint, settings.otlp_logs_endpoint
    )  # fmt: skip
    if (any(endpoints) and not settings.otel_disabled) or settings.otel == "global":
        names.append("otlp")
    for plugin in registry.plugins():
        if isinstance(plugin, Plugin):
            names += plugin.default_exporters(settings)
    return tuple(names) or ("local",)


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
    if strict:
        _check_decorators(settings)
    plugins = [plugin for plugin in registry.plugins() if isinstance(plugin, Plugin)]
    planning = Planning(settings=settings, problems=problems, strict=strict, llm=llm)
    planning.requested = requested
    for plugin in plugins:
        _prepare(plugin, planning)
    tier, left = (
        make_tier(decisions, settings, requested, escalations, problems, strict=strict),
        requested,
    )
    if tier is not None:
        left = [evaluator for evaluator in requested if not tier.decides(evaluator)]
        requested, escalations = tier.requested, tier.escalations
    planning.requested = requested
    named = any(evaluator.kind == "judge" for evaluator in left) or bool(escalations)
    spending = any((llm is not None, settings.judge_model, named, planning.judging))
    escalations = escalations_in_force(escalations, settings, spending=spending)
    judges = considered_judges(requested, escalations, settings)
    sampling = _rules(rules, settings, problems)
    _check_rules(sampling, rules, [*requested, *judges], settings, problems, spending=spending)
    read = read_by([*requested, *judges], escalations, settings)
    inline, background = _divided([*requested, *read], settings)
    for change in planning.prepared:
        background = list(map(change, background))
    budget = budget or _budget(settings)
    role = _role_of(settings, problems, strict=strict)
    sinks: tuple[BaseExporter, ...] = ()
    if role != "off":
        sinks = _make_exporters(settings, exporters, problems, strict=strict)
    sink_names = [sink.name for sink in sinks]
    redactor = _make_redactor(settings, redact, problems, strict=strict)
    captured = _what_may_leave(settings)
    plan = Plan(
        exporters=sinks,
        inline=Heuristics(inline, asked_for={evaluator.name for evaluator in requested}),
        background=Heuristics(background, asked_for={evaluator.name for evaluator in requested}),
        judges=judges,
        find=finder((*inline, *background, *judges, *requested), settings),
        gate=JudgeGate(sampling, escalations),
        llm=partial(configured_model, llm, settings),
        has_model=spending,
        limiter=BudgetLimiter(budget, _ledger_of(settings)),
        concurrency=budget.concurrency,
        judge_timeout=settings.judge_timeout,
        retrieved=settings.retrieved_context,
        retrieval_limits=settings.retrieval_limits,
        content=captured is True,
        names=captured != SCORES,
        redactor=redactor,
        spool=_spool_of(settings),
        children=None
        if settings.spool
        else children_folder(settings.store, sink_names, max_bytes=settings.spool_max_bytes),
        role=role,
        recent=partial(_recent_scores_of, settings) if "local" in sink_names else None,
        queue_records=settings.queue_records,
        queue_bytes=settings.queue_bytes,
        background_share=settings.background_share,
        tier=tier,
        verdicts=RecentVerdicts,
        judging=planning.judging,
        hooks=tuple(planning.hooks),
        freezes=planning.freezes,
        new_loop=planning.new_loop,
        prices=settings.prices,
    )
    for plugin in plugins:
        plan = _complete(plugin, plan, settings, planning)
    return plan


def _prepare(plugin: Plugin, planning: Planning) -> None:
    """Have a plugin prepare; one that raises what is no mistake of the settings is left alone."""
    try:
        plugin.prepare(planning)
    except ConfigurationError:
        raise
    except Exception as error:
        if not swallow(f"plugin {plugin.name}", error, calls_out=True):
            raise


def _complete(plugin: Plugin, plan: Plan, settings: Settings, planning: Planning) -> Plan:
    try:
        return plugin.complete(plan, settings, planning)
    except ConfigurationError:
        raise
    except Exception as error:
        if not swallow(f"plugin {plugin.name}", error, calls_out=True):
            raise
        return plan


def recording_plan(
    settings: Settings, problems: list[str], *, exporters: Sequence[Exporter], exports: bool
) -> Plan:
    """Make a plan that traces and evaluates nothing; with ``exports=False`` it exports nothing.

    Raises:
        ConfigurationError: an exporter that is not known or lacks its library.
    """
    plan = make_plan(settings, problems, exporters=exporters, escalations=[], rules=[], strict=True)
    plan = replace(plan, background=Heuristics(), judges=(), tier=None, hooks=())
    return plan if exports else replace(plan, exporters=())


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
