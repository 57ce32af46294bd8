"""The fields of a structured answer: the leaves of an object or of JSON text, with their paths.

An app that extracts usually returns one object with all its fields. Scores are about each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from typing import Any, NamedTuple

from llmeval_sdk.model import values
from llmeval_sdk.model._nouns import Chunk, Evaluation, Record
from llmeval_sdk.model.chat import (
    completion_messages,
    is_answer,
    last_message,
    messages_of,
    to_text,
)
from llmeval_sdk.model.json_object import NoObjectError, only_value
from llmeval_sdk.process.pieces import MAX_SEARCHED


MAX_FIELDS = 500
"""At most so many leaves of an answer become fields; the others are only counted."""
MAX_DEPTH = 12
_MAX_PARTS = 20_000
"""At most so many parts of an answer are visited, because an object may contain itself."""
_MAX_NAME = 100
_CONFIG_KEYS = frozenset(
    ("name", "description", "format", "cues", "type", "unit", "guidelines", "examples", "locale")
)
"""What the configuration of one field may say."""
_ANNOTATIONS = frozenset(("value", "confidence", "evidence", "chunk_number", "source", "page"))
"""Keys of a mapping that holds one value and what the model says about it."""

_SAID_KEYS = (
    "answer", "content", "text", "message", "response", "output", "output_text", "reply", "refusal",
)  # fmt: skip
"""A mapping with a text under one of these keys is an answer in prose, whatever else it has."""

Config = Mapping[str, object]
_Structure = Mapping[object, object] | list[object] | tuple[object, ...]
_Leaf = tuple[str, str, object]
"""The path, the last name of it, and the value."""


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf of a structured answer.

    Attributes:
        path: Where it stands, such as ``vendor.name`` or ``lines[2].amount``.
        value: What stands there; ``None`` where the answer has nothing.
        config: The configuration that evaluators get as `Record.field_config`; it has the name.
    """

    path: str
    value: object
    config: Config

    @property
    def description(self) -> str | None:
        """What the app's configuration says about the field."""
        description = self.config.get("description")
        return description if isinstance(description, str) else None


class Fields(NamedTuple):
    """The fields of an answer, and how many more there were."""

    fields: tuple[Field, ...] = ()
    left_out: int = 0


def config_of(record: Record) -> Config:
    """Return what is known about the field of a record, or about its fields by path or name."""
    return record.field_config if isinstance(record.field_config, Mapping) else {}


def path_of_single(record: Record) -> str:
    """Return the path of an answer that is one field: what the app gave, or its name."""
    path = _path_in(config_of(record))
    return "value" if path is None else path


def _path_in(config: Config) -> str | None:
    """Return the path or else the name that a configuration has; ``None`` without either."""
    named = (known for key in ("path", "name") if isinstance(known := config.get(key), str))
    return next(named, None)


def is_structured(record: Record) -> bool:
    """Return whether the answer of a record has fields, as `fields_of` reads them."""
    structure = _structure_of(record)
    return structure is not None and next(_leaves_of(structure), None) is not None


def has_no_fields(record: Record) -> bool:
    """Return whether the answer is one value or prose: what is not structured."""
    return not is_structured(record)


def is_only_said(record: Record) -> bool:
    """Say whether a record has no other value than its response."""
    value, response = record.value, record.response
    if value is None or value is response:
        return True
    if type(value) is str:
        return value == response
    return response is not None and response in (last_message(value), to_text(value))


def has_value(record: Record) -> bool:
    """Say whether the record holds what was extracted, and not only an answer such as "No."."""
    return (
        bool(record.extractions or record.field_config)
        or not is_only_said(record)
        or is_structured(record)
    )


def is_extraction(record: Record) -> bool:
    """Say whether a record holds what was extracted, and not only an answer in prose."""
    return bool(record.extractions or record.field_config) or is_structured(record)


