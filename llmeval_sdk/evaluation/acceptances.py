"""The thresholds below which values of a field need no look, kept in the file of state.

``llmeval accept --save`` writes them. Each is of one field, of the spans with one name or of all,
of a group by one or two tags or of all traffic, and of the version of the score that it was found
for: where that has moved on, nothing is accepted, because nobody knows what the new score means.
The same holds for a file that cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation.groups import NO_TAGS, read_where
from llmeval_sdk.model import Evaluation
from llmeval_sdk.model.structure import general_path
from llmeval_sdk.store.state import WatchedText, change_text, parsed_text


FORMAT, FORMAT_OF_GROUPS = 1, 2
"""A file without a group has the first, so that release 0.1.0 reads it."""
TEXT = "acceptances"
"""The text of the file of state that holds them."""
MAX_CHARACTERS = 1 << 20
MAX_THRESHOLDS = 2_000
MAX_TAGS = 2
"""The most tags that a group is told by."""
_NOUN = "the thresholds of accepted values"

Decision = Literal["accepted", "refused", "audit"]
SURE = "sure"
"""The promise that is made: how many accepted values are wrong at most, with 95 % confidence."""
AUDIT_PROBABILITY = 0.01
"""The chance that a value which would be accepted is refused, so that somebody looks at it. Labels
of such values are the only ones that show whether accepted values have become worse."""


Group: TypeAlias = "tuple[tuple[str, object], ...]"
"""Tags with the value that each must have, in the order of their names; empty for all traffic."""


class Key(NamedTuple):
    """What a threshold is for."""

    span_name: str | None
    field: str
    group: Group = ()


@dataclass(frozen=True, slots=True)
class SavedThreshold:
    """A threshold with what was promised of it when it was saved."""

    field: str
    """The path as all items of its lists have it, such as ``lines.amount``."""
    span_name: str | None
    """The name of the spans; ``None`` stands for all names."""
    threshold: float
    """The highest chance of an error that is accepted, 0..1."""
    error: float
    """The share of wrong values that the promise allows, 0..1."""
    promise: str
    """`SURE`; nothing is accepted by a threshold with another one."""
    share: float
    """The part of the traffic that was accepted, 0..1."""
    values: int
    """The number of values in that traffic."""
    labels: int
    """The number of labels that the promise rests on."""
    version: str
    """The version of the score."""
    saved_ns: int
    """When it was saved, in nanoseconds since the epoch."""
    where: Mapping[str, str] = dataclass_field(default_factory=dict)
    """The group, as in ``{"tag:tenant": "acme"}``; empty for all traffic."""

    @property
    def key(self) -> Key:
        """What the threshold is for."""
        return Key(self.span_name, self.field, _group_in(self.where))


def _group_in(where: Mapping[str, str]) -> Group:
    """Return a group as a part of a key; raises `ConfigurationError` for what is none."""
    tests = read_where(where or None, _NOUN)
    group = tuple(sorted((tag, value) for tag, listed in tests for value in listed))
    if len(group) != len(tests) or len(group) > MAX_TAGS:
        raise ConfigurationError(f"{_NOUN}: a group has one value of at most {MAX_TAGS} tags")
    return group


Thresholds = Mapping[Key, SavedThreshold]
"""The thresholds, each by what it is for."""


def read(path: Path) -> Thresholds:
    """Return the thresholds in a file of state; none where there is no file.

    Raises:
        DataError: the file cannot be read, or holds no thresholds of this format.
    """
    return parsed_text(path, TEXT, _parsed, _NOUN)


def save(path: Path, threshold: SavedThreshold) -> None:
    """Put a threshold in the place of the former one for the same spans, field and group.

    Raises:
        DataError: the file cannot be written, or there are too many thresholds.
    """

    def change(text: str) -> str:
        thresholds = {**_parsed(text), threshold.key: threshold}
        if len(thresholds) > MAX_THRESHOLDS:
            raise DataError(
                f"{path} holds {MAX_THRESHOLDS:,} thresholds already, which is all it may"
            )
        written = _written(thresholds)
        if len(written) > MAX_CHARACTERS:
            raise DataError(
                f"{_NOUN} in {path} would have more than {MAX_CHARACTERS:,} characters: names of"
                " fields, spans or tags are too long"
            )
        return written

    change_text(path, TEXT, change, _NOUN)


def remove(path: Path, key: Key) -> bool:
    """Remove a threshold, so that no value is accepted by it; say whether there was one.

    Raises:
        DataError: the file cannot be read or written.
    """
    if key not in read(path):
        return False

    def change(text: str) -> str:
        return _written({k: kept for k, kept in _parsed(text).items() if k != key})

    change_text(path, TEXT, change, _NOUN)
    return True


class Decided(NamedTuple):
    """A decision, and by which thresholds it was made."""

    decision: Decision
    saved_ns: tuple[int, ...] = ()
    """The times at which the thresholds that were used had been saved; empty if refused."""


_MOST_SPECIFIC_FIRST = (
    *((is_named, count) for is_named in (True, False) for count in range(MAX_TAGS, 0, -1)),
    (True, 0),
    (False, 0),
)
"""Pairs: whether a threshold is about one span name, and how many tags its group has."""


class _Index:
    """The thresholds as they are looked up, in microseconds also where there are many groups."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._tags: dict[tuple[str, int], set[tuple[str, ...]]] = {}
        """By field and number of tags, the names of the tags by which groups are told."""
        for _, field, group in thresholds:
            names = tuple(tag for tag, _ in group)
            self._tags.setdefault((field, len(names)), set()).add(names)

    def most_specific(
        self, span_name: str, field: str, tags: Mapping[str, str]
    ) -> SavedThreshold | None:
        """Return the threshold that fits a value best; of two that fit equally, the lower one."""
        for is_named, count in _MOST_SPECIFIC_FIRST:
            fitting = [
                saved
                for names in self._tags.get((field, count), ())
                if (saved := self._thresholds.get(
                    Key(
                        span_name if is_named else None,
                        field,
                        tuple((tag, _text_of(tags.get(tag))) for tag in names),
                    )
                )) is not None
            ]  # fmt: skip
            if fitting:
                return min(fitting, key=lambda saved: saved.threshold)
        return None


