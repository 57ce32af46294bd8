"""What stands in the place of a value that was not read, and never counts as evidence.

Capturing writes a text such as ``<generator, not read>`` where a value is no text, number or
container of these. It is marked by its type, because an app may answer with the very same text.
When a span ends, its attribute `NOT_READ` says where such texts stand in its answer and passages.
In every file and on every wire they are plain texts, and the attribute goes with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class Placeholder(str):
    """A text that stands for a value that was not read."""

    __slots__ = ()


NOT_READ = "llmeval.not_read"
"""The attribute of a span that says what of it was not read. It is a list of paths, which are lists
that begin with the name of a field: ``["response", "photo"]``, ``["retrieved_context", 2]``."""
Path = list[str | int]
_MAX_PATHS = 100
"""Of a field with more placeholders, nothing counts."""
_MAX_DEPTH = 20
_NOTHING_LEFT = object()


def evidence(value: object) -> Any:
    """Return what of a captured value may be scored: all but its placeholders.

    ``None`` is returned where nothing else was in it. A value without placeholders comes back
    itself.
    """
    kept = _without(value, _MAX_DEPTH)
    return None if kept is _NOTHING_LEFT else kept


def _without(value: Any, depth: int) -> Any:
    cls: Any = type(value)
    kept: Any
    if cls is Placeholder:
        return _NOTHING_LEFT
    if not depth or not value:
        return value
    if cls is dict:
        pairs = [
            (key, _without(item, depth - 1))
            for key, item in value.items()
            if type(key) is not Placeholder
        ]
        kept = {key: item for key, item in pairs if item is not _NOTHING_LEFT}
        is_same = len(kept) == len(value) and all(kept[key] is value[key] for key in kept)
    elif cls is list or cls is tuple:
        items = [_without(item, depth - 1) for item in value]
        kept = cls(item for item in items if item is not _NOTHING_LEFT)
        is_same = len(kept) == len(value) and all(
            one is other for one, other in zip(kept, value, strict=True)
        )
    else:
        return value
    return value if is_same else kept or _NOTHING_LEFT


def paths_in(name: str, value: Any) -> list[Path]:
    """Return where placeholders stand in a field of a span that is a captured value."""
    paths = [[name, *path] for path in _paths(value)]
    return paths if len(paths) <= _MAX_PATHS else [[name]]


def _paths(value: Any) -> Iterator[Path]:
    cls = type(value)
    if cls is Placeholder:
        yield []
    elif cls is dict:
        for key, item in value.items():
            if type(key) is Placeholder:
                yield [str(key)]
            for path in _paths(item):
                yield [str(key), *path]
    elif cls is list:
        for place, item in enumerate(value):
            for path in _paths(item):
                yield [place, *path]


def without_paths(name: str, value: Any, paths: object) -> Any:
    """Return what of a field may be scored, by the attribute `NOT_READ`, whoever wrote that."""
    for path in _of_field(name, paths):
        value = _marked(value, path[1:_MAX_DEPTH])
    return evidence(value)


def places(name: str, paths: object) -> frozenset[object]:
    """Return the places of a list of passages or extractions that were not read."""
    return frozenset(
        path[1] for path in _of_field(name, paths) if len(path) > 1 and type(path[1]) is int
    )


def _of_field(name: str, paths: object) -> Iterable[Any]:
    if type(paths) is not list and type(paths) is not tuple:
        return
    for path in paths[: 4 * _MAX_PATHS]:
        if type(path) in (list, tuple) and path and path[0] == name:
            yield path


def _marked(value: Any, path: Any) -> Any:
    if not path:
        return Placeholder("<not read>")
    key, rest = path[0], path[1:]
    if type(value) is dict and type(key) is str and key in value:
        return {**value, key: _marked(value[key], rest)}
    if type(value) is list and type(key) is int and 0 <= key < len(value):
        return [*value[:key], _marked(value[key], rest), *value[key + 1 :]]
    return value


def plain_text(value: Any) -> Any:
    """Return a captured value with plain texts in the place of placeholders."""
    cls: Any = type(value)
    if cls is Placeholder:
        return str(value)
    if cls is dict:
        return {plain_text(key): plain_text(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(plain_text(item) for item in value)
    return value
