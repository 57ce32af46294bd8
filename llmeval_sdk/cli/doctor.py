"""``llmeval doctor``: what is configured and from where, what works, and what does not."""

from __future__ import annotations

import argparse
import platform
import sqlite3
from collections.abc import Iterable
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk._distribution import installed
from llmeval_sdk.cli import _checks
from llmeval_sdk.cli._checks import Finding
from llmeval_sdk.cli._decisions import asked_of_a_judge_model, calibrated, decision_model
from llmeval_sdk.cli._endpoint import JUDGES, endpoint
from llmeval_sdk.cli._judge_provider import judge_provider, provider_endpoint, provider_findings
from llmeval_sdk.cli._options import Help, add_json
from llmeval_sdk.cli._output import columns, heading, say, say_json, say_wrapped, table
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError


_EPILOG = """\
example:
  llmeval doctor --offline
  llmeval doctor --all

The command sees the environment of this shell, but not what the app passes to
configure(). Keys are never shown.
"""

_PRIVATE = ("resource_attributes",)
"""Mappings of the app's own, which may hold anything."""
_MARKS = {True: "ok", False: "BROKEN", None: "note"}


def add(subparsers: Any) -> None:
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
        "Exporters": list(_checks.exporters(settings)),
        "Evaluators": list(_checks.evaluators(settings)),
        "Store": [_checks.store(settings)],
        "Escalation": list(_checks.rules(settings)),
        "Risk scores that learn": list(_checks.learning(settings)),
        "Sessions": list(_checks.sessions(settings, offline=args.offline)),
        "Shared by all hosts": list(_checks.shared(settings, offline=args.offline)),
        "Judge model": list(_judge(settings, offline=args.offline)),
        "Decision model": list(decision_model(settings, offline=args.offline)),
        "Calibrations": list(calibrated(settings)),
        "Ragas": list(_checks.ragas(settings)),
        "Judge fleet": list(_checks.fleet(settings)) if args.fleet else [],
        "Instrumented clients": list(_checks.instrumented(settings)),
        "Extras": list(_checks.extras()),
        "Threads": list(_checks.greenlets()),
        "Problems with settings": [
            *(
                Finding(False, *line.partition(": ")[::2])
                for line in (*problems, *_redaction(settings))
            ),
            *_checks.sampling(settings),
        ],
    }
    hide = _checks.secrets(settings)
    broken = [each for findings in sections.values() for each in findings if each.ok is False]
    on = _hidden(_on(settings, sections), hide)
    if args.json:
        rows = _rows(settings, hide, problems, everything=args.all)
        return _print_json(sections, rows, on, hide)
    say_wrapped(f"{f'NOT ok, {len(broken)} broken (see below)' if broken else 'ok'}: {on}.")
    if args.all:
        _versions()
        _settings(settings, hide, problems)
    for title, findings in sections.items():
        details = args.all or title == "Judge fleet"
        if title == "Evaluators":
            findings = _checks.grouped(findings, settings)  # noqa: PLW2901
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
    return "; ".join(parts)


def _judge(settings: Settings, *, offline: bool) -> Iterable[Finding]:
    from llmeval_sdk.llms import DEFAULT_MODEL

    judges = asked_of_a_judge_model(settings)
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
        yield from provider_findings(reach)
    elif installed("httpx2") is None:
        yield Finding(False, "httpx2", "not installed: pip install 'llmeval-inprocess[openai]'")
    yield from _checks.ceilings(settings, model)
    if offline:
        return
    if reach is None:
        yield endpoint(settings.judge_base_url, key, JUDGES)
    else:
        yield provider_endpoint(reach)


def _redaction(settings: Settings) -> Iterable[str]:
    from llmeval_sdk.redaction import detectors

    try:
        detectors(settings.redact)
    except ConfigurationError as error:
        words = str(error).removeprefix("redact: ")
        return [f"{config.source_of('redact')}: {words}; the app uses all detectors"]
    return []


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
        "packages": {name: installed(name) for name in _checks.PACKAGES},
        "settings": [{"name": name, "value": value, "from": by} for name, value, by in rows],
        "sections": found,
        "broken": broken,
    }
    say_json(about)
    return 1 if broken else 0


def _versions() -> None:
    system = f"{platform.system()} {platform.machine()}"
    say(f"Python {platform.python_version()} on {system}, SQLite {sqlite3.sqlite_version}")
    found = [(name, installed(name)) for name in _checks.PACKAGES]
    say_wrapped(", ".join(f"{name} {version}" for name, version in found if version))


def _rows(
    settings: Settings, hide: set[str], problems: list[str], *, everything: bool
) -> list[tuple[str, str, str]]:
    """Return each setting to show: its name, its value without secrets, and where it is from."""
    rows = []
    for row in config.ROWS:
        source = config.source_of(row.name)
        if any(problem.startswith(f"{source}=") for problem in problems):
            source = f"default ({source} cannot be used)"
        if everything or source != "default":
            value = _checks.shown(config.value_of(settings, row.name))
            if row.name in _PRIVATE and (private := config.value_of(settings, row.name)):
                value = f"{len(private)} set, not shown"
            value = _hidden(value, hide)
            rows.append((row.name, value, source))
    return rows


def _settings(settings: Settings, hide: set[str], problems: list[str]) -> None:
    rows = _rows(settings, hide, problems, everything=True)
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
