"""A Record's passages searched once: where a value stands, its rivals, and the cues beside both."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from llmeval_sdk.extraction._marks import Marks
from llmeval_sdk.extraction._passages import Passages, PossibleValue, lower, passages_of
from llmeval_sdk.extraction._values import abstained, items, normal, text_of
from llmeval_sdk.extraction.cues import cues
from llmeval_sdk.extraction.kinds import candidates, kind_of
from llmeval_sdk.model import Record


MAX_VALUES = 10
"""Items of a list or table that are read; the metadata of a score says when there were more."""
MAX_OCCURRENCES = 20
MAX_SHOWN = 5
_EDGES = " ,.;:'\"()"


class Rival(NamedTuple):
    """Another value of the same kind, at the place that cues speak for most."""

    value: str
    start: int
    end: int
    cue: float
    times: int
    """How often it stands in the passages."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands in the passages about one value."""

    value: str
    form: str
    """The value's normal form."""
    kind: str
    passages: Passages
    marks: Marks
    spans: tuple[tuple[int, int], ...]
    """Where the value stands."""
    best: tuple[int, int] | None
    """The place among them that cues speak for most."""
    cue: float
    """How much they do: 0 for not at all, about 1 for the field's name right before it."""
    rivals: tuple[Rival, ...]
    """Other values of its kind, the one that cues speak for most first."""

    def shown(self, rival: Rival) -> dict[str, Any]:
        """Describe a rival as `Passages.shown` does."""
        return self.passages.shown(rival.value, rival.start, rival.end)


def value_of(record: Record) -> Any:
    """Return what the app settled on: the record's value, or its response where it has none."""
    return record.value if record.value is not None else record.response


def values_of(record: Record) -> list[Any]:
    """Return the single values in a record's value that are an answer, one more than are read."""
    answers = (item for item in items(value_of(record)) if not abstained(item))
    return list(islice(answers, MAX_VALUES + 1))


def read(record: Record, *, most: int = MAX_VALUES, with_rivals: bool = True) -> list[Reading]:
    """Read the single values of a record against its passages; empty where it has no value.

    ``most`` values are read. Without ``with_rivals`` nothing competes with them, which is cheaper.
    """
    values = [text for value in values_of(record)[:most] if (text := text_of(value))]
    passages = passages_of(record)
    marks = Marks.of(passages.lowered, cues(record.field_config, record.request))
    forms = frozenset(map(normal, values))
    return [_read(value, forms, passages, marks, with_rivals=with_rivals) for value in values]


def rivals(record: Record) -> list[dict[str, Any]]:
    """Describe the values that compete with a record's value, the strongest first, at most five.

    Each has a ``value``, its ``chunk_number`` (``None`` in quoted evidence) and the ``evidence``
    around it.
    """
    every = [(reading, rival) for reading in read(record) for rival in reading.rivals[:MAX_SHOWN]]
    every.sort(key=lambda pair: -pair[1].cue)
    return [reading.shown(rival) for reading, rival in every[:MAX_SHOWN]]


def _read(
    value: str, forms: Collection[str], passages: Passages, marks: Marks, *, with_rivals: bool
) -> Reading:
    kind = kind_of(value)
    form = normal(value)
    spans = tuple(_spans(value, form, kind, passages))
    best, cue = marks.best(spans)
    opponents = _rivals(kind, spans, forms, passages, marks) if with_rivals else ()
    return Reading(value, form, kind, passages, marks, spans, best, cue, opponents)


def _spans(value: str, form: str, kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    """Find where a value stands: as written, else as another spelling of the same value."""
    lowered, text = lower(value), passages.lowered
    count, at = 0, text.find(lowered)
    while at >= 0 and count < MAX_OCCURRENCES:
        end = at + len(lowered)
        inside = lowered[0].isalnum() and text[at - 1 : at].isalnum()
        if not inside and not (lowered[-1].isalnum() and text[end : end + 1].isalnum()):
            count += 1
            yield at, end
        at = text.find(lowered, end)
    if count == 0 and kind not in ("text", "line"):
        for start, end in candidates(kind, passages):
            if normal(passages.text[start:end]) == form:
                yield start, end


def _rivals(
    kind: str,
    spans: tuple[tuple[int, int], ...],
    forms: Collection[str],
    passages: Passages,
    marks: Marks,
) -> tuple[Rival, ...]:
    """Collect the other values of a kind, each once, at the place that cues speak for most."""
    best: dict[str, tuple[float, PossibleValue]] = {}
    times: dict[str, int] = {}
    competes: dict[str, bool] = {}
    for candidate in _everything(kind, passages):
        start, end, _, form = candidate
        is_rival = competes.get(form)
        if is_rival is None:
            is_rival = competes[form] = _competes(form, kind, forms)
        if not is_rival:
            continue
        for begin, stop in spans:
            if start < stop and end > begin:
                break
        else:
            cue = marks.near(start, end)
            times[form] = times.get(form, 0) + 1
            if form not in best or cue > best[form][0]:
                best[form] = cue, candidate
    found = [Rival(c.value, c.start, c.end, cue, times[c.form]) for cue, c in best.values()]
    return tuple(sorted(found, key=lambda rival: (-rival.cue, rival.start)))


def _everything(kind: str, passages: Passages) -> tuple[PossibleValue, ...]:
    """Return everything of a kind in the passages, which the fields of one document share."""
    kept = passages.kept.get(kind)
    if kept is None:
        values = (
            (*span, passages.text[slice(*span)].strip(_EDGES))
            for span in candidates(kind, passages)
        )
        kept = tuple(
            PossibleValue(start, end, value, normal(value)) for start, end, value in values
        )
        passages.kept[kind] = kept
    return kept


def _competes(form: str, kind: str, forms: Collection[str]) -> bool:
    """Say whether a candidate is another value: none of those given, nor a part of one."""
    if not form or form in forms:
        return False
    return kind not in ("name", "line") or not any(_is_part(form, other) for other in forms)


def _is_part(one: str, other: str) -> bool:
    """Say whether one of two names is a part of the other."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
