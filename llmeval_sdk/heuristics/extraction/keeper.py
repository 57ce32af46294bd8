"""The histories of an app's fields: kept in memory, and shared by the processes of a host.

Only the worker learns and reads or writes the file. Whoever asks for a score at once, on the app's
own thread, reads what is in memory.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol, TypeVar

from llmeval_sdk._process.shield import shield
from llmeval_sdk.extraction import Reading
from llmeval_sdk.heuristics.extraction.history import FieldHistory, traits
from llmeval_sdk.model import Record


T = TypeVar("T")
MAX_FIELDS = 100
"""Fields that have a history; further ones have none."""
SYNC_SECONDS, SYNC_ANSWERS = 30.0, 100
"""The file is read and written when either has passed."""
VERSION = 1


class Books(Protocol):
    """A text that processes change under one lock, such as that of a `HostLedger`."""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Replace the text by what ``change`` makes of it; ``None`` leaves it."""

    def close(self) -> None:
        """Let go of what is held; using it again opens it again."""


class Histories:
    """The history of each field of one app."""

    def __init__(
        self, books: Books | None = None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._books = books
        self._clock = clock
        self._key = secrets.token_bytes(16)
        self._fields: dict[str, FieldHistory] = {}
        self._news: list[tuple[str, dict[str, tuple[str, ...]] | None]] = []
        """What was learnt since the file was last written."""
        self._due = 0.0
        self._last_reading: tuple[Record | None, list[Reading]] = None, []
        self._last_traits: tuple[Reading | None, bytes, dict[str, tuple[str, ...]]] = None, b"", {}

    def remember(self, record: Record, readings: list[Reading]) -> None:
        """Keep what was read of the record that was scored last, until it is learnt."""
        self._last_reading = record, readings[:1]

    def recall(self, record: Record) -> list[Reading] | None:
        """Return what was read of the record that was scored last, once; ``None`` of another."""
        last_record, readings = self._last_reading
        if last_record is not record:
            return None
        self._last_reading = None, []
        return readings

    def measure(self, name: str, reading: Reading) -> dict[str, float]:
        """Compare a value with those that its field had before."""
        history = self._fields.get(name)
        return {} if history is None else history.measure(self._traits(reading))

    def learn(self, name: str, reading: Reading | None) -> None:
        """Count one answer, and share what was counted now and then. For the worker only."""
        if self._clock() >= self._due or len(self._news) >= SYNC_ANSWERS:
            self._share()
        if name not in self._fields and len(self._fields) >= MAX_FIELDS:
            return
        counted = None if reading is None else self._traits(reading)
        self._fields.setdefault(name, FieldHistory()).add(counted)
        if self._books is not None:
            self._news.append((name, counted))

    def _traits(self, reading: Reading) -> dict[str, tuple[str, ...]]:
        """Return the traits of a value; those of the last one are learnt right after measuring."""
        key = self._key
        last_reading, last_key, known = self._last_traits
        if last_reading is reading and last_key is key:
            return known
        made = traits(reading, key)
        self._last_traits = reading, key, made
        return made

    def _share(self) -> None:
        """Exchange what was learnt with the other processes of this host."""
        self._due = self._clock() + SYNC_SECONDS
        if self._books is not None:
            with shield("extraction history"):  # a file that cannot be used is no reason to stop
                self._books.update(self._merge)
                self._books.close()
        self._news = self._news[-SYNC_ANSWERS // 2 :]

    def _merge(self, text: str) -> tuple[str | None, None]:
        """Take in what all processes learnt, add what is new here, and write both."""
        key, fields = _load(text)
        if key is None:
            key, fields = self._key, {}
        elif key != self._key:  # another process began the file: what was hashed here is lost
            self._key, self._news = key, []
        for name, counted in self._news:
            if name in fields or len(fields) < MAX_FIELDS:
                fields.setdefault(name, FieldHistory()).add(counted)
        is_new = bool(self._news) or not text
        self._fields, self._news = fields, []
        return (_dump(key, fields) if is_new else None), None


def _dump(key: bytes, fields: dict[str, FieldHistory]) -> str:
    histories = {name: history.to_json() for name, history in fields.items()}
    return json.dumps({"version": VERSION, "key": key.hex(), "fields": histories})


def _load(text: str) -> tuple[bytes | None, dict[str, FieldHistory]]:
    """Read a file; one that is empty, of another version or damaged is begun anew."""
    try:
        data: Any = json.loads(text) if text else None
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return None, {}
        fields = {
            str(name)[:200]: FieldHistory.from_json(counts)
            for name, counts in list(data["fields"].items())[:MAX_FIELDS]
        }
        return bytes.fromhex(data["key"])[:64], fields
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, {}
