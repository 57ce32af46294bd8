"""``llmeval doctor``: what is configured and from where, what works, and what does not."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, requires
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, getproxies, proxy_bypass

from llmeval_sdk import config, registry
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json
from llmeval_sdk.cli.output import columns, heading, say, say_json, say_wrapped, table
from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.process.distribution import DISTRIBUTION, NAMESAKE, installed, namesake_warning
from llmeval_sdk.process.shadowed import shadowed
from llmeval_sdk.process.shield import is_ours
from llmeval_sdk.statistics.reasons import explain_loss
from llmeval_sdk.store.files import path_of, refusal
from llmeval_sdk.store.findings import findings_of
from llmeval_sdk.store.lasting import lasting
from llmeval_sdk.store.reader import StoreReader, contents_of
from llmeval_sdk.store.state import state_path
from llmeval_sdk.text.terminal import plural


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.budget import Budget


# The checks of `llmeval doctor`. Each of them answers; none raises an error or shows a key.

PACKAGES = (
    DISTRIBUTION, "rapidfuzz", "tenacity", "openai", "anthropic", "google-genai", "ddtrace",
    "opentelemetry-sdk", "ragas", "arize-phoenix", "mlflow", "langfuse", "grpcio", "langchain",
    "gunicorn", "uvicorn", "celery", "gevent", "eventlet",
)  # fmt: skip


ON_REQUEST = frozenset(("Judge fleet",))
"""Sections of plugins that take a while, so that an option has to ask for them."""
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
    for row in config.rows():
        value = config.value_of(settings, row.name)
        for each in value.values() if isinstance(value, Mapping) else (value,):
            text = each.reveal().strip() if isinstance(each, Secret) else ""
            if getattr(each, "place", None) is not None:  # of an address, only its password is one
                text = urlsplit(text).password or ""
            if len(text) >= SHORTEST_SECRET:
                found.add(text)
    return found


MADE = frozenset(("otlp", "phoenix", "mlflow", "langfuse"))
"""The exporters that the check constructs, because constructing them has no effect outside."""


def exporters(settings: Settings) -> Iterator[Finding]:
    """Check that each exporter that would be used can be loaded, with its packages and its keys."""
    from llmeval_sdk.pipeline.intake import default_exporters

    names = settings.exporters or default_exporters(settings)
    if settings.closed.keys() >= set(names):
        names = (*names, "local")
    for name in names:
        if name in settings.closed:
            yield Finding(False, name, f"nothing is sent to it: {settings.closed[name]}")
            continue
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
    asked = [name for name in settings.evaluators if name not in registry.heuristics()]
    for name in (*registry.heuristics(), *asked):
        try:
            found = registry.evaluator(name)
        except ConfigurationError as error:
            yield Finding(False, name, str(error))
        except Exception as error:
            yield Finding(False, name, f"cannot be loaded: {type(error).__name__}: {error}")
        else:
            wanted = name in settings.evaluators
            yield Finding(True, name, _attaches(found, settings, wanted=wanted))


_GROUPS = ("agents", "sessions")
"""What a store may have none of; the plugins of these names have scores for them."""


def grouped(findings: Sequence[Finding], settings: Settings) -> list[Finding]:
    """Put the scores of agents, and of sessions, on one line where the store has none of these."""
    there: set[str] = set()
    with suppress(ConfigurationError), StoreReader(path_of(settings.store)) as reader:
        there = reader.read(lambda store: contents_of(store, _GROUPS))
    left, names = [], {kind: list[str]() for kind in _GROUPS}
    heuristics_by_plugin = {plugin.name: plugin.heuristics for plugin in registry.plugins()}
    for each in findings:
        kind = next(
            (kind for kind in _GROUPS if each.subject in heuristics_by_plugin.get(kind, ())), None
        )
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
    from llmeval_sdk.evaluation.standing import place_of

    place = place_of(evaluator, settings, requested=wanted)
    if place is not None:
        return f"heuristic, {'in the call' if place == 'caller' else 'in the background'}"
    if getattr(evaluator, "per", "answer") == "session":
        return "heuristic, of sessions that have been idle"
    if evaluator.automatic:
        return "heuristic, off (LLMEVAL_HEURISTICS)"
    return "heuristic, when asked for"


def json_rules(settings: Settings) -> Iterator[Finding]:
    """Say which rules of the environment cannot be understood, and which limit nothing.

    A rule that names a judge of another app is a note: several apps may share an environment.
    """
    from llmeval_sdk.evaluation import resolve
    from llmeval_sdk.evaluation.json_rules import parse_budgets, parse_rules

    source = config.source_of("sampling_rules")
    rules = parse_rules(settings.sampling_rules)
    written = resolve.escalations_as_written(settings)
    budgets = parse_budgets(settings.budget_groups)
    for problem in rules.problems:
        yield Finding(False, source, problem)
    for problem in written.problems:
        yield Finding(False, config.source_of("escalations"), problem)
    for problem in budgets.problems:
        words = f"{problem}; until it can be read, no judge pays"
        yield Finding(False, config.source_of("budget_groups"), words)
    requested = resolve.requested_evaluators((), settings, _told_elsewhere)
    judging = written.escalations or any(each.kind == "judge" for each in requested)
    escalations = resolve.escalations_in_force(
        written.escalations, settings, spending=bool(settings.judge_model or judging)
    )
    planned = [*requested, *resolve.considered_judges(requested, escalations, settings)]
    for rule in resolve.idle_rules(rules, planned, settings):
        yield Finding(False if rule.unknown else None, source, rule.words)


def _told_elsewhere(_problem: str) -> None:
    """Say nothing: the checks of evaluators tell it."""


def rules(settings: Settings) -> Iterator[Finding]:
    """Say what the rules that ask judges would find among the extractions that were checked."""
    from llmeval_sdk.store.labels import compare_rules, describe_rules

    path = path_of(settings.store)
    if not path.exists():
        return
    try:
        with StoreReader(path) as reader:
            found = reader.read(lambda store: compare_rules(store, settings.recall_threshold))
    except ConfigurationError:  # which the check of the store tells
        return
    if found.checked:
        yield Finding(None, "escalation", describe_rules(found))


def _of_plugins(
    settings: Settings, *, offline: bool, wanted: Collection[str]
) -> dict[str, list[Finding]]:
    """Return what plugins find, by the titles of their sections.

    Args:
        settings: the settings that are in force.
        offline: contact no server.
        wanted: sections that somebody asked for; those of `ON_REQUEST` are left out otherwise.
    """
    hidden = [
        Finding(False, name, f"{file} stands in the place of Python's own module: rename it")
        for name, file in shadowed()
    ]
    left_out = [Finding(False, "plugins", line) for line in registry.plugin_problems]
    sections = {"Python": hidden, "Plugins": left_out}
    for plugin in registry.plugins():
        for title, address in plugin.findings.items():
            if title in ON_REQUEST and title not in wanted:
                continue
            try:
                found = plugin.resolve(address)(settings, offline=offline)
                sections.setdefault(title, []).extend(Finding(*finding) for finding in found)
            except ConfigurationError as error:
                sections["Plugins"].append(Finding(False, plugin.name, str(error)))
            except (Exception, SystemExit) as error:
                if not is_ours(error):
                    raise
                sections["Plugins"].append(Finding(False, plugin.name, registry.why_of(error)))
    return sections


def store(settings: Settings) -> Finding:
    """Check that the store can be written, without making anything."""
    path = path_of(settings.store)
    if refused := refusal(path):
        return Finding(False, str(path), f"{refused}. Until then scores are kept in memory only")
    if path.exists():
        try:
            with StoreReader(path) as reader:
                counts = reader.counts()
                limit = settings.store_max_bytes
                lasts = reader.read(lambda c: lasting(c, limit, time.time_ns()))
        except ConfigurationError as error:
            return Finding(False, str(path), str(error))
        held = f"{plural(counts.spans, 'span')}, {plural(counts.evaluations, 'evaluation')}"
        problem = None
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            problem = "but it cannot be written: memory only"
        if problem:
            return Finding(False, str(path), f"{held}, {problem}")
        lasts_for = f"; {lasts.sentence}" if lasts else ""
        return Finding(True, str(path), f"{held}, may be written{lasts_for}")
    folder = next(each for each in path.parents if each.exists())
    if folder.is_dir() and os.access(folder, os.W_OK):
        return Finding(True, str(path), "not there yet; made by the first decorated call")
    return Finding(False, str(path), f"{folder} cannot be written: memory only")


def spool(settings: Settings) -> Iterator[Finding]:
    """Say what waits in the spool, whether a process takes it, and what found no room there."""
    from llmeval_sdk.pipeline.spool import Folder, SpoolError

    if not settings.spool:
        return
    folder = Folder(settings.spool)
    subject, start = str(folder.path), f"start `llmeval agent --spool {settings.spool}`"
    if not folder.has_files:
        yield Finding(True, subject, "no record waits")
        return
    try:
        waits = folder.waiting()
    except SpoolError as error:
        yield Finding(False, subject, f"{error}: what is recorded does not outlive its process")
        return
    if waits.unread:
        words = f"{plural(waits.unread, 'record')} there, and no process takes them: {start}"
        yield Finding(False, subject, words)
    else:
        yield Finding(True, subject, f"{plural(waits.records, 'record')} there, to be taken")
    if waits.lost:
        words = f"{plural(waits.lost, 'record')} found no room (spool_full)"
        yield Finding(False, "spool_full", f"{words}. {explain_loss('spool_full').advice}")


def lately(settings: Settings) -> Iterator[Finding]:
    """Say what happened since the app was started last: what was lost, and what never ran."""
    path = path_of(settings.store)
    if not path.exists():
        return
    with suppress(ConfigurationError), StoreReader(path) as reader:  # which `store` tells
        for one in findings_of(reader, settings.store_max_bytes, time.time_ns()):
            yield Finding(False if one.is_problem else None, one.about, str(one))


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
    from llmeval_sdk.evaluation.budget import UNPRICED_TOKENS_PER_MINUTE, Budget
    from llmeval_sdk.evaluation.json_rules import parse_budgets

    yield Finding(True, "calls", f"at most {settings.calls_per_minute:g} a minute on this host")
    groups = parse_budgets(settings.budget_groups).groups
    dollars = _dollars(settings, model, Budget(usd_per_day=settings.usd_per_day, groups=groups))
    yield dollars
    tokens = settings.tokens_per_minute
    if dollars.ok is None and tokens is None:
        tokens = UNPRICED_TOKENS_PER_MINUTE
    if tokens is not None:
        yield Finding(True, "tokens", f"at most {tokens:,.0f} a minute on this host")


def _dollars(settings: Settings, model: str, budget: Budget) -> Finding:
    """Say whether a limit in dollars holds, and how to set the price that it needs."""
    from llmeval_sdk.evaluation.budget import limits_dollars
    from llmeval_sdk.judges.models.prices import price_of

    price = price_of(model, own=settings.prices)
    if price is not None:
        words = f"at most {budget.usd_per_day:g} a day, at {price.input:g} in and "
        return Finding(True, "dollars", f"{words}{price.output:g} out per million tokens")
    how = (
        f"the price of {model} is unknown; set LLMEVAL_PRICES='{model}=in,out' (USD per million "
        f"tokens), or '{model}=0,0' where it costs nothing"
    )
    if limits_dollars(budget):
        words = f"{model} is not asked (no_price), because a limit is set: {how}"
        return Finding(False, "dollars", words)
    if any(map(limits_dollars, budget.groups)):
        words = f"{model} is not asked for groups with a limit (no_price): {how}"
        return Finding(False, "dollars", words)
    return Finding(None, "dollars", f"NO limit: {how}")


def price_list(on: date | None = None) -> Finding:
    """Say from when the prices of models are that come along, and how old they are on a day."""
    from llmeval_sdk.judges.models import prices

    listed = prices.price_list()
    words = f"{listed.source} {listed.version} of {listed.as_of}"
    age = listed.age(on or prices.today())
    if age <= prices.MAX_AGE_DAYS:
        return Finding(True, "price list", words)
    words += f", {age} days old: a later {DISTRIBUTION} has later prices; LLMEVAL_PRICES wins"
    return Finding(None, "price list", words)


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


# Is the server of a model there? One GET of ``{base_url}/models``.

TIMEOUT_SECONDS = 3.0
DEFAULT_BASE_URL = "https://api.openai.com/v1"


_WITHOUT = (
    "; asked without the key, which would go in clear through the proxy of http_proxy: use an "
    "https address, or name the host in no_proxy"
)


def _is_overheard(base: str) -> bool:
    """Say whether a proxy would read what is sent: not where TLS goes through it."""
    parts = urlsplit(base)
    return parts.scheme == "http" and "http" in getproxies() and not proxy_bypass(parts.netloc)


class _StayHere(HTTPRedirectHandler):
    """Follow no redirect: it would carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Variables(NamedTuple):
    """The names of the environment variables for a server's address and its key."""

    base_url: str
    api_key: str