def _text_of(value: object) -> str | None:
    """Return the value of a tag as filters compare it; ``None`` where no threshold can name it."""
    return str(value) if type(value) in (str, int) else None


class Acceptances:
    """The thresholds as an app uses them.

    Args:
        path: The file of state.
        complain: Is called once with each problem of the file.
    """

    def __init__(self, path: Path, complain: Callable[[str], object]) -> None:
        self._text = WatchedText(
            path, TEXT, lambda text: _Index(_parsed(text)), noun=_NOUN, complain=complain
        )

    def decide(
        self,
        scored: Evaluation | None,
        span_name: str,
        span_id: str,
        field: str | None,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Decided:
        """Say whether the values of an answer, or that of one field, need no look.

        Args:
            scored: What ``extraction_risk`` says of the answer.
            span_name: The name of its span.
            span_id: The id of its span, which decides whether a value is audited. Asking again
                gives the same decision.
            field: A path such as ``lines[2].amount``, or a field such as ``lines.amount`` for all
                items of its list; ``None`` stands for all fields.
            tags: The tags of the span, which say in which groups it is.
        """
        refused = Decided("refused")
        entries = scored.metadata.get("fields") if scored is not None else None
        if scored is None or not isinstance(entries, list):
            return refused
        thresholds = self._text.read()
        asked = [entry for entry in entries if entry["path"] == field]
        if not asked and not scored.metadata.get("fields_cut"):  # else there are more of them
            asked = [entry for entry in entries if field in (None, general_path(entry["path"]))]
        if not asked or any(entry.get("values_cut") for entry in asked):
            return refused
        used: dict[int, None] = {}
        for entry in asked:
            saved = thresholds.most_specific(span_name, general_path(entry["path"]), tags)
            if saved is None or entry["chance"] is None or entry["chance"] > saved.threshold:
                return refused
            if why := outdated(saved, scored.evaluator_version):
                self._text.say(why)
                return refused
            used[saved.saved_ns] = None
        return Decided("audit" if _is_audited(span_id, field) else "accepted", tuple(used))


def outdated(saved: SavedThreshold, version: str) -> str:
    """Say in one sentence why nothing is accepted by a threshold; empty where it is in use."""
    if saved.promise != SURE:
        why = "was saved with a promise on average, which is made no longer"
    elif saved.version != version:
        why = f"was found for version {saved.version} of the score, and this is version {version}"
    else:
        return ""
    return (
        f"the threshold of {saved.field} {why}: nothing is accepted until llmeval accept --save"
        " sure is run again"
    )


def _is_audited(span_id: str, field: str | None) -> bool:
    digest = blake2b(f"audit {span_id} {field or ''}".encode("utf-8", "replace"), digest_size=8)
    return int.from_bytes(digest.digest(), "big") < AUDIT_PROBABILITY * (1 << 64)


def _parsed(text: str) -> dict[Key, SavedThreshold]:
    """Read what `save` wrote; raises `DataError` for anything else."""
    if not text:
        return {}
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"{_NOUN} have more than {MAX_CHARACTERS:,} characters")
    try:
        plain = json.loads(text)
        if plain["format"] not in (FORMAT, FORMAT_OF_GROUPS):
            raise DataError(
                f"{_NOUN} have format {plain['format']!r:.20}, not {FORMAT} or {FORMAT_OF_GROUPS}"
            )
        saved = [SavedThreshold(**entry) for entry in plain["thresholds"][:MAX_THRESHOLDS]]
        is_sound = all(map(_is_sound, saved))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_sound, saved = False, []
    if not is_sound:
        raise DataError(f"{_NOUN} cannot be read: run llmeval accept --save again")
    return {each.key: each for each in saved}


def _written(thresholds: Thresholds) -> str:
    entries = [asdict(each) for each in thresholds.values()]
    has_groups = any(entry["where"] for entry in entries)
    for entry in entries:
        if not entry["where"]:
            del entry["where"]
    plain = {"format": FORMAT_OF_GROUPS if has_groups else FORMAT, "thresholds": entries}
    return json.dumps(plain, allow_nan=False)


def _is_sound(saved: SavedThreshold) -> bool:
    shares = (saved.threshold, saved.error, saved.share)
    return (
        all(type(each) in (int, float) and isfinite(each) and 0 <= each <= 1 for each in shares)
        and all(type(each) is int for each in (saved.values, saved.labels, saved.saved_ns))
        and all(type(each) is str for each in (saved.field, saved.version))
        and type(saved.span_name) in (str, type(None))
        and type(saved.promise) is str
        and type(saved.where) is dict
        and all(type(each) is str for each in saved.where.values())
        and _group_in(saved.where) is not None  # raises for what is no group
    )
