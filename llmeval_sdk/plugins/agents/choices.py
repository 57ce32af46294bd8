"""Which values the definition of a tool offers for its arguments: those nobody has to make up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any


_DEEPEST = 8
_MOST_FORMS = 500
"""Parts of the schema of one tool that are read."""
_MOST_VALUES = 1_000
_LONGEST_DESCRIPTION = 4_000
_BRANCHES = ("anyOf", "oneOf", "allOf")


class Choices:
    """The values that the schema of a tool's parameters names, by the names of the arguments.

    It names them in an enumeration, as a constant, a default or an example, or in the description
    of the argument; in a part of the schema, behind a reference, or inside of another argument.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._forms: dict[str, list[Mapping[str, Any]]] = {}
        """The parts of the schema that describe an argument, and the branches of these."""
        self._closed: set[str] = set()
        """The arguments that have an enumeration of their own: all of their values are choices."""
        self._left = _MOST_FORMS
        self._read_object(schema, 0)

    def has(self, name: str, value: Any) -> bool:
        """Say whether a value of an argument is one that the schema names."""
        if name in self._closed:
            return True
        return any(_names(form, value) for form in self._forms.get(name, ()))

    def _read_object(self, form: Any, depth: int) -> None:
        properties = form.get("properties") if isinstance(form, Mapping) else None
        for name, inner in (properties or {}).items() if isinstance(properties, Mapping) else ():
            if isinstance(inner, Mapping) and isinstance(inner.get("enum"), (list, tuple)):
                self._closed.add(str(name))
            self._read(str(name), inner, depth + 1)

    def _read(self, name: str, form: Any, depth: int) -> None:
        """Take in what describes an argument: the part itself, its branches, items and insides."""
        if not isinstance(form, Mapping) or depth > _DEEPEST or self._left <= 0:
            return
        self._left -= 1
        self._forms.setdefault(name, []).append(form)
        for branch in self._branches(form):
            self._read(name, branch, depth + 1)
        self._read_object(form, depth)

    def _branches(self, form: Mapping[str, Any]) -> Iterator[Any]:
        for key in _BRANCHES:
            held = form.get(key)
            yield from held[:_MOST_FORMS] if isinstance(held, (list, tuple)) else ()
        yield form.get("items")
        place = form.get("$ref")
        if isinstance(place, str) and place.startswith("#/"):
            target: Any = self._schema
            for key in place[2:].split("/")[:_DEEPEST]:
                target = target.get(key) if isinstance(target, Mapping) else None
            yield target


def _names(form: Mapping[str, Any], value: Any) -> bool:
    if any(key in form and form[key] == value for key in ("const", "default", "example")):
        return True
    for key in ("enum", "examples"):
        held = form.get(key)
        if isinstance(held, (list, tuple)) and value in held[:_MOST_VALUES]:
            return True
    described, word = form.get("description"), str(value).strip()
    if not isinstance(described, str) or not 2 <= len(word) <= _LONGEST_DESCRIPTION:
        return False
    stands = rf"(?<!\w){re.escape(word)}(?!\w)"
    return re.search(stands, described[:_LONGEST_DESCRIPTION], re.IGNORECASE) is not None
