"""The fields of a structured answer: the leaves of an object or of JSON text, with their paths.

An app that extracts usually returns one object with all its fields. Scores are about each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from llmeval_sdk.model._nouns import Record
from llmeval_sdk.model.chat import completion_messages, messages_of
from llmeval_sdk.model.json_object import NoObjectError, only_value


MAX_FIELDS = 500
"""Leaves of an answer that are read; the others are counted."""
MAX_DEPTH = 12
_MAX_PARTS = 20_000
"""Parts of an answer that are looked at, so that one that holds itself comes to an end."""
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
"""Keys under which a mapping has an answer in prose; what else it has, such as sources, goes with
that."""

Config = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf of a structured answer.

    Attributes:
        path: Where it stands, such as ``vendor.name`` or ``lines[2].amount``.
        value: What stands there; ``None`` where the answer has nothing.
        name: The last name of the path.
        description: What the app's configuration says about it.
        config: The configuration that evaluators get as `Record.field_config`; it has the name.
    """

    path: str
    value: object
    name: str
    description: str | None = None
    config: Config = field(default_factory=dict)


class Fields(NamedTuple):
    """The fields of an answer, and how many more there were."""

    fields: tuple[Field, ...] = ()
    left_out: int = 0


NONE = Fields()


def is_structured(record: Record) -> bool:
    """Say whether a record has a structured answer."""
    return _may_be_structured(record) and bool(fields_of(record).fields)


def _may_be_structured(record: Record) -> bool:
    """Say whether a record may have a structured answer, without reading it."""
    if _is_one_field(record.field_config):
        return False
    answer = record.value if record.value is not None else record.response
    if isinstance(answer, Mapping):
        return bool(answer)
    if isinstance(answer, (list, tuple)):
        return bool(answer) and isinstance(answer[0], Mapping)
    return isinstance(answer, str) and _OPENING.match(answer) is not None


_OPENING = re.compile(r"\s*(?:\{|\[\s*\{|```)")


def fields_of(record: Record) -> Fields:
    """Return the fields of a structured answer; none where the answer has no structure.

    The answer is the record's value, else its response: a mapping, a list of mappings, or JSON text
    that may stand in a code fence. A chat and its messages are read by their text, and a mapping
    with an answer in prose, such as ``{"answer": "Paris", "sources": […]}``, has no fields. A
    ``field_config`` that has a ``name`` says that the whole value is one field, even if it is a
    table; one whose values are mappings configures fields by their path or name.
    """
    if not _may_be_structured(record):
        return NONE
    answer = record.value if record.value is not None else record.response
    if not isinstance(answer, str) and _is_said(answer):
        answer = record.response
    if isinstance(answer, str):
        answer = _decoded(answer)
    if not isinstance(answer, (Mapping, list, tuple)) or _is_said(answer):
        return NONE
    configs = record.field_config if isinstance(record.field_config, Mapping) else {}
    leaves = list(_leaves(answer, "", "", 0, [_MAX_PARTS]))
    made = tuple(_field(path, name, value, configs) for path, name, value in leaves[:MAX_FIELDS])
    return Fields(made, len(leaves) - len(made))


def _is_one_field(config: object) -> bool:
    return isinstance(config, Mapping) and isinstance(config.get("name"), str)


def _is_said(answer: object) -> bool:
    """Say whether a mapping or list is what a chat or a model's client holds."""
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


def _leaves(
    value: object, path: str, name: str, depth: int, room: list[int]
) -> Iterator[tuple[str, str, object]]:
    """Yield path, name and value of each leaf; what is too deep is a leaf without a value."""
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
    description = config.get("description")
    described = description if isinstance(description, str) else None
    return Field(path, value, name, described, {"name": _words_of(path), **config})


def general_path(path: str) -> str:
    """Return a path as all items of its lists have it: ``lines.amount`` of ``lines[2].amount``."""
    return _INDEX.sub("", path) if "[" in path else path


_INDEX = re.compile(r"\[\d+\]")


_GENERAL = frozenset(
    (
        "name",
        "id",
        "number",
        "no",
        "date",
        "amount",
        "value",
        "total",
        "type",
        "code",
        "rate",
        "text",
    )
)
"""Names that say little without the one above them."""


def _words_of(path: str) -> str:
    """Name a field by the last name of its path, and by the one above where that says more."""
    names = [name for name in general_path(path).split(".") if name]
    in_list = len(names) > 1 and f"{names[-2]}[" in path
    several = in_list or (bool(names) and names[-1].lower() in _GENERAL)
    return " ".join(names[-2:] if several else names[-1:])
