"""Records and outcomes as JSON: what stands in the messages between apps and workers.

Only the classes of `_NESTED` are ever made of what was received, each from the fields that it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, TypeVar

from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    Record,
    SpanData,
    Step,
    Target,
    Usage,
)


T = TypeVar("T")


class UnreadableError(ValueError):
    """What was received is not what this release writes."""


_NESTED: dict[type, dict[str, Any]] = {
    Record: {
        "retrieved_context": [Chunk],
        "expected_retrieved_context": [Chunk],
        "extractions": [Extraction],
        "expected_facts": [str],
        "usage": Usage,
        "steps": [Step],
        "tools": [dict],
        "expected_trajectory": [Step],
    },
    EvaluationEvent: {"target": Target, "evaluation": Evaluation},
    Evaluation: {"error": Failure, "usage": Usage},
    NotRun: {"target": Target},
    SpanData: {"error": Failure, "usage": Usage, "links": [Target]},
    Chunk: {},
    Extraction: {},
    Step: {},
    Failure: {},
    Target: {"marks": [tuple]},
    Usage: {},
}
"""The fields that hold objects, by class; a list stands for a tuple of them."""
_NOT_SENT: dict[type, tuple[str, ...]] = {SpanData: ("context", "evaluations", "prompt")}
"""Fields that the span of a judge's run never has."""


def _reader(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], frozenset[str]]:
    """Return the fields of a class, what reads them, and those that have no default."""
    rows = [row for row in fields(kind) if row.name not in _NOT_SENT.get(kind, ())]
    names = tuple(row.name for row in rows)
    needed = (row.name for row in rows if row.default is row.default_factory is MISSING)
    return names, attrgetter(*names), frozenset(needed)


_READERS = {kind: _reader(kind) for kind in _NESTED}
_KINDS: Mapping[str, type] = {
    "evaluation": EvaluationEvent, "span": SpanData, "not_run": NotRun
}  # fmt: skip
_WORDS = {kind: word for word, kind in _KINDS.items()}


def written(value: Any) -> str:
    """Write a value as JSON; of what is no plain data only the name of its type is left."""
    try:
        return _encode(value)
    except (TypeError, RecursionError):  # a key that is no text, or a list that holds itself
        return _encode(_keyed(value, 0))


def plain(item: Any) -> dict[str, Any]:
    """Return the fields of an object, without those that are ``None`` by default."""
    names, read, needed = _READERS[type(item)]
    values = zip(names, read(item))  # noqa: B905 - as many as there are names
    if not needed:
        return {name: value for name, value in values if value is not None}
    return {name: value for name, value in values if value is not None or name in needed}


def _default(value: Any) -> Any:
    return plain(value) if type(value) in _READERS else f"<{type(value).__name__}>"


_encode = json.JSONEncoder(default=_default, separators=(",", ":"), check_circular=False).encode
_DEEPEST = 40


def _keyed(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return "<too deep>"
    if type(value) in _READERS:
        value = plain(value)
    if isinstance(value, Mapping):
        return {str(key): _keyed(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_keyed(item, depth + 1) for item in value]
    return value


def parsed(text: str | bytes) -> Any:
    """Read JSON; raises `UnreadableError` for anything else, such as ten thousand brackets."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {type(error).__name__}") from None


def built(kind: type[T], plain_item: Any) -> T:
    """Make an object of the fields that `plain` returned; unknown fields are left out.

    Raises:
        UnreadableError: they are not those of such an object.
    """
    if type(plain_item) is not dict:
        raise UnreadableError(f"no {kind.__name__}")
    nested, known = _NESTED[kind], _READERS[kind][0]
    values = {
        name: _made(nested[name], value) if name in nested and value is not None else value
        for name, value in plain_item.items()
        if name in known
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise UnreadableError(f"no {kind.__name__}: {error}"[:200]) from None


def _made(kind: Any, value: Any) -> Any:
    if type(kind) is not list:
        return built(kind, value)
    if type(value) is not list:
        raise UnreadableError("no list")
    if kind[0] is str:
        return tuple(str(item) for item in value)
    if kind[0] is dict:
        return tuple(item for item in value if type(item) is dict)
    if kind[0] is tuple:
        return tuple((str(pair[0]), pair[1]) for pair in value if _is_pair(pair))
    return tuple(built(kind[0], item) for item in value)


def _is_pair(value: Any) -> bool:
    return type(value) is list and len(value) == 2


def items_as_plain(items: list[Any]) -> list[Any]:
    """Return what a judgement emits as plain data."""
    return [[_WORDS[type(item)], item] for item in items]


def items_of(plain_items: Any) -> list[Any]:
    """Make what a judgement emits; raises `UnreadableError` where it is nothing of that kind."""
    if type(plain_items) is not list:
        raise UnreadableError("no list")
    items: list[Any] = []
    for pair in plain_items:
        if type(pair) is not list or len(pair) != 2 or pair[0] not in _KINDS:
            raise UnreadableError("no evaluation, span or reason")
        items.append(built(_KINDS[pair[0]], pair[1]))
    return items
