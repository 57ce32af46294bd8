"""What the processes that write a store could not deliver: by hour, exporter and reason.

A note is a row of ``meta``. Each process has one for every hour in which it noticed a loss, and one
that may be empty for the hour in which it began to write: so whoever has nothing but the store
knows when the app was started last. Notes of earlier releases have no hour; they count in the hour
in which their process began.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.process.forks import Locked
from llmeval_sdk.statistics.reasons import TRACES
from llmeval_sdk.store.encode import dumps, loads
from llmeval_sdk.text.terminal import percent, plural


Losses = Mapping[str, Mapping[str, int]]
"""How many records could not be delivered, by exporter and reason, and under `TRACES` how many
traces, by exporter."""
LOCAL = "local"
"""The exporter that writes the store: what it lost is not in the store."""


class Process(NamedTuple):
    """A process that writes a store."""

    started_ns: int
    pid: int


_STARTED_NS = time.time_ns()


class LossNotes(Locked):
    """Turns what this process has lost so far into what it has lost since its last note."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: Losses | None = None

    def note(self, lost: Losses, write: Callable[[Process, Losses], None]) -> None:
        """Have what is new written; where that raises, the next note has it as well."""
        with self._lock:
            before, self._noted = self._noted, lost
        if lost != before:
            try:
                write(Process(_STARTED_NS, os.getpid()), _since(before or {}, lost))
            except BaseException:
                self._noted = before
                raise


_OF_STORES: dict[tuple[int, str], LossNotes] = {}


def notes_of(store: str) -> LossNotes:
    """Return the notes of this process for a store.

    An app that is configured again has another exporter and the same counters. A forked child has
    counters of its own, which begin at nothing.
    """
    return _OF_STORES.setdefault((os.getpid(), store), LossNotes())


def _since(before: Losses, lost: Losses) -> Losses:
    """Return how far counters have risen. They fall where a configuration is gone with its own."""
    risen = {
        name: {
            reason: times - known
            for reason, times in reasons.items()
            if times > (known := before.get(name, {}).get(reason, 0))
        }
        for name, reasons in lost.items()
    }
    return {name: reasons for name, reasons in risen.items() if reasons}


def add_note(connection: sqlite3.Connection, process: Process, lost: Losses, time_ns: int) -> None:
    """Add losses to the note of a process for an hour, inside the caller's transaction."""
    hour = time_ns - time_ns % HOUR_NS
    key = f"{_key(hour)}:{process.pid}:{process.started_ns:020d}"
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    whole: dict[str, Counter[str]] = {}
    for note in (_readable(row[0]) if row else {}, lost):
        for name, reasons in note.items():
            whole.setdefault(name, Counter()).update(reasons)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, dumps(whole)))


def forget_notes(connection: sqlite3.Connection, before_ns: int) -> None:
    """Delete the notes of hours that were over before a time."""
    connection.execute(
        "DELETE FROM meta WHERE key >= 'lost:' AND key < ?", (_key(before_ns - HOUR_NS),)
    )


def losses(
    connection: sqlite3.Connection, since_ns: int | None = None, until_ns: int | None = None
) -> dict[str, dict[str, int]]:
    """Add up what all processes lost in a period, by exporter and reason; its hours count whole."""
    whole = _summed(_notes(connection, since_ns, until_ns))
    whole.pop(TRACES, None)
    return whole


@dataclass(frozen=True, slots=True)
class Missing:
    """What a store lacks of a period, because it was lost on the way."""

    records: int
    traces: int
    """How many of them are the first span of a trace; 0 where that was not counted."""
    reasons: Mapping[str, int]
    """The records by reason, the most frequent first."""

    @property
    def words(self) -> str:
        """How many records are lost, and why."""
        reasons = ", ".join(f"{reason} {times:,}" for reason, times in self.reasons.items())
        return f"{plural(self.records, 'record')} lost ({reasons})"


def missing(
    connection: sqlite3.Connection, since_ns: int | None = None, until_ns: int | None = None
) -> Missing | None:
    """Return what a store lacks of a period, whose hours count whole; ``None`` for nothing."""
    whole = _summed(_notes(connection, since_ns, until_ns))
    reasons = sorted(whole.get(LOCAL, {}).items(), key=lambda item: -item[1])
    if not reasons:
        return None
    records = sum(times for _, times in reasons)
    return Missing(records, whole.get(TRACES, {}).get(LOCAL, 0), dict(reasons))


