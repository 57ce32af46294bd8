"""``json_schema:FILE``: whether the answer is JSON of a certain form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics.expected._patterns import MOST_LETTERS, compiled, searched
from llmeval_sdk.heuristics.expected._texts import answer_of
from llmeval_sdk.model import Evaluation, Record


_NAME = "json_schema"
_MOST_MESSAGE = 300


def by_file(path: str) -> FunctionHeuristic[Evaluation | None]:
    """Make the heuristic of a file that holds a JSON Schema; see `of_schema`.

    Raises:
        ConfigurationError: there is no such file, it holds no schema, or the extra is missing.
    """
    if not path:
        raise ConfigurationError("json_schema needs a file, such as json_schema:answer.json")
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"json_schema: {path} cannot be read: {error}") from error
    return of_schema(schema)


def of_schema(schema: Mapping[str, Any]) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that says whether the answer is JSON that a schema allows.

    The answer is the response, which may stand in a Markdown fence, else the extracted value. The
    explanation says where the first error is. References to other files or addresses are not
    followed, and patterns are given up where an answer makes them slow: then there is no value.

    Args:
        schema: a JSON Schema; ``$schema`` names its draft, by default 2020-12.

    Raises:
        ConfigurationError: it is no schema, or the extra is not installed.
    """
    try:
        from jsonschema import exceptions, validators
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise ConfigurationError(
            "json_schema needs the package jsonschema: pip install 'llmeval-sdk[schemas]'"
        ) from error
    kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as error:
        raise ConfigurationError(f"json_schema: this is no schema: {error.message}") from error
    extend: Any = validators.extend
    bounded = extend(kind, {"pattern": _pattern, "patternProperties": _properties})
    validator = bounded(schema, registry=Registry())

    def evaluate(record: Record) -> Evaluation | None:
        answer = answer_of(record)
        if answer is None:
            return None
        if len(answer) > MOST_LETTERS:
            why = f"not checked: the answer is longer than {MOST_LETTERS:,} characters"
            return Evaluation(_NAME, explanation=why)
        try:
            fault = next(validator.iter_errors(json.loads(_unfenced(answer))), None)
        except TimeoutError:
            return Evaluation(_NAME, explanation="not checked: a pattern takes too long on it")
        except Unresolvable as error:
            return Evaluation(_NAME, explanation=f"not checked: {error!s:.200} is not followed")
        except (ValueError, RecursionError) as error:
            return Evaluation(_NAME, value=False, explanation=f"no JSON: {error!s:.200}")
        reason = None if fault is None else f"{fault.json_path}: {fault.message}"[:_MOST_MESSAGE]
        return Evaluation(_NAME, value=fault is None, explanation=reason)

    return FunctionHeuristic(evaluate, _NAME, needs=("response|value",), automatic=False)


def _unfenced(text: str) -> str:
    """Return what stands in the Markdown fence around a text, if there is one."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not searched(compiled(pattern, who=_NAME), instance):
        yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")


def _properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        search = compiled(pattern, who=_NAME)
        for key, value in instance.items():
            if searched(search, key):
                yield from validator.descend(value, schema, path=key, schema_path=pattern)
