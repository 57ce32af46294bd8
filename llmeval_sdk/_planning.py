"""Settings and what ``configure()`` was given -> the Plan that a pipeline works by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.evaluation import Heuristics
from llmeval_sdk.pipeline import Plan
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.escalation import Escalation, default_escalation
from llmeval_sdk.policy.gate import Gate
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.sampling import SamplingRule, SamplingRules, parse_rules
from llmeval_sdk.protocols import (
    LLM,
    BaseExporter,
    Exporter,
    Heuristic,
    Judge,
    complete_exporter,
    complete_judge,
)
from llmeval_sdk.redaction import Redactor
from llmeval_sdk.spool import Folder, children_folder
from llmeval_sdk.tracing._inner import off, state


SHARED = {"extraction_correctness": "extractions", "groundedness": "answers"}
"""The judges that `Settings.judge_share` is for, each with the records that it gets."""


def make_plan(
    resolved: Settings,
    problems: list[str],
    *,
    evaluators: tuple[Any, ...] = (),
    escalations: Sequence[Escalation] | None = None,
    rules: Sequence[SamplingRule] | str | None = None,
    budget: Budget | None = None,
    llm: Any = None,
    exporters: tuple[Exporter, ...] = (),
    redact: Callable[[str], str] | None = None,
    strict: bool = False,
) -> Plan:
    """Resolve all names. What a person gave must be right; what the environment gave may err.

    A paid judge may run only where a model was named or judges were asked for (``spending``): a key
    in the environment alone starts none.
    """
    asked = [_resolve(each, resolved) for each in evaluators]
    for name in resolved.evaluators:
        try:
            asked.append(_resolve(name, resolved))
        except ConfigurationError as error:
            problems.append(f"{config.source_of('evaluators')}: {error}")
    if strict:
        _check_decorators(resolved)
    named = [each for each in asked if each.kind == "judge"] or escalations
    spending = bool(llm is not None or resolved.judge_model or named)
    escalations = _escalations(escalations, resolved, spending=spending)
    judges = _judges(asked, escalations, resolved)
    sampling = _rules(rules, resolved, problems)
    inline, background = _heuristics([*asked, *_read_by(escalations)], resolved)
    budget = budget or Budget(
        calls_per_minute=resolved.calls_per_minute,
        tokens_per_minute=resolved.tokens_per_minute,
        usd_per_day=resolved.usd_per_day,
        concurrency=max(1, resolved.judge_concurrency),
    )
    worker = _worker(resolved, problems, strict=strict)
    sinks = () if worker == "off" else _exporters(resolved, exporters, problems, strict=strict)
    redactor = _redactor(resolved, redact, problems, strict=strict)
    is_stored = any(sink.name == "local" for sink in sinks)
    return Plan(
        exporters=sinks,
        inline=Heuristics(inline),
        background=Heuristics(background),
        judges=judges,
        find=_finder((*inline, *background, *judges, *asked), resolved),
        gate=Gate(sampling, escalations),
        llm=lambda: _llm(llm, resolved),
        has_model=spending,
        keeper=BudgetKeeper(budget, _ledger(resolved)),
        concurrency=budget.concurrency,
        judge_timeout=resolved.judge_timeout,
        retrieved=resolved.retrieved_context,
        retrieval_limits=resolved.retrieval_limits,
        content=_captures(resolved) is True,
        names=_captures(resolved) != SCORES,
        redactor=redactor,
        spool=_spool(resolved),
        children=None
        if resolved.spool
        else children_folder(
            resolved.store, [sink.name for sink in sinks], max_bytes=resolved.spool_max_bytes
        ),
        worker=worker,
        recent=partial(_recent, resolved) if is_stored else None,
        queue_records=resolved.queue_records,
        queue_bytes=resolved.queue_bytes,
        background_share=resolved.background_share,
        prices=resolved.prices,
    )


def _captures(resolved: Settings) -> bool | str:
    """Return what may leave. Raises `ConfigurationError` for a word that nobody knows."""
    if resolved.capture_content not in (True, False, SCORES):
        raise ConfigurationError(
            f"capture_content={resolved.capture_content!r}: use True, False or {SCORES!r}"
        )
    return resolved.capture_content


def _redactor(
    resolved: Settings, custom: Callable[[str], str] | None, problems: list[str], *, strict: bool
) -> Redactor:
    """Make what redacts; a mistake in the environment must not let more through than was meant."""

    def quietly(text: str) -> str:
        off()  # a redactor whose helpers are decorated must not make spans to redact
        assert custom is not None
        return custom(text)

    own = None if custom is None else quietly
    try:
        return Redactor(resolved.redact, own)
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{error}; using all detectors")
        return Redactor(("all",), own)


def _spool(resolved: Settings) -> Folder | None:
    if not resolved.spool:
        return None
    return Folder(
        resolved.spool, file_bytes=resolved.spool_bytes, max_bytes=resolved.spool_max_bytes
    )


def _worker(resolved: Settings, problems: list[str], *, strict: bool) -> str:
    """Return how this process works; without a spool nobody else could do it."""
    if resolved.worker == "thread" or resolved.spool:
        return resolved.worker
    problem = f"worker={resolved.worker!r} needs a spool: set LLMEVAL_SPOOL to a folder"
    if strict:
        raise ConfigurationError(problem)
    problems.append(f"{problem}; using a thread")
    return "thread"


def _resolve(evaluator: Any, resolved: Settings) -> Heuristic | Judge:
    """Find an evaluator by name, or adapt an object; the settings go to those that read them."""
    found: Any = evaluator
    if isinstance(evaluator, str):
        found = registry.evaluator(evaluator)
    elif getattr(evaluator, "kind", None) not in ("heuristic", "judge"):
        from llmeval_sdk.judges.adapt import as_evaluator

        found = as_evaluator(evaluator)
    if found.kind == "judge":
        judge: Judge = complete_judge(found).configured(resolved)
        return judge
    heuristic: Heuristic = found.configured(resolved) if hasattr(found, "configured") else found
    return heuristic


def _check_decorators(resolved: Settings) -> None:
    """Tell about names that decorators ask for and nobody knows, while a person is watching."""
    for span_name, evaluators in state.asked:
        for evaluator in evaluators:
            try:
                _resolve(evaluator, resolved)
            except ConfigurationError as error:
                raise ConfigurationError(f"evaluators= of {span_name!r}: {error}") from None


def _escalations(
    given: Sequence[Escalation] | None, resolved: Settings, *, spending: bool
) -> list[Escalation]:
    """Return the escalations in force: those given, else the plain rule; and those by share."""
    found = [default_escalation(resolved.recall_threshold)] if given is None else list(given)
    if resolved.judge_share and spending:
        named = {escalation.name for escalation in found}
        found += [
            Escalation(
                judge,
                share=resolved.judge_share,
                control_rate=_control_rate(resolved),
                of=kind,
            )
            for judge, kind in SHARED.items()
            if judge not in named
        ]
    return found


def _control_rate(resolved: Settings) -> float | None:
    """Return the control rate that was asked for, at most the share that it is taken from."""
    rate, share = resolved.judge_control_rate, resolved.judge_share
    return rate if rate is None or share is None else min(rate, share)


def _read_by(escalations: Sequence[Escalation]) -> list[Heuristic]:
    """Return the heuristics that escalations read and that would not run by themselves."""
    names = frozenset[str]().union(*(each.names() for each in escalations))
    found = map(registry.evaluator, sorted(names))
    return [each for each in found if each.kind == "heuristic" and not each.automatic]


def _recent(resolved: Settings, name: str) -> list[tuple[str | None, float]]:
    """Read an evaluator's latest scores from the store, if there is one; see `Plan.recent`."""
    from llmeval_sdk.store.reader import recent_scores

    return recent_scores(resolved.store, name)


