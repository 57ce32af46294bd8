"""A Record's passages searched once: where a value stands, its rivals, and the cues beside both."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from llmeval_sdk.extraction.cues import cues
from llmeval_sdk.extraction.kinds import candidates, kind_of
from llmeval_sdk.extraction.marks import Marks
from llmeval_sdk.extraction.passages import Passages, lower, passages_of
from llmeval_sdk.extraction.values import abstained, items, normal, text_of
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
    """Collect the other values of a kind, each once."""
    taken: dict[str, Rival] = {}
    form_of: dict[str, str] = {}
    """Text -> its normal form, or nothing where it is no rival: many stand there often."""
    for start, end in candidates(kind, passages):
        text = passages.text[start:end]
        form = form_of.get(text)
        if form is None:
            form = form_of[text] = _rival_form(text, kind, forms)
        if not form or any(start < stop and end > begin for begin, stop in spans):
            continue
        cue = marks.near(start, end)
        known = taken.get(form)
        if known is None:
            taken[form] = Rival(text.strip(_EDGES), start, end, cue, 1)
        elif cue > known.cue:
            taken[form] = Rival(text.strip(_EDGES), start, end, cue, known.times + 1)
        else:
            taken[form] = known._replace(times=known.times + 1)
    return tuple(sorted(taken.values(), key=lambda rival: (-rival.cue, rival.start)))


def _rival_form(text: str, kind: str, forms: Collection[str]) -> str:
    """Return the normal form of a candidate; empty where it is one of the values, or part of it."""
    form = normal(text.strip(_EDGES))
    if form in forms or (kind in ("name", "line") and any(_is_part(form, o) for o in forms)):
        return ""
    return form


def _is_part(one: str, other: str) -> bool:
    """Say whether one of two names is a part of the other."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
