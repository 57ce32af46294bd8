"""The checks of `llmeval doctor`. Each of them answers; none raises an error or shows a key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires
from typing import Any
from urllib.parse import urlsplit

from llmeval_sdk import config, registry
from llmeval_sdk._distribution import DISTRIBUTION, NAMESAKE, installed, namesake_warning
from llmeval_sdk._terminal import plural
from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.config.decisions import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.contents import held
from llmeval_sdk.store.files import path_of, refusal
from llmeval_sdk.store.reader import StoreReader


PACKAGES = (
    DISTRIBUTION, "rapidfuzz", "tenacity", "openai", "anthropic", "google-genai", "ddtrace",
    "opentelemetry-sdk", "ragas", "arize-phoenix", "mlflow", "langfuse", "grpcio", "langchain",
    "gunicorn", "uvicorn", "celery", "gevent", "eventlet",
)  # fmt: skip


_OTHERS = "spans of other libraries are theirs to send"
DESTINATIONS = {
    "local": "active; takes our spans, all scores, and the spans of other libraries that have any",
    "otlp": f"active; takes our spans, and every score as a log event; {_OTHERS}",
    "datadog": f"active; takes our spans and all scores; {_OTHERS}",
    "phoenix": f"active; takes our spans and all scores; {_OTHERS}",
    "mlflow": f"active; takes our spans and all scores; {_OTHERS}",
    "langfuse": f"active; takes our spans and all scores; {_OTHERS}",
}
"""Where spans and scores go in each set-up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. ``ok`` is ``None`` if it is neither good nor bad."""

    ok: bool | None
    subject: str
    words: str


def shown(value: Any) -> str:
    """Return a setting's value as people may see it, without secrets and credentials."""
    if value is None or value == ():
        return "-"
    if isinstance(value, Secret):
        return "set"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={shown(item)}" for key, item in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    return address(value) if isinstance(value, str) and "://" in value else str(value)


def address(url: str) -> str:
    """Return an address without user, password and query, which may hold a key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"  # noqa: TRY300
    except ValueError:
        return "(not an address)"


SHORTEST_SECRET = 6
"""How long a secret must be to be looked for in other texts. Shorter ones, such as the ``x`` or
``none`` that a local server takes for a key, are part of ordinary words, which would be blotted
out. The setting's own value is never shown in any case."""


def secrets(settings: Settings) -> set[str]:
    """Return every secret of the settings, so that no message prints one by accident."""
    found = set()
    for row in config.ROWS:
        value = config.value_of(settings, row.name)
        for each in value.values() if isinstance(value, Mapping) else (value,):
            text = each.reveal().strip() if isinstance(each, Secret) else ""
            if getattr(each, "place", None) is not None:  # of an address, only its password is one
                text = urlsplit(text).password or ""
            if len(text) >= SHORTEST_SECRET:
                found.add(text)
    return found


MADE = frozenset(("otlp", "phoenix", "mlflow", "langfuse"))
"""Exporters that the check constructs, to see whether that works. It has no other effect."""


def exporters(settings: Settings) -> Iterator[Finding]:
    """Check that each exporter that would be used can be loaded, with its packages and its keys."""
    from llmeval_sdk.pipeline import default_exporters

    for name in settings.exporters or default_exporters(settings):
        try:
            make = registry.exporter_factory(name)
            if name in MADE:
                make(settings)
        except ConfigurationError as error:
            yield Finding(False, name, str(error))
        except Exception as error:
            yield Finding(False, name, f"cannot be loaded: {type(error).__name__}: {error}")
        else:
            yield Finding(True, name, DESTINATIONS.get(name, "active"))


def evaluators(settings: Settings) -> Iterator[Finding]:
    """Check that each evaluator that attaches by itself, or was asked for, can be loaded."""
    asked = [name for name in settings.evaluators if name not in registry.HEURISTICS]
    for name in (*registry.HEURISTICS, *asked):
        try:
            found = registry.evaluator(name)
        except ConfigurationError as error:
            yield Finding(False, name, str(error))
        except Exception as error:
            yield Finding(False, name, f"cannot be loaded: {type(error).__name__}: {error}")
        else:
            wanted = name in settings.evaluators
            yield Finding(True, name, _attaches(found, settings, wanted=wanted))


