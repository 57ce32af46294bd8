"""What `llmeval doctor` says of learned weights: since when, from how many verdicts, or why not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.plugins.learning.background import Learning
from llmeval_sdk.plugins.learning.fits import (
    FEWEST,
    LATER,
    TEXT,
    FitCheck,
    FitState,
    UnusableError,
    parts_of,
    states_of,
)
from llmeval_sdk.plugins.learning.outcomes import TABLES
from llmeval_sdk.plugins.learning.settings import LearnedSettings
from llmeval_sdk.store.files import Unusable, path_of
from llmeval_sdk.store.state import open_state_read_only, state_path, tables_of, text_in


Finding = tuple[bool | None, str, str]
"""Whether it is well (``None``: neither well nor broken), what it is about, and a sentence."""


def findings(settings: Settings, *, offline: bool = False) -> Iterator[Finding]:
    """Say where learning stands, score by score, without making or changing a file."""
    if not settings.of(LearnedSettings).learn:
        yield None, "LLMEVAL_LEARN", "off: the shipped weights apply"
        return
    path = state_path(settings.store)
    learning = Learning(path_of(settings.store))
    for name in registry.installed(registry.heuristics()):
        learning.taught(registry.evaluator(name))
    try:
        parts, counts = parts_of(text_in(path, TEXT)), _counts(path)
    except (UnusableError, Unusable, sqlite3.Error) as error:
        reason = error.reason if isinstance(error, UnusableError) else "unreadable"
        yield False, str(path), f"ignored ({reason}): {error}. The shipped weights apply"
        return
    for score in learning.scores:
        names = sorted(part for part in {*parts, *counts} if part.partition("/")[0] == score.name)
        if not names:
            yield None, score.name, f"shipped weights; 0 of {FEWEST} verdicts to learn from"
        for part in names:
            try:
                states = states_of(parts[part], *score.made_of) if part in parts else {}
            except UnusableError as error:
                words = f"ignored ({error.reason}): {error}. The shipped weights apply"
                yield False, part, words
                continue
            known = counts.get(part, 0)
            for group, state in (states or {"": FitState()}).items():
                yield _finding(f"{part} {group}".strip(), state, known)


def _finding(subject: str, state: FitState, known: int) -> Finding:
    fit, candidate = state.in_use, state.candidate
    words = []
    if fit is not None and fit.check is not None:
        words.append(
            f"learned weights {fit.weights.version} in use since {_day(fit.check.at)}, from"
            f" {fit.outcomes:,} verdicts of {fit.source}; {_checked(fit.check)}"
        )
    elif state.refused is not None:
        words.append(f"shipped weights: learned ones were no better; {_checked(state.refused)}")
    elif candidate is None:
        words.append(f"shipped weights; {min(known, FEWEST)} of {FEWEST} verdicts to learn from")
        if known >= FEWEST:
            words.append("too few of them are good, or bad, or of one version of one judge")
    if candidate is not None:
        words.append(
            f"a fit on {candidate.outcomes:,} verdicts of {candidate.source} waits for {LATER}"
            " later ones that check it"
        )
    return (None if fit is None else True), subject, "; ".join(words)


def _checked(check: FitCheck) -> str:
    about = f"on {check.outcomes} later verdicts, {_day(check.at)}"
    if check.before is None or check.after is None:
        return about
    return f"AUROC {check.before:.2f} before and {check.after:.2f} after {about}"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%d %H:%M} UTC"


def _counts(path: Path) -> dict[str, int]:
    """Count outcomes by score and language."""
    database = open_state_read_only(path)
    if database is None:
        return {}
    with closing(database):
        if not tables_of(database, TABLES):
            return {}
        return dict(database.execute("SELECT part, count(*) FROM outcomes GROUP BY part"))