def _may_be_structured(record: Record) -> bool:
    """Return whether a record may have a structured answer, by how the answer begins."""
    if is_one_field(record):
        return False
    answer = record.value if record.value is not None else record.response
    if isinstance(answer, Mapping):
        return bool(answer)
    if isinstance(answer, (list, tuple)):
        return bool(answer) and isinstance(answer[0], Mapping)
    return isinstance(answer, str) and _OPENING.match(answer, 0, MAX_SEARCHED) is not None


_OPENING = re.compile(r"\s*(?:\{|\[\s*\{|```)")


def fields_of(record: Record) -> Fields:
    """Return the fields of a structured answer; none where the answer has no structure.

    The answer is the record's value, else its response: a mapping, a list of mappings, or JSON text
    that may stand in a code fence. A chat and its messages are read by their text, and a mapping
    with an answer in prose, such as ``{"answer": "Paris", "sources": […]}``, has no fields. A
    ``field_config`` that has a ``name`` says that the whole value is one field, even if it is a
    table, and so does one that has a ``path``; one whose values are mappings configures fields by
    their path or name.
    """
    structure = _structure_of(record)
    if structure is None:
        return Fields()
    configs = config_of(record)
    leaves = list(_leaves_of(structure))
    made = tuple(_field(path, name, value, configs) for path, name, value in leaves[:MAX_FIELDS])
    return Fields(made, len(leaves) - len(made))


_RECORD = tuple(row.name for row in dataclass_fields(Record))


def records_of_fields(
    record: Record, fields: Iterable[Field], sources: Sequence[Chunk]
) -> Iterator[Record]:
    """Yield one record for each field: its answer is the field alone, its passages are the same."""
    shared: dict[str, Any] = {name: getattr(record, name) for name in _RECORD}
    shared |= dict.fromkeys(("request", "response", "extractions", "confidence"))
    shared["retrieved_context"] = tuple(sources)
    for field in fields:
        shared["value"], shared["field_config"] = field.value, field.config
        yield Record(**shared)


def scored_fields(evaluation: Evaluation) -> list[ScoredEntry]:
    """Return what the metadata of an evaluation say about single fields; at most 500 are read.

    An evaluator of the app may keep anything under ``fields``, so an entry without a path is left
    out, and what is no probability counts as no chance.
    """
    entries = evaluation.metadata.get("fields")
    if not isinstance(entries, (list, tuple)):
        return []
    return [
        ScoredEntry(place, entry["path"], entry, _chance(entry.get("chance")))
        for place, entry in enumerate(entries[:MAX_FIELDS])
        if isinstance(entry, Mapping) and isinstance(entry.get("path"), str)
    ]


class ScoredEntry(NamedTuple):
    """One field in the metadata of an evaluation."""

    place: int
    """Its place in the list ``fields``."""
    path: str
    entry: Mapping[str, Any]
    """All that is said about the field."""
    chance: float | None
    """The chance of an error, 0..1; ``None`` where the field was not checked."""