_GROUPS = {"agents": "heuristics.agent.", "sessions": "heuristics.session."}


def grouped(findings: Sequence[Finding], settings: Settings) -> list[Finding]:
    """Put the scores of agents, and of sessions, on one line where the store has none of these."""
    there: set[str] = set()
    with suppress(ConfigurationError), StoreReader(path_of(settings.store)) as reader:
        there = reader.read(lambda store: held(store, _GROUPS))
    left, names = [], {kind: list[str]() for kind in _GROUPS}
    for each in findings:
        module = registry.HEURISTICS.get(each.subject, "")
        kind = next((kind for kind, part in _GROUPS.items() if part in module), None)
        if kind is None or kind in there or not each.ok or each.subject in settings.evaluators:
            left.append(each)
        else:
            names[kind].append(each.subject)
    for kind, held_back in names.items():
        if held_back:
            words = (
                f"{plural(len(held_back), 'heuristic')} for {kind}, of which the store has none: "
            )
            left.append(Finding(None, kind, words + ", ".join(held_back)))
    return left


def _attaches(evaluator: Any, settings: Settings, *, wanted: bool) -> str:
    if evaluator.kind == "judge":
        return "judge, asked for"
    from llmeval_sdk.evaluation.resolve import place_of

    place = place_of(evaluator, settings, requested=wanted)
    if place is not None:
        return f"heuristic, {'in the call' if place == 'caller' else 'in the background'}"
    if getattr(evaluator, "per", "answer") == "session":
        return "heuristic, of sessions that have been idle"
    if evaluator.automatic:
        return "heuristic, off (LLMEVAL_HEURISTICS)"
    return "heuristic, when asked for"


def sampling(settings: Settings) -> Iterator[Finding]:
    """Say which sampling rules cannot be understood, and which limit nothing.

    A rule that names a judge of another app is a note: several apps may share an environment.
    """
    from llmeval_sdk.evaluation import resolve
    from llmeval_sdk.policy.sampling import parse_rules

    source = config.source_of("sampling_rules")
    rules = parse_rules(settings.sampling_rules)
    for problem in rules.problems:
        yield Finding(False, source, problem)
    own = settings.of(DecisionSettings)
    named = (*settings.evaluators, *own.cascade)
    asked = replace(settings, evaluators=tuple(dict.fromkeys(named)))
    requested = resolve.requested_evaluators((), asked, _told_elsewhere)
    spending = bool(settings.judge_model) or any(each.kind == "judge" for each in requested)
    escalations = resolve.escalations_in_force(None, settings, spending=spending)
    planned = [*requested, *resolve.considered_judges(requested, escalations, settings)]
    for rule in resolve.idle_rules(rules, planned, settings):
        yield Finding(False if rule.unknown else None, source, rule.words)


def _told_elsewhere(_problem: str) -> None:
    """Say nothing: the checks of evaluators tell it."""


def rules(settings: Settings) -> Iterator[Finding]:
    """Say what the rules that ask judges would find among the extractions that were checked."""
    from llmeval_sdk.cli._rules import sentence
    from llmeval_sdk.store.rules import compare

    path = path_of(settings.store)
    if not path.exists():
        return
    try:
        with StoreReader(path) as reader:
            found = reader.read(lambda store: compare(store, settings.recall_threshold))
    except ConfigurationError:  # which the check of the store tells
        return
    if found.checked:
        yield Finding(None, "escalation", sentence(found))


def learning(settings: Settings) -> Iterator[Finding]:
    """Say whether learned weights are in use, where that part is there."""
    if (findings := registry.part("llmeval_sdk.learning.findings:findings")) is not None:
        for finding in findings(settings):
            yield Finding(*finding)


def instrumented(settings: Settings) -> Iterator[Finding]:
    """Say which clients of models are instrumented, if the part that does it is installed."""
    if (findings := registry.part("llmeval_sdk.instrumentation.findings:findings")) is not None:
        for finding in findings(settings):
            yield Finding(*finding)


