"""What an app's own records say about a field: how its values look, and what stands before them.

A history is counts of keyed hashes: no text of a record is kept, it is bounded whatever the traffic
is, and one record moves it by one.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from time import monotonic
from typing import Protocol, TypeVar

from llmeval_sdk.model import Record
from llmeval_sdk.process.shield import shield
from llmeval_sdk.text.extraction import Reading


MAX_COUNTED = 100
"""Different keys that are counted of each kind; the rarest make room."""
_BELIEVED = 15.0
"""Values after which a field's history counts half."""
_WORD = re.compile(r"[^\W\d_]{2,20}")
_COUNTS = ("shapes", "labels", "places", "words", "seen")


class BoundedCounter:
    """Counts of hashed keys, bounded."""

    __slots__ = ("counts", "most")

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: dict[str, int] = dict(counts or {})
        self.most = max(self.counts.values(), default=0)

    def add(self, key: str, times: int = 1) -> None:
        """Count a key."""
        counts = self.counts
        counts[key] = count = counts.get(key, 0) + times
        self.most = max(self.most, count)
        if len(counts) > MAX_COUNTED:  # a new mapping: others may be reading this one
            kept = sorted(counts.items(), key=lambda item: -item[1])[: MAX_COUNTED * 3 // 4]
            self.counts = dict(kept)

    def rarity(self, keys: Iterable[str]) -> float:
        """Return 1 where none of the keys ever came, 0 where the most usual one is among them."""
        if not self.most:
            return 0.0
        counts = self.counts
        best = max((counts.get(key, 0) for key in keys), default=0)
        return float(1 - min(1.0, best / self.most) ** 0.5)


@dataclass(slots=True)
class FieldHistory:
    """The counts of one field."""

    values: int = 0
    """Answers with a value."""
    empty: int = 0
    """Answers without one."""
    shapes: BoundedCounter = field(default_factory=BoundedCounter)
    labels: BoundedCounter = field(default_factory=BoundedCounter)
    places: BoundedCounter = field(default_factory=BoundedCounter)
    words: BoundedCounter = field(default_factory=BoundedCounter)
    seen: BoundedCounter = field(default_factory=BoundedCounter)

    def add(self, traits: Mapping[str, tuple[str, ...]] | None) -> None:
        """Count one answer: the `traits` of its value, or ``None`` where it has none."""
        if traits is None:
            self.empty += 1
            return
        self.values += 1
        for name, keys in traits.items():
            tally = getattr(self, name)
            for key in keys:
                tally.add(key)

    def measure(self, traits: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Compare a value with those before it; 0 where nothing is known yet.

        ``odd_shape``: values of this field usually look different. ``odd_label``: other words stand
        before them. ``odd_place``: they stand elsewhere. ``odd_words``: they are made of other
        words. ``repeated``: the same value for many documents, in a field that varies.
        ``usually_empty``: most documents have no value of this field.
        """
        trust = self.values / (self.values + _BELIEVED)
        return {
            "odd_shape": trust * self.shapes.rarity(traits["shapes"]),
            "odd_label": trust * self.labels.rarity(traits["labels"]) if traits["labels"] else 0.0,
            "odd_place": trust * self.places.rarity(traits["places"]),
            "odd_words": trust * self._odd_words(traits["words"]),
            "repeated": trust * self._repeated(traits["seen"][0]),
            "usually_empty": self.empty / (self.values + self.empty + _BELIEVED),
        }

    def _odd_words(self, words: tuple[str, ...]) -> float:
        """Say how few of a value's words are usual, as far as the field has usual words."""
        if not words or not self.values:
            return 0.0
        usual = min(1.0, 4 * self.words.most / self.values / 10)
        known = sum(min(1.0, 10 * self.words.counts.get(w, 0) / self.values) for w in words)
        return usual * (1 - known / len(words))

    def _repeated(self, form: str) -> float:
        variety = len(self.seen.counts) / (min(self.values, MAX_COUNTED) or 1)
        again = max(0, self.seen.counts.get(form, 0) - 1) / (0.1 * self.values + 1)
        return max(0.0, 2 * variety - 1) * min(1.0, again)

    def to_json(self) -> dict[str, object]:
        """Return the counts as they are written to a file."""
        tallies = {name: getattr(self, name).counts for name in _COUNTS}
        return {"values": self.values, "empty": self.empty, **tallies}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> FieldHistory:
        """Read what `to_json` wrote; raises `ValueError` for anything else."""
        made = cls(_count(data.get("values")), _count(data.get("empty")))
        for name in _COUNTS:
            counts = data.get(name)
            if not isinstance(counts, dict) or len(counts) > 2 * MAX_COUNTED:
                raise ValueError(f"no counts of {name}")
            setattr(
                made, name, BoundedCounter({str(key)[:16]: _count(n) for key, n in counts.items()})
            )
        return made


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"no count: {value!r:.50}")
    return value


def traits(reading: Reading, key: bytes) -> dict[str, tuple[str, ...]]:
    """Return what a history counts of a value, hashed with the history's own key."""

    def hashed(text: str) -> str:
        return blake2b(text.encode("utf-8", "replace"), digest_size=6, key=key).hexdigest()

    return {
        "shapes": (hashed(shape_of(reading.value)),),
        "labels": tuple(map(hashed, _labels(reading))),
        "places": (_place(reading),),
        "words": tuple(hashed(word) for word in dict.fromkeys(reading.form.split()[:12])),
        "seen": (hashed(reading.form),),
    }


def shape_of(value: str) -> str:
    """Fold a value to its shape: ``25/12/2018`` to ``9/9/9``, ``Ada Lovelace`` to ``Aa Aa``."""
    kinds = (
        "9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c
        for c in value[:60]
    )
    shape = "".join(kind for kind, _ in groupby(kinds))
    return shape if len(shape) <= 8 else f"{shape[:3]}~{min(9, len(value) // 10)}"


def _labels(reading: Reading) -> tuple[str, ...]:
    """Return the last words before a value, on its line or the one above."""
    if reading.best is None:
        return ()
    start = reading.best[0]
    return tuple(_WORD.findall(reading.passages.lowered[max(0, start - 40) : start])[-3:])


def _place(reading: Reading) -> str:
    """Say in which passage a value stands, and whether it begins a line there."""
    if reading.best is None:
        return "nowhere"
    start = reading.best[0]
    begins = start == 0 or reading.passages.text[start - 1] == "\n"
    return f"{'line' if begins else 'inside'}{min(reading.passages.number_at(start), 4)}"


T = TypeVar("T")
MAX_FIELDS = 100
"""Fields that have a history; further ones have none."""
SYNC_SECONDS, SYNC_ANSWERS = 30.0, 100
"""The file is read and written when either has passed."""
VERSION = 1


class Books(Protocol):
    """A text that processes change under one lock, such as a `SharedText`."""

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
        data: object = json.loads(text) if text else None
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return None, {}
        fields = {
            str(name)[:200]: FieldHistory.from_json(counts)
            for name, counts in list(data["fields"].items())[:MAX_FIELDS]
        }
        return bytes.fromhex(data["key"])[:64], fields
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, {}