JUDGES = Variables("LLMEVAL_JUDGE_BASE_URL", "LLMEVAL_JUDGE_API_KEY")
DECISIONS = Variables("LLMEVAL_DECISION_BASE_URL", "LLMEVAL_DECISION_API_KEY")


def endpoint(
    base_url: str | None,
    key: Secret | None,
    variables: Variables,
    *,
    key_header: tuple[str, str] = ("Authorization", "Bearer "),
    headers: Mapping[str, str] | None = None,
    key_refusals: Collection[int] = (401, 403),
) -> Finding:
    """Check an address and a key by asking the server for its list of models.

    Args:
        base_url: Where the server is; by default OpenAI's.
        key: The API key.
        variables: The environment variables of both, to be named in messages.
        key_header: The header that the key is sent in, and what stands before it.
        headers: Further headers that the server wants.
        key_refusals: The statuses by which it refuses a key.
    """
    base = (base_url or DEFAULT_BASE_URL).rstrip("/")
    subject = f"{address(base)}/models"
    if not base.startswith(("http://", "https://")):
        return Finding(False, subject, f"is not an http address: check {variables.base_url}")
    sent = {"Accept": "application/json", **(headers or {})}
    with_key = key is not None and not _is_overheard(base)
    if key is not None and with_key:
        sent[key_header[0]] = f"{key_header[1]}{key.reveal()}"
    try:
        request = Request(subject, headers=sent)  # noqa: S310 - http, checked above
        with build_opener(_StayHere).open(request, timeout=TIMEOUT_SECONDS) as answer:
            left_out = key is not None and not with_key
            return Finding(True, subject, f"HTTP {answer.status}{_WITHOUT * left_out}")
    except HTTPError as error:
        error.close()
        if key is not None and not with_key:
            return Finding(None, subject, f"HTTP {error.code}{_WITHOUT}")
        if error.code in key_refusals:
            why = "the key is refused" if with_key else f"it wants a key: set {variables.api_key}"
            return Finding(False, subject, f"HTTP {error.code}: {why}")
        return _answered(subject, error.code)
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        return Finding(False, subject, f"cannot be reached: {reason}")


