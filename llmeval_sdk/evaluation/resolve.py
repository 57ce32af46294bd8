"""Which evaluators run: from names, addresses, objects and settings to evaluators.

One answer for online and offline. A name or object that ``configure()`` takes means the same
evaluator, under the same settings, for ``evaluate()`` and in the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, did_you_mean, is_like
from llmeval_sdk.evaluation.escalation import Escalation, default_escalation
from llmeval_sdk.evaluation.json_rules import EscalationRules, parse_escalations
from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules
from llmeval_sdk.evaluation.scoring import Unloaded, loaded
from llmeval_sdk.evaluation.standing import as_configured
from llmeval_sdk.model.protocols import Evaluator, Heuristic, Judge, check_judge
from llmeval_sdk.process.shield import is_ours


MAX_KNOWN = 1_000
"""Evaluators that spans name and that are remembered."""


def resolve(evaluator: Any, settings: Settings) -> Evaluator:
    """Return the evaluator that a name, an address or an object stands for.

    Args:
        evaluator: the name of a built-in evaluator, of one the app registered or of an entry point;
            an address such as ``"my_app:polite"``; or an object, which is adapted where it was
            written for another library or is a plain function.
        settings: given to the evaluators that depend on them.

    Raises:
        ConfigurationError: nothing has that name, it cannot be loaded, or it is no evaluator.
    """
    thing = _named(evaluator) if isinstance(evaluator, str) else evaluator
    if getattr(thing, "kind", None) not in ("heuristic", "judge"):
        from llmeval_sdk.judges.adapt import as_evaluator

        thing = as_evaluator(thing)
    if thing.kind == "judge":
        judge: Judge = check_judge(thing).configured(settings)
        return judge
    return as_configured(thing, settings)


def resolve_all(evaluators: Iterable[object], settings: Settings) -> list[Evaluator]:
    """Resolve each; of several with one name the last counts. Raises as `resolve` does."""
    resolved = (resolve(evaluator, settings) for evaluator in evaluators)
    return list({evaluator.name: evaluator for evaluator in resolved}.values())


def requested_evaluators(
    configured: Iterable[Any], settings: Settings, complain: Callable[[str], None]
) -> list[Evaluator]:
    """Resolve what ``configure()`` was given and what the settings name beside it.

    A mistake in what ``configure()`` was given is raised. One in the settings, which may come from
    the environment, is handed to ``complain``, and that evaluator is left out.
    """
    evaluators = {evaluator.name: evaluator for evaluator in resolve_all(configured, settings)}
    for name in settings.evaluators:
        try:
            evaluator = resolve(name, settings)
        except ConfigurationError as error:
            complain(str(error))
        else:
            evaluators.setdefault(evaluator.name, evaluator)
    return list(evaluators.values())


def escalations_in_force(
    configured: Sequence[Escalation] | None, settings: Settings, *, spending: bool
) -> list[Escalation]:
    """Return the escalations of ``configure()``, else the plain rule; and those by share.

    ``spending`` says whether a judge model or a judge was named: ``Settings.judge_share`` alone
    starts none.
    """
    if configured is None:
        plain = default_escalation(settings.recall_threshold)
        configured = [plain] if registry.installed([plain.name]) else []
    escalations = list(configured)
    if settings.judge_share and spending:
        named = {escalation.name for escalation in escalations}
        escalations += [
            Escalation(judge, share=settings.judge_share, of=records)
            for judge, records in _sharing_judges()
            if judge not in named
        ]
    return escalations


def escalations_as_written(settings: Settings) -> EscalationRules:
    """Read the escalations that the settings hold as JSON.

    One that names an unknown evaluator becomes a problem, and its judge does not run. Where nobody
    has the judge's name, those whose names are like it do not run either, until somebody has it.
    """
    written = parse_escalations(settings.escalations)
    if written.escalations is None:
        return written
    escalations, awaiting, nobodys, problems = [], [], set(), list(written.problems)
    closing = list(written.closing)
    for escalation in written.escalations:
        name, stays_off = escalation.name, "it does not run"
        try:
            considered_judges((), [escalation], settings)
        except ConfigurationError as error:
            if not _is_nobodys(name):
                closing.append(SamplingRule(0.0, evaluator=name))
            else:
                nobodys.add(name)
                if not any(map(_is_nobodys, _names_read([escalation]))):
                    awaiting.append(escalation)
                if near := _names_like(name, ()):
                    stays_off += f", and until a judge has its name, neither does {near}"
            problems.append(f"escalation of {name!r}: {error}; {stays_off}")
        else:
            escalations.append(escalation)
    return EscalationRules(
        tuple(escalations),
        awaiting=tuple(awaiting),
        nobodys=frozenset(nobodys),
        closing=tuple(closing),
        problems=tuple(problems),
    )


def _is_nobodys(name: str) -> bool:
    """Say whether no evaluator has a name; one that cannot be loaded has it."""
    try:
        registry.evaluator(name)
    except ConfigurationError:
        return True
    except Exception:  # another package's entry point
        return False
    return False


def _names_like(name: str, planned: Iterable[str]) -> str:
    """List the judges that may have been meant by a name; empty if no name is like it."""
    own = [each.name for each in registry.own_evaluators() if each.kind == "judge"]
    known = dict.fromkeys((*registry.judges(), *registry.table("library_judges"), *own, *planned))
    return ", ".join(repr(judge) for judge in known if is_like(name, judge))


def _sharing_judges() -> list[tuple[str, str]]:
    """Return the judges that ``Settings.judge_share`` is for, each with the records that it gets.

    They divide the traffic by what a record has: ``extractions`` or ``answers``.
    """
    judges = (registry.evaluator(name) for name in registry.installed(registry.judges()))
    shares = ((judge.name, getattr(judge, "share_of", None)) for judge in judges)
    return [(name, records) for name, records in shares if records is not None]


def considered_judges(
    requested: Iterable[Evaluator], escalations: Sequence[Escalation], settings: Settings
) -> tuple[Judge, ...]:
    """Return the judges that are considered for every evaluated span, each once.

    Raises:
        ConfigurationError: an escalation names something else than a judge, or reads a score that
            no evaluator gives.
    """
    planned = {evaluator.name: evaluator for evaluator in requested}
    judges = {judge.name: judge for judge in planned.values() if judge.kind == "judge"}
    for escalation in escalations:
        judge = planned.get(escalation.name) or resolve(escalation.judge, settings)
        if judge.kind != "judge":
            raise ConfigurationError(f"Escalation({judge.name!r}): only judges are escalated to")
        judges.setdefault(judge.name, judge)
    for name in _names_read(escalations) - planned.keys() - judges.keys():
        registry.evaluator(name)
    return tuple(judges.values())


def read_by(
    planned: Iterable[Evaluator], escalations: Iterable[Escalation], settings: Settings
) -> list[Heuristic]:
    """Return the heuristics that escalations read and that would not run by themselves.

    ``planned`` are the evaluators that run anyway, as `considered_judges` returns the judges.
    """
    names = _names_read(escalations) - {evaluator.name for evaluator in planned}
    return [
        evaluator
        for name in sorted(names)
        if (evaluator := resolve(name, settings)).kind == "heuristic" and not evaluator.automatic
    ]


def _names_read(escalations: Iterable[Escalation]) -> set[str]:
    """Return the scores that escalations read; of those that nobody named, what was not deleted."""
    names = set[str]()
    for escalation in escalations:
        those = registry.installed if escalation.share and escalation.by is None else list[str]
        names.update(those(escalation.names()))
    return names


def finder(
    planned: Iterable[Evaluator | Unloaded], settings: Settings
) -> Callable[[object], Evaluator | None]:
    """Make what finds an evaluator for a span; it returns ``None`` for what cannot be used.

    A planned evaluator of that name comes first: it was made with the options of this app.
    """
    by_name: dict[object, Evaluator | Unloaded] = {one.name: one for one in planned}
    known: dict[object, tuple[object, Evaluator | None]] = {}

    def find(evaluator: object) -> Evaluator | None:
        key = evaluator if isinstance(evaluator, str) else id(evaluator)
        entry = known.get(key)
        if entry is None:
            try:
                planned_one = by_name.get(key) or resolve(evaluator, settings)
                resolved = loaded(planned_one)
            except ConfigurationError:
                resolved = None
            if len(known) >= MAX_KNOWN:  # an app that makes an evaluator for every request
                known.clear()
            entry = known[key] = evaluator, resolved  # kept, so that no other gets this id
        return entry[1]

    return find


class IdleRule(NamedTuple):
    """A sampling rule that limits nothing."""

    unknown: str | None
    """The name in it that nothing has: a mistake. Otherwise another app may be meant."""
    words: str
    """Which rule it is, that it limits nothing, and why."""


def idle_rules(
    rules: SamplingRules, planned: Iterable[Evaluator], settings: Settings
) -> Iterator[IdleRule]:
    """Find the sampling rules that limit nothing, because no judge that runs has their name.

    Args:
        rules: those in force, in their order.
        planned: the evaluators that run.
        settings: those in force.
    """
    judges = {evaluator.name for evaluator in planned if evaluator.kind == "judge"}
    for place, rule in enumerate(rules.rules, 1):
        if rule.evaluator is None or rule.evaluator in judges:
            continue
        begin = f"sampling rule {place}: the rule limits no"
        try:
            found = resolve(rule.evaluator, settings)
        except ConfigurationError as error:
            words = f"{begin} evaluator: {error}"
            if near := _names_like(rule.evaluator, judges):
                words += f"; until a judge has that name, {near} does not run"
            yield IdleRule(unknown=rule.evaluator, words=words)
            continue
        name = f"{rule.evaluator!r}"[:80]
        if found.kind == "judge":
            why = f"{name} is not among those that run (one that a span names is limited)"
            yield IdleRule(unknown=None, words=f"{begin} judge: {why}")
        else:
            why = f"{name} is a heuristic, and rules are for judges"
            yield IdleRule(unknown=None, words=f"{begin} judge: {why}")


def _named(name: str) -> Any:
    """Find what a name or an address stands for."""
    family, colon, _ = name.partition(":")
    if colon and family not in registry.table("families"):
        if registry.known(family):
            hint = did_you_mean(family, registry.table("families"))
            raise ConfigurationError(
                f"{name!r}: {family} takes nothing after its name{hint and f'; {hint}'}"
            )
        return load(name)
    try:
        return registry.evaluator(name)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:  # another package's entry point
        if not is_ours(error):
            raise
        kind = type(error).__name__
        raise ConfigurationError(f"{name!r} cannot be loaded: {kind}: {error}") from error


def load(address: str) -> object:
    """Import what ``module:attribute`` names.

    Raises:
        ConfigurationError: there is no such module or attribute, or the module raised.
    """
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise ConfigurationError(
            f"{address!r} is no address: expected MODULE:NAME, as my_app:answer"
        )
    try:
        return attrgetter(attribute)(import_module(module))
    except (Exception, SystemExit) as error:
        if not is_ours(error):
            raise
        plain = isinstance(error, (ImportError, AttributeError))
        kind = "" if plain else f"{type(error).__name__}: "
        raise ConfigurationError(f"{address!r} cannot be loaded: {kind}{error}") from error
