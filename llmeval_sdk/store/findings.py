"""What a person should know about a store: losses, a full disk, judges and scores that never come.

There is one list, for ``llmeval doctor``, the head of ``llmeval report``, the page *Overview* and
``/metrics``. It is made from the store and its disk alone, and reads a few thousand rows at most.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from typing import Literal, NamedTuple

from llmeval_sdk.model import DAY_NS
from llmeval_sdk.statistics.reasons import explain, explain_loss
from llmeval_sdk.store.files import WAL_BYTES
from llmeval_sdk.store.losses import LOCAL, Losses, last_start, losses_of_start
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import RAISE_LIMIT, live_bytes, too_small
from llmeval_sdk.text.terminal import megabytes, moment, plural


Kind = Literal["loss", "disk", "judge", "score"]
RECENT_NS = DAY_NS
"""How old a loss may be to be a problem."""
EARLIER_NS = 7 * DAY_NS
"""How old a loss may be to be told."""
LATEST = 5_000
"""How many of the latest evaluations, and of the judgements that were not made, are looked at."""
BUSY = "busy"
"""The reason of scores that gave way because more came than could be worked off."""
FEWEST = 3
"""How often a score has to fail, and nothing else, before that is a problem."""
_CHOSEN = frozenset(("no_judge_model", "missing_inputs", "over_budget", "shutdown"))
"""Reasons why a judge never ran that may be as they should be."""


class Finding(NamedTuple):
    """One thing that a person should know."""

    is_problem: bool
    """Whether something has to be done about it; else it is a note."""
    kind: Kind
    about: str
    """What it is about, in a word or two: an exporter and a reason, a judge, a score, a file."""
    number: int
    """How many records, judgements or scores it is about, or how many bytes are left."""
    words: str
    advice: str
    """The one setting or step that helps; empty where there is none."""

    def __str__(self) -> str:
        return f"{self.words} {self.advice}".rstrip()


def findings_of(reader: StoreReader, max_bytes: int, now_ns: int) -> list[Finding]:
    """Return what is to be known of a store now, problems first.

    Args:
        reader: of the store; its selection does not matter.
        max_bytes: above this size the store's oldest traces go; 0 means no bound.
        now_ns: the time, in nanoseconds since the epoch.
    """
    every = [
        *_of_disk(reader.location, max_bytes),
        *reader.read(lambda store: list(_of_limit(store, max_bytes))),
        *reader.read(lambda store: list(_of_store(store, now_ns))),
    ]
    return sorted(every, key=lambda finding: not finding.is_problem)


def _of_disk(location: str, max_bytes: int) -> Iterator[Finding]:
    """Say whether the disk of a store has room for what may still come."""
    if location.startswith("file:"):
        return
    try:
        size = os.stat(location).st_size  # noqa: PTH116 - a text already
        free = shutil.disk_usage(os.path.dirname(location)).free  # noqa: PTH120
    except OSError:
        return
    grows = max_bytes - size if max_bytes else WAL_BYTES
    has = f"The disk of the store has {megabytes(free)} left"
    if free < WAL_BYTES:
        words = f"{has}: what does not fit waits in memory for ten minutes, and then it is lost."
        yield Finding(True, "disk", "disk", free, words, explain_loss("disk_full").advice)
    elif free < grows:
        words = f"{has}, and the store may grow by another {megabytes(grows)}."
        advice = "Free some, or lower LLMEVAL_STORE_MAX_BYTES."
        yield Finding(False, "disk", "disk", free, words, advice)


def _of_limit(connection: sqlite3.Connection, max_bytes: int) -> Iterator[Finding]:
    """Say whether a store is empty because its limit is less than what a single trace takes."""
    size = live_bytes(connection)
    if 0 < max_bytes < size and not connection.execute(_ANY_SPAN).fetchone():
        yield Finding(True, "disk", "limit", max_bytes, too_small(max_bytes), RAISE_LIMIT)


def _of_store(connection: sqlite3.Connection, now_ns: int) -> Iterator[Finding]:
    started = min(last_start(connection) or 0, now_ns)  # a clock may have been wrong
    since = max(started, now_ns - RECENT_NS)
    recent, earlier = losses_of_start(connection, started, since, now_ns - EARLIER_NS)
    yield from _of_losses(recent, f"since {moment(since)[:16]} UTC", is_problem=True)
    yield from _of_losses(earlier, "before that, in a week", is_problem=False)
    yield from _of_judges(connection, since)
    yield from _of_scores(connection, since)


def _of_losses(lost: Losses, when: str, *, is_problem: bool) -> Iterator[Finding]:
    for exporter, reasons in lost.items():
        place = "the store" if exporter == LOCAL else exporter
        for reason, times in sorted(reasons.items(), key=lambda item: -item[1]):
            why = explain_loss(reason)
            words = (
                f"{plural(times, 'record')} never reached {place} {when} ({reason}). {why.meaning}"
            )
            yield Finding(is_problem, "loss", f"{exporter}: {reason}", times, words, why.advice)


def _of_judges(connection: sqlite3.Connection, since_ns: int) -> Iterator[Finding]:
    """Yield the judges that were to run and never did, with the most frequent reason."""
    told: set[str] = set()
    for judge, reason, times in connection.execute(_NOT_RUN, (LATEST, since_ns)):
        why = explain(reason)
        if reason == BUSY:
            if BUSY not in told:
                told.add(BUSY)
                words = f"The scores of {plural(times, 'request')} of the latest gave way (busy)."
                yield Finding(False, "score", BUSY, times, words, explain_loss("queue_full").advice)
            continue
        if judge in told or why.misses in (None, "selected") or reason in ("timeout", "error"):
            continue
        told.add(judge)
        if not any(connection.execute(_GAVE_VALUE, (judge, since_ns, LATEST)).fetchone()):
            words = f"{judge} gave no verdict, {times:,} times for {reason}. {why.meaning}"
            is_problem = reason not in _CHOSEN
            yield Finding(is_problem, "judge", judge, times, words, why.advice)


def _of_scores(connection: sqlite3.Connection, since_ns: int) -> Iterator[Finding]:
    """Yield the evaluators that failed on each of their latest records."""
    for name, kind, failed, error in connection.execute(_FAILING, (LATEST, since_ns)):
        words = f"{name} failed on all of its latest {plural(failed, 'record')}: {error}."
        advice = "`llmeval explain --last` has the message of the error."
        if kind in ("judge", "decision"):
            advice = f"`llmeval doctor` checks the model, and {advice[0].lower()}{advice[1:]}"
        yield Finding(failed >= FEWEST, "score", name, failed, words, advice)


_ANY_SPAN = "SELECT 1 FROM main.spans LIMIT 1"

_NOT_RUN = """
SELECT evaluator, reason, count(*) AS times FROM (
  SELECT evaluator, reason, time_ns FROM main.not_run ORDER BY seq DESC LIMIT ?)
WHERE time_ns >= ? GROUP BY evaluator, reason ORDER BY times DESC, evaluator, reason
"""

_GAVE_VALUE = """
SELECT count(value) FROM (
  SELECT value FROM main.evaluations WHERE name = ? AND time_ns >= ? ORDER BY time_ns DESC LIMIT ?)
"""

_FAILING = """
SELECT name, evaluator_kind, count(*), max(error_type) FROM (
  SELECT name, evaluator_kind, error_type, time_ns FROM main.evaluations ORDER BY seq DESC LIMIT ?)
WHERE time_ns >= ? GROUP BY name, evaluator_kind HAVING count(error_type) = count(*)
ORDER BY name
"""