def last_start(connection: sqlite3.Connection) -> int | None:
    """Return when the newest of the processes began that write the store; ``None`` if unknown."""
    return max((note.started_ns for note in _notes(connection)), default=None)


def losses_of_start(
    connection: sqlite3.Connection, started_ns: int, since_ns: int, earliest_ns: int
) -> tuple[Losses, Losses]:
    """Return what was lost since the last start, and what was lost before it.

    Args:
        connection: of the store.
        started_ns: The losses of processes that began then or later are those of the last start.
        since_ns: Of these, the hours that are over by then count as before it.
        earliest_ns: What was lost in hours that were over by then is left out.
    """
    after: list[_Note] = []
    before: list[_Note] = []
    for note in _notes(connection, earliest_ns):
        is_recent = note.started_ns >= started_ns and note.hour_ns + HOUR_NS > since_ns
        (after if is_recent else before).append(note)
    both = _summed(after), _summed(before)
    for whole in both:
        whole.pop(TRACES, None)
    return both


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of a period a store has, of which records were lost on the way."""

    missing: Missing
    stored: int
    """How many of its requests, the first spans of traces, are stored."""
    is_weighted: bool
    """Whether those that are stored stand for all that is lost, so that figures are estimates."""

    @property
    def share(self) -> float | None:
        """The share of the traces that is stored, 0..1; ``None`` where nobody counted the lost."""
        traces = self.missing.traces
        return self.stored / (self.stored + traces) if traces else None

    @property
    def sign(self) -> str:
        """What stands before a total: that it is an estimate, or at least so much."""
        return "≈ " if self.is_weighted else "≥ "

    @property
    def sentence(self) -> str:
        """Say what is missing, and what that means for figures."""
        lost = self.missing.words
        if self.share is not None:
            whole = self.stored + self.missing.traces
            lost = f"{percent(self.share)} of {whole:,} traces stored, {lost}"
        if self.is_weighted:
            return f"{lost}: figures are weighted by the chance of each trace to stay."
        return f"{lost}: totals are at least these, and the rest is of what is stored."


def completeness(
    lacking: Missing | None, stored: int, count: float, variance: float
) -> Completeness | None:
    """Compare what is lost of a period with what the requests that are stored stand for.

    Args:
        lacking: What the store lacks of the period.
        stored: How many of its requests are stored.
        count: How many these stand for.
        variance: Of that number.
    """
    if lacking is None:
        return None
    whole = stored + lacking.traces
    near = max(NEAR * whole, 4 * sqrt(variance))
    is_weighted = bool(lacking.traces) and count > stored and abs(count - whole) <= near
    return Completeness(lacking, stored, is_weighted)


NEAR = 0.02
"""How far the weights may be off what was counted, as a share of all requests."""


class _Note(NamedTuple):
    hour_ns: int
    started_ns: int
    lost: Losses


def _key(hour_ns: int) -> str:
    """Return how the names of an hour's notes begin; those of earlier hours sort before it."""
    return f"lost:{max(hour_ns, 0):020d}"


def _notes(
    connection: sqlite3.Connection, since_ns: int | None = None, until_ns: int | None = None
) -> Iterator[_Note]:
    first = _key(since_ns - since_ns % HOUR_NS) if since_ns is not None else "lost:"
    end = _key(until_ns) if until_ns is not None else "lost;"
    for key, value in connection.execute(_NOTES, (first, end)):
        parts = [*str(key)[:80].split(":"), "", ""]
        numbers = [int(part) if part.isascii() and part.isdecimal() else 0 for part in parts]
        hour, started = numbers[1], numbers[3] or numbers[1]
        yield _Note(hour - hour % HOUR_NS, started, _readable(value))


def _readable(note: object) -> Losses:
    """Read a note; what is no mapping of numbers by name and reason is left out."""
    try:
        plain = loads(note, {})  # type: ignore[arg-type]
    except (ValueError, TypeError):  # of a damaged store
        return {}
    return {
        name: {reason: n for reason, n in reasons.items() if type(n) is int}
        for name, reasons in (plain.items() if isinstance(plain, dict) else ())
        if isinstance(reasons, dict)
    }


def _summed(notes: Iterable[_Note]) -> dict[str, dict[str, int]]:
    whole: dict[str, dict[str, int]] = {}
    for note in notes:
        for name, reasons in note.lost.items():
            into = whole.setdefault(name, {})
            for reason, times in reasons.items():
                into[reason] = into.get(reason, 0) + times
    return whole


_NOTES = "SELECT key, value FROM meta WHERE key >= ? AND key < ? ORDER BY key"