def _judges(
    asked: list[Any], escalations: Sequence[Escalation], resolved: Settings
) -> tuple[Judge, ...]:
    """Collect the judges that are considered for every evaluated span, each once."""
    found = {each.name: each for each in asked if each.kind == "judge"}
    for escalation in escalations:
        judge = _resolve(escalation.judge, resolved)
        if judge.kind != "judge":
            raise ConfigurationError(f"Escalation({judge.name!r}): only judges are escalated to")
        for name in escalation.names():
            registry.evaluator(name)
        found.setdefault(judge.name, judge)
    return tuple(found.values())


def _rules(
    given: Sequence[SamplingRule] | str | None, resolved: Settings, problems: list[str]
) -> SamplingRules:
    if given is not None and not isinstance(given, str):
        return SamplingRules.of(given)
    rules = parse_rules(given if given is not None else resolved.sampling_rules)
    problems.extend(rules.problems)
    return rules


def _heuristics(asked: list[Any], resolved: Settings) -> tuple[list[Heuristic], list[Heuristic]]:
    """Split the automatic heuristics into those for the app's thread and those for the worker."""
    if resolved.heuristics == "off":
        return [], [each for each in asked if each.kind == "heuristic"]
    found: dict[str, Heuristic] = {}
    for name in registry.HEURISTICS:
        builtin = _resolve(name, resolved)
        if builtin.kind == "heuristic" and builtin.automatic:
            found[name] = builtin
    for each in (*registry.own_evaluators(), *asked):
        if each.kind == "heuristic" and (each in asked or each.automatic):
            found[each.name] = each
    inline = [h for h in found.values() if h.inline and resolved.heuristics == "inline"]
    return inline, [h for h in found.values() if h not in inline]


