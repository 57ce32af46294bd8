"""What the schema of an answer says about its fields: their descriptions.

An app often has a schema already: the class that a function returns, the ``response_format`` of a
request, or the parameters of the one tool that the model was offered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from llmeval_sdk.model._nouns import Record
from llmeval_sdk.model.structure import (
    MAX_DEPTH,
    MAX_FIELDS,
    config_of,
    is_one_field,
    is_structured,
)


MAX_DESCRIPTION = 300
"""Characters of a description that are kept."""
_MAX_PARTS = 20_000
"""Parts of a schema that are visited: it may refer to itself."""

Descriptions = dict[str, str]
"""The description of each field, by its path as all items of its lists have it."""
_Schema = Mapping[str, object]


def described(record: Record, function: Callable[..., object] | None = None) -> Record:
    """Return a record whose ``field_config`` also has what a schema says about its fields.

    What the app's own ``field_config`` says about a field comes first.

    Args:
        record: A record; one whose answer has no structure is returned as it is.
        function: The app's function that returned the answer, whose annotation is read.
    """
    if is_one_field(record):
        return record
    schema = _schema_in(record.request)
    if (schema is None and function is None) or not is_structured(record):
        return record
    known = descriptions_in(schema) if schema is not None else {}
    if function is not None:
        known = {**known, **descriptions_of(function)}
    if not known:
        return record
    own = dict(config_of(record))
    for path, description in known.items():
        about = own.get(path)
        about = about if isinstance(about, Mapping) else {}
        own[path] = {"description": description, **about}
    return replace(record, field_config=own)


def _schema_in(request: object) -> _Schema | None:
    """Return the schema of the answer that a request to a model asks for, if it names one."""
    if not isinstance(request, Mapping):
        return None
    text = request.get("text")
    for holder in (request.get("response_format"), _get(text, "format")):
        schema = _get(_get(holder, "json_schema"), "schema") or _get(holder, "schema")
        if isinstance(schema, Mapping):
            return schema
    tools = request.get("tools")
    if isinstance(tools, (list, tuple)) and len(tools) == 1:
        for holder in (_get(tools[0], "function"), tools[0]):
            schema = _get(holder, "parameters") or _get(holder, "input_schema")
            if isinstance(schema, Mapping):
                return schema
    return None


def _get(holder: object, key: str) -> object:
    return holder.get(key) if isinstance(holder, Mapping) else None


def descriptions_in(schema: _Schema) -> Descriptions:
    """Return the descriptions of the fields of a JSON schema; at most 500 are read."""
    descriptions: Descriptions = {}
    for path, description in _walk(schema, schema, "", 0, [_MAX_PARTS]):
        descriptions.setdefault(path, description)
        if len(descriptions) == MAX_FIELDS:
            break
    return descriptions


def _walk(
    node: object, root: _Schema, path: str, depth: int, room: list[int]
) -> Iterator[tuple[str, str]]:
    room[0] -= 1
    if room[0] < 0 or depth > MAX_DEPTH or not isinstance(node, Mapping):
        return
    yield from _said(path, node.get("description"))
    reference = node.get("$ref")
    if isinstance(reference, str):
        yield from _walk(_resolved(reference, root), root, path, depth + 1, room)
    for key in ("anyOf", "oneOf", "allOf"):
        choices = node.get(key)
        for choice in choices if isinstance(choices, (list, tuple)) else ():
            yield from _walk(choice, root, path, depth + 1, room)
    yield from _walk(node.get("items"), root, path, depth + 1, room)
    properties = node.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield from _walk(inner, root, _below(path, name), depth + 1, room)


def _resolved(reference: str, root: _Schema) -> object:
    """Return what a reference inside a schema, such as ``#/$defs/Line``, stands for."""
    node: object = root
    for part in reference.removeprefix("#/").split("/")[:MAX_DEPTH]:
        node = _get(node, part)
    return node


_known: dict[Callable[..., object], Descriptions] = {}
_MAX_KNOWN = 1_000
"""Functions whose annotation is remembered."""


def descriptions_of(function: Callable[..., object]) -> Descriptions:
    """Return the descriptions of the fields of what a function returns, by its annotation.

    They come from the schema of a pydantic model, from ``Annotated[str, "…"]``, or from the
    ``description`` in the metadata of a dataclass's field. The annotation is read once.
    """
    try:
        if function not in _known:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[function] = _of_annotation(function)
        return _known[function]
    except (KeyError, TypeError):  # another thread made room, or the function cannot be a key
        return _of_annotation(function)


def _of_annotation(function: Callable[..., object]) -> Descriptions:
    try:
        returned = get_type_hints(inspect.unwrap(function), include_extras=True).get("return")
        return dict(_fields_of_type(returned, "", 0, [_MAX_PARTS]))
    except Exception:  # the app's code, which may name what only a type checker imports, or raise
        return {}


def _fields_of_type(kind: Any, path: str, depth: int, room: list[int]) -> Iterator[tuple[str, str]]:
    room[0] -= 1
    if room[0] < 0 or depth > MAX_DEPTH:
        return
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        yield from _said(path, next((note for note in notes if isinstance(note, str)), None))
    for argument in get_args(kind):
        yield from _fields_of_type(argument, path, depth + 1, room)
    if not isinstance(kind, type):
        return
    schema = getattr(kind, "model_json_schema", None)
    if callable(schema):
        for inner, description in descriptions_in(schema()).items():
            yield _below(path, inner), description
    elif is_dataclass(kind) or hasattr(kind, "__required_keys__"):
        yield from _fields_of_class(kind, path, depth, room)


def _fields_of_class(
    kind: type, path: str, depth: int, room: list[int]
) -> Iterator[tuple[str, str]]:
    """Yield the fields of a data class or a typed dictionary."""
    own = fields(kind) if is_dataclass(kind) else ()
    said = {one.name: one.metadata.get("description") for one in own}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        below = _below(path, name)
        yield from _said(below, said.get(name))
        yield from _fields_of_type(hint, below, depth + 1, room)


def _said(path: str, description: object) -> Iterator[tuple[str, str]]:
    if path and isinstance(description, str) and description.strip():
        yield path, description.strip()[:MAX_DESCRIPTION]


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
