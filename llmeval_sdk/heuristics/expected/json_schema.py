"""``json_schema:FILE``: whether the answer is JSON of a certain form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics.expected._ground_truth import compiled, of_answer, searched, unrated
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation
from llmeval_sdk.process.reading import read_file


_NAME = "json_schema"
_MAX_MESSAGE = 300
SECONDS = 1.0
"""How long a check may take, with all its patterns."""
_ends_at: ContextVar[float] = ContextVar("llmeval_json_schema_ends_at")
_UNBOUNDED = ("additionalProperties", "unevaluatedProperties")
"""Beside ``patternProperties`` these search with patterns that have no deadline."""


def by_file(path: str) -> FunctionHeuristic[Evaluation | None]:
    """Make the heuristic of a file that holds a JSON Schema; see `of_schema`.

    Raises:
        ConfigurationError: there is no such file, it holds no schema, or the extra is missing.
    """
    if not path:
        raise ConfigurationError("json_schema needs a file, such as json_schema:answer.json")
    try:
        schema = json.loads(read_file(path))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"json_schema: {path} cannot be read: {error}") from error
    return of_schema(schema)


def of_schema(schema: Mapping[str, object]) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that says whether the answer is JSON that a schema allows.

    The answer is the response, which may stand in a Markdown fence, else the extracted value. The
    explanation says where the first error is. References to other files or addresses are not
    followed, and a check that takes longer than a second is given up: then there is an error.

    Args:
        schema: a JSON Schema; ``$schema`` names its draft, by default 2020-12.

    Raises:
        ConfigurationError: it is no schema, its patterns cannot be given a deadline, or the extra
            is not installed.
    """
    try:
        from jsonschema import exceptions, validators
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise ConfigurationError(
            "json_schema needs the package jsonschema: pip install 'llmeval-inprocess[schemas]'"
        ) from error
    kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as error:
        raise ConfigurationError(f"json_schema: this is no schema: {error.message}") from error
    names = set(_keywords(schema))
    if "patternProperties" in names and names.intersection(_UNBOUNDED):
        raise ConfigurationError(
            f"json_schema: patternProperties cannot stand beside {' or '.join(_UNBOUNDED)}: an "
            "answer could make the check take for ever"
        )
    extend: Any = validators.extend
    bounded = {"pattern": _pattern, "patternProperties": _properties, "uniqueItems": _unique}
    validator = extend(kind, bounded)(schema, registry=Registry())

    def check(answer: str) -> Evaluation:
        try:
            instance = json.loads(_unfenced(answer), parse_float=_number)
        except (ValueError, RecursionError) as error:
            return Evaluation(_NAME, value=False, explanation=f"no JSON: {error!s:.200}")
        _ends_at.set(monotonic() + SECONDS)
        try:
            fault = next(validator.iter_errors(instance), None)
        except TimeoutError:
            why = f"not checked: it takes longer than {SECONDS:g} s, or a pattern too long"
            return unrated(_NAME, "timeout", why)
        except Unresolvable as error:
            return unrated(_NAME, "unresolvable", f"not checked: {error!s:.200} is not followed")
        except RecursionError:
            return unrated(_NAME, "too_deep", "not checked: the answer is nested too deeply")
        reason = None if fault is None else f"{fault.json_path}: {fault.message}"[:_MAX_MESSAGE]
        return Evaluation(_NAME, value=fault is None, explanation=reason)

    return of_answer(_NAME, check, "not checked")


def _unfenced(text: str) -> str:
    """Return what stands in the Markdown fence around a text, if there is one."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text


def _keywords(schema: object) -> Iterator[str]:
    """Yield every name in a schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _number(text: str) -> float | int:
    """Read a number; 1.0 is the integer 1, as JSON Schema has it."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _found(pattern: object, text: str) -> bool:
    if monotonic() > _ends_at.get():
        raise TimeoutError
    return searched(pattern, text) is not None


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[object]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not _found(compiled(pattern, who=_NAME), instance):
        yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")


def _properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[object]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        search = compiled(pattern, who=_NAME)
        for key, value in instance.items():
            if _found(search, key):
                yield from validator.descend(value, schema, path=key, schema_path=pattern)


def _unique(
    _validator: object, is_wanted: object, instance: object, _schema: object
) -> Iterator[object]:
    """Compare items by their text: each with each would take minutes."""
    from jsonschema.exceptions import ValidationError

    if is_wanted and isinstance(instance, list):
        texts = {json.dumps(item, sort_keys=True) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("it has items that are the same")