def _finder(
    planned: tuple[Any, ...], resolved: Settings
) -> Callable[[Any], Heuristic | Judge | None]:
    """Make what finds an evaluator: the planned one of a name, which may have learnt, first."""
    own = {evaluator.name: evaluator for evaluator in planned}
    known: dict[Any, Heuristic | Judge | None] = {}

    def find(evaluator: Any) -> Heuristic | Judge | None:
        key = evaluator if isinstance(evaluator, str) else id(evaluator)
        if key not in known:
            try:
                known[key] = own.get(key) or _resolve(evaluator, resolved)
            except ConfigurationError:
                known[key] = None
        return known[key]

    return find


def _exporters(
    resolved: Settings, given: Sequence[Exporter], problems: list[str], *, strict: bool
) -> tuple[BaseExporter, ...]:
    """Build the exporters: those named, those given, else what the settings are made for."""
    found = [complete_exporter(exporter) for exporter in given]
    for name in resolved.exporters or (() if found else _configured(resolved)):
        try:
            found.append(complete_exporter(registry.exporter_factory(name)(resolved)))
        except ConfigurationError as error:
            if strict:
                raise
            problems.append(f"{config.source_of('exporters')}: {error}; left out")
    return tuple(found) or (complete_exporter(registry.exporter_factory("local")(resolved)),)


def _configured(resolved: Settings) -> tuple[str, ...]:
    """Choose exporters where none was named: those that were given an address, else local."""
    found = []
    given = (resolved.otlp_endpoint, resolved.otlp_traces_endpoint, resolved.otlp_logs_endpoint)
    if (any(given) and not resolved.otel_disabled) or resolved.otel == "global":
        found.append("otlp")
    if _wants_datadog(resolved):
        found.append("datadog")
    return tuple(found) or ("local",)


def _wants_datadog(resolved: Settings) -> bool:
    """Say whether the environment is one of Datadog LLM Observability."""
    if resolved.datadog_enabled is not None:
        return resolved.datadog_enabled
    host = resolved.datadog_agent_host or resolved.datadog_agent_url
    return bool(resolved.datadog_api_key or host) and bool(config.variables("DD_LLMOBS_"))


def _llm(given: Any, resolved: Settings) -> LLM:
    from llmeval_sdk.llms import DEFAULT_MODEL, resolve

    try:
        return resolve(given if given is not None else resolved.judge_model, settings=resolved)
    except MissingExtraError as error:  # judges that run in another environment may do without
        from llmeval_sdk.llms.elsewhere import ElsewhereLLM

        return ElsewhereLLM(resolved.judge_model or DEFAULT_MODEL, resolved, str(error))


def _ledger(resolved: Settings) -> Any:
    from llmeval_sdk.store.ledger import HostLedger

    return HostLedger(Path(resolved.store).with_suffix(".budget"))