def _answered(subject: str, status: int) -> Finding:
    if status in (404, 405):
        return Finding(None, subject, f"HTTP {status}: it answers, but lists no models")
    return Finding(False, subject, f"HTTP {status}")


# What `llmeval doctor` says of the decision model, and of the calibrations beside the store.


def decision_model(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Say which decision model is asked over which wire, in whose place, and whether it answers."""
    own = settings.of(DecisionSettings)
    if own.decision_model is None:
        if own.decision_api_key is not None:
            words = "none is configured. A key alone never asks one: name a model in it"
            yield Finding(None, "LLMEVAL_DECISION_MODEL", words)
        return
    from llmeval_sdk.judges.models.decisions import HttpDecisions, place, resolve

    try:
        model = resolve(settings=settings)
    except ConfigurationError as error:
        yield Finding(False, own.decision_model, str(error))
        return
    assert isinstance(model, HttpDecisions)
    key = place(model.wire, settings)[1]
    words = f"asked by POST {address(model.base_url)}{model.path}, {_with(key)}"
    yield Finding(True, own.decision_model, f"wire {model.wire.name}; {words}")
    yield from _judges(settings)
    yield from _ceilings(settings, f"{model.price_host}{model.model}")
    if not offline:
        yield endpoint(model.base_url, key, DECISIONS)


def _with(key: Secret | None) -> str:
    return "without a key" if key is None else "with a key"


def _asked_of_a_judge_model(settings: Settings) -> list[str]:
    """Return the judges of the settings that a judge model is asked: those no decision is for."""
    own = settings.of(DecisionSettings)
    if own.decision_model is None:
        return [name for name in settings.evaluators if registry.is_judge(name)]
    return _divided(settings, settings.evaluators)[1]


def _divided(settings: Settings, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide the judges among some names into those that can be decided, and the others."""
    from llmeval_sdk.evaluation.decisions import divided
    from llmeval_sdk.evaluation.resolve import resolve

    decided: list[str] = []
    left: list[str] = []
    for name in dict.fromkeys(names):
        try:
            evaluator = resolve(name, settings)
        except ConfigurationError:  # which the checks of evaluators tell
            continue
        if evaluator.kind == "judge":
            (decided if divided([evaluator])[0] else left).append(name)
    return decided, left


def _judges(settings: Settings) -> Iterator[Finding]:
    decided, left = _divided(settings, settings.evaluators)
    if decided:
        yield Finding(True, "decided", ", ".join(decided))
    if left:
        words = f"{', '.join(left)}: no typed question, so left to the judge model"
        yield Finding(None, "not decided", words)
    if not decided and not left:
        words = "no judge is asked for: name some in LLMEVAL_EVALUATORS"
        yield Finding(None, "decided", words)


def _ceilings(settings: Settings, model: str) -> Iterator[Finding]:
    from llmeval_sdk.evaluation.budget import DECISION_BUDGET

    yield _dollars(settings, model, DECISION_BUDGET)
    tokens = f"at most {DECISION_BUDGET.tokens_per_minute:,.0f} a minute on this host"
    yield Finding(True, "tokens", tokens)


def calibrated(settings: Settings) -> Iterator[Finding]:
    """Say for each calibration whether it fits what answers now."""
    from llmeval_sdk.evaluation import calibrations

    path = state_path(settings.store)
    try:
        fitted = calibrations.read(path)
    except DataError as error:
        yield Finding(False, str(path), str(error))
        return
    for judge, one in fitted.items():
        made = datetime.fromtimestamp(one.fitted_ns / 1e9, tz=timezone.utc).date()
        words = f"fitted {made} to {one.calibration.labels:,} labels, {one.model} as v"
        words += one.judge_version
        latest = _latest(settings, judge)
        if latest is None:
            yield Finding(None, judge, f"{words}; no decision of it is stored yet")
        elif one.is_stale(*latest):
            yield Finding(None, judge, f"STALE: {calibrations.stale(judge, one, latest[1])}")
        elif one.calibration.is_identity:
            yield Finding(True, judge, f"{words}; it leaves the probabilities as they are")
        else:
            losses = f"{one.loss_before:.3f} to {one.loss_after:.3f}"
            yield Finding(True, judge, f"{words}; held-out log loss {losses}")


def _latest(settings: Settings, judge: str) -> tuple[str, str] | None:
    """Return the version of a judge and the model of its latest decision in the store."""

    def read(store: sqlite3.Connection) -> tuple[str, str] | None:
        row = store.execute(_LATEST, (judge,)).fetchone()
        if row is None:
            return None
        try:
            model = json.loads(row[1] or "{}").get("model")
        except (ValueError, AttributeError):
            model = None
        return str(row[0] or ""), str(model or "")

    path = path_of(settings.store)
    if not path.exists():
        return None
    try:
        with StoreReader(path) as reader:
            return reader.read(read)
    except ConfigurationError:  # which the check of the store tells
        return None


_LATEST = """
SELECT evaluator_version, metadata FROM evaluations
WHERE name = ? AND evaluator_kind = 'decision' AND error_type IS NULL ORDER BY time_ns DESC LIMIT 1
"""


# What `llmeval doctor` says of a judge model that is reached by its provider's own client.


def judge_provider(model: str, settings: Settings) -> Any:
    """Return how a model is reached; ``None`` where OpenAI's API is spoken.

    Raises:
        ConfigurationError: nothing stands for the name; the message says what works.
    """
    from llmeval_sdk.judges.models import sources

    reaches = (source.reach_of(model, settings) for source in sources())
    return next((reach for reach in reaches if reach is not None), None)


def _provider_findings(reach: Any) -> Iterator[Finding]:
    """Say whether the client and a key are there."""
    if reach.installs is not None:
        words = f"not installed: pip install '{reach.installs}'"
        yield Finding(False, reach.package, words)
    if reach.key is None:
        yield Finding(False, "key", f"there is none: set {reach.variables[1]}")


def _provider_endpoint(reach: Any) -> Finding:
    """Ask the provider for its models."""
    return endpoint(
        reach.models_url,
        reach.key,
        Variables(*reach.variables),
        key_header=reach.key_header,
        headers=reach.headers,
        key_refusals=reach.key_refusals,
    )


_EPILOG = """\
example:
  llmeval doctor --offline
  llmeval doctor --all

The command sees the environment of this shell, but not what the app passes to
configure(). Keys are never shown.
"""

_PRIVATE = ("resource_attributes",)
"""Mappings of the app's own, which may hold anything."""
_LATELY = "Since the last start"
_MARKS = {True: "ok", False: "BROKEN", None: "note"}


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="check the settings, the store, the judge model and the installed extras",
        description="Say in one line whether all is well and what is on, and then what is broken. "
        "Settings, exporters, evaluators, store, judge model and extras are checked; --all shows "
        "what was found of each.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument("--offline", action="store_true", help="do not contact the judge's server")
    parser.add_argument(
        "--all", action="store_true",
        help="show all details: every setting, exporter, evaluator, model and extra",
    )  # fmt: skip
    parser.add_argument(
        "--fleet",
        action="store_true",
        help="also check the judge fleet: queue, workers, versions, judges, key, clocks, account",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print all findings; 1 when something is broken."""
    problems: list[str] = []
    settings = config.from_environment(problems=problems)
    sections = {
        "Exporters": list(exporters(settings)),
        "Evaluators": list(evaluators(settings)),
        "Store": [store(settings)],
        "Spool": list(spool(settings)),
        _LATELY: list(lately(settings)),
        "Escalation": list(rules(settings)),
        "Judge model": [*_judge(settings, offline=args.offline), price_list()],
        "Decision model": list(decision_model(settings, offline=args.offline)),
        "Calibrations": list(calibrated(settings)),
        **_of_plugins(settings, offline=args.offline, wanted={"Judge fleet"} if args.fleet else ()),
        "Extras": list(extras()),
        "Threads": list(greenlets()),
        "Problems with settings": [
            *(Finding(False, *line.partition(": ")[::2]) for line in problems),
            *json_rules(settings),
        ],
    }
    hide = secrets(settings)
    broken = [each for findings in sections.values() for each in findings if each.ok is False]
    on = _hidden(_on(settings, sections), hide)
    if args.json:
        rows = _rows(settings, hide, everything=args.all)
        return _print_json(sections, rows, on, hide)
    say_wrapped(f"{f'NOT ok, {len(broken)} broken (see below)' if broken else 'ok'}: {on}.")
    if args.all:
        _versions()
        _settings(settings, hide)
    for title, findings in sections.items():
        details = args.all or title in ("Judge fleet", _LATELY)
        if title == "Evaluators":
            findings = grouped(findings, settings)  # noqa: PLW2901
        _print(title, [each for each in findings if details or each.ok is False], hide)
    say()
    if args.all:
        say(f"{len(broken)} broken." if broken else "Nothing is broken.")
    else:
        say("--all shows every setting, exporter, evaluator, model and extra.")
    return 1 if broken else 0


def _on(settings: Settings, sections: dict[str, list[Finding]]) -> str:
    """Say in a sentence what is on: where scores go, which run, and which model judges."""
    if not settings.enabled:
        return "nothing is recorded, because LLMEVAL_ENABLED is off"
    names = [each.subject for each in sections["Exporters"] if each.ok]
    places = ["the local store" if name == "local" else name for name in names]
    running = sum(each.words.startswith("heuristic, in ") for each in sections["Evaluators"])
    parts = [
        f"scores go to {' and '.join(places) or 'nowhere'}",
        f"{running} heuristics are on" if running else "heuristics are off",
    ]
    models = [
        f"{kind} is {each.subject}"
        for kind in ("Judge model", "Decision model")
        for each in sections[kind][:1]
        if each.ok
    ]
    if models:
        judges = [name for name in settings.evaluators if registry.is_judge(name)]
        parts += [f"the {model[0].lower()}{model[1:]}" for model in models]
        parts += [f"judges asked for by name: {', '.join(judges)}"] if judges else []
    elif sections["Judge model"][0].ok is None:
        parts.append("no judge runs, because LLMEVAL_JUDGE_MODEL is not set")
        if settings.judge_api_key is not None:
            parts[-1] += " (a key alone starts none)"
    dated = sections["Judge model"][-1]
    if dated.ok is None:
        parts.append(f"the price list is old ({dated.words})")
    return "; ".join(parts)


def _judge(settings: Settings, *, offline: bool) -> Iterable[Finding]:
    from llmeval_sdk.judges.models import DEFAULT_MODEL

    judges = _asked_of_a_judge_model(settings)
    if config.JUDGES in settings.closed:
        words = f"no judge runs: {settings.closed[config.JUDGES]}"
        yield Finding(False, "LLMEVAL_JUDGE_MODEL", words)
        return
    if not settings.judge_model and not judges:
        words = "none is configured; judges are counted as not run (no_judge_model)"
        if settings.judge_api_key is not None:
            words += ". A key alone never starts one: name a model in LLMEVAL_JUDGE_MODEL"
        yield Finding(None, "LLMEVAL_JUDGE_MODEL", words)
        return
    model = settings.judge_model or DEFAULT_MODEL
    try:
        reach = judge_provider(model, settings)
    except ConfigurationError as error:
        yield Finding(False, model, str(error))
        return
    key = settings.judge_api_key if reach is None else reach.key
    words = "with a key" if key is not None else "without a key"
    if not settings.judge_model:
        words += "; the default, because judges are asked for by name"
    yield Finding(True, model, f"asked {words}")
    if reach is not None:
        yield from _provider_findings(reach)
    elif installed("openai") is None:
        yield Finding(False, "openai", "not installed: pip install 'llmeval-inprocess[openai]'")
    yield from ceilings(settings, model)
    if offline:
        return
    if reach is None:
        yield endpoint(settings.judge_base_url, key, JUDGES)
    else:
        yield _provider_endpoint(reach)


def _print_json(
    sections: dict[str, list[Finding]], rows: list[tuple[str, str, str]], on: str, hide: set[str]
) -> int:
    found = {
        title: [
            {
                "ok": each.ok,
                "subject": _hidden(each.subject, hide),
                "words": _hidden(each.words, hide),
            }
            for each in findings
        ]
        for title, findings in sections.items()
    }
    broken = sum(each.ok is False for findings in sections.values() for each in findings)
    about = {
        "ok": not broken,
        "on": on,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: installed(name) for name in PACKAGES},
        "settings": [{"name": name, "value": value, "from": by} for name, value, by in rows],
        "sections": found,
        "broken": broken,
    }
    say_json(about)
    return 1 if broken else 0


def _versions() -> None:
    system = f"{platform.system()} {platform.machine()}"
    say(f"Python {platform.python_version()} on {system}, SQLite {sqlite3.sqlite_version}")
    found = [(name, installed(name)) for name in PACKAGES]
    say_wrapped(", ".join(f"{name} {version}" for name, version in found if version))


def _rows(settings: Settings, hide: set[str], *, everything: bool) -> list[tuple[str, str, str]]:
    """Return each setting to show: its name, its value without secrets, and where it is from."""
    rows = []
    for row in config.rows():
        source = config.source_of(row.name)
        if row.name in settings.unreadable and source != "default":
            source = f"{source}, which cannot be read"
        if everything or source != "default":
            value = shown(config.value_of(settings, row.name))
            if row.name in _PRIVATE and (private := config.value_of(settings, row.name)):
                value = f"{len(private)} set, not shown"
            value = _hidden(value, hide)
            rows.append((row.name, value, source))
    return rows


def _settings(settings: Settings, hide: set[str]) -> None:
    rows = _rows(settings, hide, everything=True)
    heading("Settings")
    table(("setting", "value", "from"), rows)


def _print(title: str, findings: list[Finding], hide: set[str]) -> None:
    if findings:
        heading(title)
        rows = [
            (_MARKS[each.ok], _hidden(each.subject, hide), _hidden(each.words, hide))
            for each in findings
        ]
        columns(rows)


def _hidden(text: str, hide: set[str]) -> str:
    """Take every secret out of a text: an app may have put its key into two variables."""
    for secret in sorted(hide, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
