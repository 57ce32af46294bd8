"""Nouns as plain values, such as JSON holds, and back.

Only the classes named here are ever made of what was received, each from the fields that it has.
What comes from a stranger's file is also `checked`: what the store has a column of one type for is
of that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, partial
from math import isfinite
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    Prompt,
    Record,
    SpanData,
    Step,
    Target,
    Usage,
)


T = TypeVar("T")


class UnreadableError(ValueError):
    """What was received is not what this release writes."""


_NESTED: dict[type, dict[str, object]] = {
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
    SpanData: {
        "error": Failure,
        "usage": Usage,
        "links": [Target],
        "retrieved_context": [Chunk],
        "extractions": [Extraction],
        "prompt": Prompt,
    },
    Prompt: {
        "chat_template": [dict],
        "rag_context_variables": [str],
        "rag_query_variables": [str],
    },
    Chunk: {},
    Extraction: {},
    Step: {},
    Failure: {},
    Target: {"marks": [tuple]},
    Usage: {},
}
"""The fields that hold objects, by class; a list stands for a tuple of them."""
_NOT_PLAIN: dict[type, tuple[str, ...]] = {SpanData: ("context", "evaluations")}
"""Fields that live in one process, or are written down by themselves."""


def _reader(
    kind: type,
) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]], frozenset[str]]:
    """Return the fields of a class, what reads them, and those that have no default."""
    rows = [row for row in fields(kind) if row.name not in _NOT_PLAIN.get(kind, ())]
    names = tuple(row.name for row in rows)
    needed = (row.name for row in rows if row.default is row.default_factory is MISSING)
    return names, attrgetter(*names), frozenset(needed)


_READERS = {kind: _reader(kind) for kind in _NESTED}
_KNOWN = {kind: frozenset(names) for kind, (names, _, _) in _READERS.items()}


def is_noun(item: object) -> bool:
    """Say whether `plain` knows an object."""
    return type(item) in _READERS


def plain(item: object) -> dict[str, object]:
    """Return the fields of an object, without those that are ``None`` by default."""
    names, read, needed = _READERS[type(item)]
    values = zip(names, read(item))  # noqa: B905 - as many as there are names
    if not needed:
        return {name: value for name, value in values if value is not None}
    return {name: value for name, value in values if value is not None or name in needed}


def built(kind: type[T], plain_item: object) -> T:
    """Make an object of the fields that `plain` returned; unknown fields are left out.

    Raises:
        UnreadableError: they are not those of such an object.
    """
    if type(plain_item) is not dict:
        raise UnreadableError(f"no {kind.__name__}")
    nested, known = _NESTED[kind], _KNOWN[kind]
    values = {name: value for name, value in plain_item.items() if name in known}
    for name, inner in nested.items():
        if (value := values.get(name)) is not None:
            values[name] = _made(inner, value)
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


def _is_pair(value: object) -> bool:
    return type(value) is list and len(value) == 2


def known_fields(kind: type) -> frozenset[str]:
    """Return the names that `built` reads."""
    return _KNOWN[kind]


# Whether a noun that a stranger's file made holds what its class says.

MAX_TEXT = 1 << 17
"""Characters of a text that has a column of its own, such as a name; capturing keeps no more."""
_INT64 = 1 << 63
_ANY_LENGTH: dict[type, tuple[str, ...]] = {
    Chunk: ("content",), Evaluation: ("explanation",), Failure: ("message",),
}  # fmt: skip
_UNCHECKED: dict[type, tuple[str, ...]] = {
    SpanData: ("confidence",),
    Chunk: ("score", "page", "retrieval_method"),
    Extraction: ("chunk_number", "confidence", "evidence"),
    Prompt: ("id", "version", "template", "tags"),
}
"""Fields that apps fill as they like, and that are written as JSON whatever they hold."""


def checked(noun: T) -> T:
    """Return a noun in which every field, at every depth, is of the type that it is declared with.

    Whole numbers have to fit 64 bits, other numbers have to be finite.

    Raises:
        UnreadableError: one is not; the message names it.
    """
    kind: Any = type(noun)
    read, checks = _checks(kind)
    values = read(noun)
    kinds = (kind, *map(type, values))
    tests = _tests.get(kinds)
    if tests is None:
        tests = _tests_for(checks, kinds[1:])
        if len(_tests) < _MAX_TESTS:
            _tests[kinds] = tests
    for place, test in tests[0]:
        problem = test(values[place])
        if problem is not None:
            raise UnreadableError(f"{checks[place].name} {problem}")
    for text in tests[1](values):
        if len(text) > MAX_TEXT:
            raise UnreadableError(f"has a name or id of more than {MAX_TEXT:,} characters")
    return noun


_SAID = {
    NoneType: "missing", bool: "true or false", int: "a whole number", float: "a number",
    str: "a text", list: "a list", tuple: "a list", dict: "a mapping",
}  # fmt: skip
_Test = Callable[[Any], "str | None"]
"""Returns what is wrong with a value, whose type is right."""
_Tests = tuple[list[tuple[int, _Test]], Callable[[Any], Iterable[str]]]
"""Tests by place, and what reads the texts that have to be short."""
_tests: dict[tuple[type, ...], _Tests] = {}
"""Tests for the types that the fields of a noun have: of a million nouns, most have the
types of another one, and few fields need a look at their value."""
_MAX_TESTS = 2_000


class _Check(NamedTuple):
    """What a field may hold."""

    name: str
    kinds: frozenset[type]
    """None stands for anything."""
    choices: frozenset[str]
    is_short: bool
    is_nested: bool


def _tests_for(checks: Sequence[_Check], kinds: Sequence[type]) -> _Tests:
    """Return the tests for fields of some types; raises `UnreadableError` for a wrong type."""
    tests: list[tuple[int, _Test]] = []
    short: list[int] = []
    for place, (check, kind) in enumerate(zip(checks, kinds, strict=True)):
        if check.kinds and kind not in check.kinds:
            raise UnreadableError(f"{check.name} is {_SAID.get(kind, kind.__name__)}")
        if not check.kinds:
            continue
        if kind is str and check.choices:
            tests.append((place, partial(_not_chosen, check.choices)))
        elif kind is str and check.is_short:
            short.append(place)
        elif kind is int:
            tests.append((place, _too_large))
        elif kind is float:
            tests.append((place, _infinite))
        elif check.is_nested and kind is not NoneType:
            tests.append((place, _odd_part))
    return tests, itemgetter(*short) if len(short) > 1 else lambda values: [
        values[i] for i in short
    ]


def _not_chosen(choices: frozenset[str], text: str) -> str | None:
    return None if text in choices else f"is {text[:40]!r}, none of {', '.join(sorted(choices))}"


def _too_large(number: int) -> str | None:
    return None if -_INT64 <= number < _INT64 else "does not fit 64 bits"


def _infinite(number: float) -> str | None:
    return None if isfinite(number) else "is not finite"


def _odd_part(value: Any) -> None:
    for part in value if type(value) is tuple else (value,):
        if is_noun(part):
            checked(part)


@cache
def _checks(kind: Any) -> tuple[Callable[[Any], tuple[object, ...]], list[_Check]]:
    """Return what reads the fields of a class, and what they may hold, from its annotations."""
    hints, names, read = get_type_hints(kind), *_READERS[kind][:2]
    checks = []
    for name in names:
        kinds, choices = _kinds_of(hints[name])
        if name in _UNCHECKED.get(kind, ()):
            kinds = set()
        is_short = name not in _ANY_LENGTH.get(kind, ())
        is_nested = name in _NESTED[kind]
        checks.append(_Check(name, frozenset(kinds), frozenset(choices), is_short, is_nested))
    return read, checks


def _kinds_of(hint: Any) -> tuple[set[type], set[str]]:  # noqa: PLR0911
    """Return the types that an annotation stands for, none for any, and the words of a literal."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        parts = [_kinds_of(part) for part in get_args(hint)]
        if not all(kinds for kinds, _ in parts):
            return set(), set()
        return set().union(*(kinds for kinds, _ in parts)), set().union(*(w for _, w in parts))
    if origin is Literal:
        return {str}, set(get_args(hint))
    if hint is Any:
        return set(), set()
    if hint is float:
        return {float, int}, set()
    if origin is tuple:
        return {tuple}, set()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {dict}, set()
    return {NoneType if hint is None else hint}, set()