def _chance(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= 1 else None


# A judge is asked about those fields of an answer that a free score found doubtful. Their paths
# travel among the attributes of the record that the judge gets.

_DOUBTFUL = "llmeval.doubtful_fields"
FEWEST_ASKED, MOST_ASKED = 3, 10
"""A judge is asked about the riskiest fields: always about the first three, and about up to ten as
long as they are doubtful."""


def with_doubtful_fields(record: Record, evaluations: Mapping[str, Evaluation]) -> Record:
    """Return a record that names the fields of its answer that a judge is asked about."""
    scored = evaluations.get(values.EXTRACTION_RISK)
    if scored is None or _DOUBTFUL in record.attributes:
        return record
    fields = scored_fields(scored)
    filled = (field for field in fields if field.entry.get("value") != "")
    chances = [(field.chance, field.path) for field in filled if field.chance is not None]
    chances.sort(key=lambda pair: -pair[0])
    paths = tuple(
        path
        for place, (chance, path) in enumerate(chances[:MOST_ASKED])
        if place < FEWEST_ASKED or chance > values.DOUBTFUL_ABOVE
    )
    return replace(record, attributes={**record.attributes, _DOUBTFUL: paths}) if paths else record


def doubtful_fields_of(record: Record) -> tuple[tuple[Field, ...], int]:
    """Return the fields to ask a judge about, and the number of fields that are left out.

    Fields without a value are neither returned nor counted. Without a score that says which fields
    are doubtful, the first ones are returned.
    """
    fields = fields_of(record)
    filled = [field for field in fields.fields if is_answer(field.value)]
    paths = record.attributes.get(_DOUBTFUL)
    wanted = list(paths) if isinstance(paths, (list, tuple)) else []
    by_path = {field.path: field for field in filled}
    chosen = [by_path[path] for path in dict.fromkeys(map(str, wanted)) if path in by_path]
    chosen = (chosen or filled)[:MOST_ASKED]
    return tuple(chosen), len(filled) - len(chosen) + fields.left_out


def _structure_of(record: Record) -> _Structure | None:
    """Return the object or list that an answer is, decoded from JSON where it is text."""
    if not _may_be_structured(record):
        return None
    answer = record.value if record.value is not None else record.response
    if not isinstance(answer, str) and _is_said(answer):
        answer = record.response
    if isinstance(answer, str):
        answer = _decoded(answer)
    if not isinstance(answer, (Mapping, list, tuple)) or _is_said(answer):
        return None
    return answer


def is_one_field(record: Record) -> bool:
    """Return whether the configuration says that the whole answer is one field."""
    return record.field_config is not None and _path_in(config_of(record)) is not None


def _is_said(answer: object) -> bool:
    """Return whether an object is a chat, the response of a model's client, or holds prose."""
    if messages_of(answer) is not None or completion_messages(answer) is not None:
        return True
    return isinstance(answer, Mapping) and any(
        isinstance(answer.get(key), str) for key in _SAID_KEYS
    )


@lru_cache(maxsize=64)
def _decoded(text: str) -> object:
    try:
        return only_value(text)
    except NoObjectError:
        return None


def _leaves_of(structure: _Structure) -> Iterator[_Leaf]:
    return _leaves(structure, "", "", 0, [_MAX_PARTS])


def _leaves(value: object, path: str, name: str, depth: int, room: list[int]) -> Iterator[_Leaf]:
    """Yield the leaves below a value. One that is too deep has no value."""
    room[0] -= 1
    if room[0] < 0:
        return
    if isinstance(value, Mapping) and "value" in value and _ANNOTATIONS.issuperset(value):
        value = value["value"]
    if depth > MAX_DEPTH:
        value = None
    if isinstance(value, Mapping):
        for key, item in value.items():
            inner = str(key)[:_MAX_NAME]
            yield from _leaves(item, f"{path}.{inner}" if path else inner, inner, depth + 1, room)
    elif isinstance(value, (list, tuple)) and any(
        isinstance(item, (Mapping, list, tuple)) for item in value[:MAX_FIELDS]
    ):
        for index, item in enumerate(value[:_MAX_PARTS]):
            yield from _leaves(item, f"{path}[{index}]", name, depth + 1, room)
    else:
        yield path, name, value


def _field(path: str, name: str, value: object, configs: Config) -> Field:
    keys = (path, general_path(path), name)
    about = next((own for key in keys if isinstance(own := configs.get(key), Mapping)), {})
    config = {key: about[key] for key in _CONFIG_KEYS if key in about}
    return Field(path, value, {"name": name_of_path(path), **config})


def general_path(path: str) -> str:
    """Return a path as all items of its lists have it: ``lines.amount`` of ``lines[2].amount``."""
    return _INDEX.sub("", path) if "[" in path else path


_INDEX = re.compile(r"\[\d+\]")


_GENERAL = frozenset(
    (
        "name", "id", "number", "no", "date", "amount", "value", "total", "type", "code", "rate",
        "text",
    )
)  # fmt: skip
"""Last names of a path that say little without the name before them."""


def name_of_path(path: str) -> str:
    """Return the last name of a path, with the name before it where one name says too little."""
    names = [name for name in general_path(path).split(".") if name]
    in_list = len(names) > 1 and f"{names[-2]}[" in path
    several = in_list or (bool(names) and names[-1].lower() in _GENERAL)
    return " ".join(names[-2:] if several else names[-1:])