def sessions(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Say how sessions are, where that part is there."""
    try:
        findings = registry.load("llmeval_sdk.sessions.findings:findings")
    except ConfigurationError:
        return
    for finding in findings(settings, offline=offline):
        yield Finding(*finding)


def fleet(settings: Settings) -> Iterator[Finding]:
    """Say how the judge fleet is, where that part is there."""
    try:
        findings = registry.load("llmeval_sdk.fleet.findings:findings")
    except ConfigurationError as error:
        yield Finding(False, "fleet", str(error))
        return
    names = [name for name in settings.evaluators if name not in registry.HEURISTICS]
    for finding in findings(settings, names):
        yield Finding(*finding)


def shared(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Say what this host shares with others and what is left of it, where that part is there."""
    if (findings := registry.part("llmeval_sdk.policy.shared.findings:findings")) is not None:
        for finding in findings(settings, offline=offline):
            yield Finding(*finding)


def store(settings: Settings) -> Finding:
    """Check that the store can be written, without making anything."""
    path = path_of(settings.store)
    if refused := refusal(path):
        return Finding(False, str(path), f"{refused}. Until then scores are kept in memory only")
    if path.exists():
        try:
            with StoreReader(path) as reader:
                counts = reader.counts()
        except ConfigurationError as error:
            return Finding(False, str(path), str(error))
        held = f"{plural(counts.spans, 'span')}, {plural(counts.evaluations, 'evaluation')}"
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            return Finding(False, str(path), f"{held}, but it cannot be written: memory only")
        return Finding(True, str(path), f"{held}, can be written")
    folder = next(each for each in path.parents if each.exists())
    if folder.is_dir() and os.access(folder, os.W_OK):
        return Finding(True, str(path), "not there yet; made by the first decorated call")
    return Finding(False, str(path), f"{folder} cannot be written: memory only")


def extras() -> Iterator[Finding]:
    """Say which extras are not complete, and the line that installs them."""
    try:
        needs = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        yield Finding(None, DISTRIBUTION, "runs from a folder, not installed: extras are unknown")
        return
    if warning := namesake_warning():
        yield Finding(False, NAMESAKE, warning)
    missing: dict[str, list[str]] = {}
    for need in needs:
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", need)
        package = re.match(r"[\w.-]+", need)
        if package is None or package[0] == DISTRIBUTION:
            continue
        absent = missing.setdefault(extra[1] if extra else "", [])
        if installed(package[0]) is None:
            absent.append(package[0])
    for name, absent in missing.items():
        if not name:
            if absent:
                words = f"needed and not installed; pip install {DISTRIBUTION}"
                yield Finding(False, ", ".join(absent), words)
        elif absent:
            words = f"lacks {', '.join(absent)}; pip install '{DISTRIBUTION}[{name}]'"
            yield Finding(None, name, words)
        else:
            yield Finding(True, name, "complete")


def ceilings(settings: Settings, model: str) -> Iterator[Finding]:
    """Say which limits hold the judges' spending, by what is known of the model's price."""
    from llmeval_sdk._prices import price_of
    from llmeval_sdk.policy.budget import UNPRICED_TOKENS_PER_MINUTE

    yield Finding(True, "calls", f"at most {settings.calls_per_minute:g} a minute on this host")
    price = price_of(model, own=settings.prices)
    tokens = settings.tokens_per_minute
    if price is not None:
        words = f"at most {settings.usd_per_day:g} a day, at {price.input:g} in and "
        yield Finding(True, "dollars", f"{words}{price.output:g} out per million tokens")
    else:
        words = f"NO limit: the price of {model} is unknown; set LLMEVAL_PRICES='{model}=IN,OUT'"
        yield Finding(None, "dollars", words)
        tokens = UNPRICED_TOKENS_PER_MINUTE if tokens is None else tokens
    if tokens is not None:
        yield Finding(True, "tokens", f"at most {tokens:,.0f} a minute on this host")


def ragas(settings: Settings) -> Iterator[Finding]:
    """Say where Ragas runs and whether it can, if one of its evaluators was asked for."""
    if not any(name.startswith("ragas") for name in settings.evaluators):
        return
    from llmeval_sdk.judges.ragas import where

    yield Finding(*where(settings))


def greenlets() -> Iterator[Finding]:
    """Say what cooperative threads mean for the background work."""
    for package in ("gevent", "eventlet"):
        if installed(package):
            yield Finding(
                None,
                package,
                "installed: if the app patches threads with it, do so before llmeval_sdk is "
                "imported; scoring and judging then share the app's one thread",
            )
