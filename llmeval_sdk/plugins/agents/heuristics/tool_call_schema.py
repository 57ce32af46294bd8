"""`tool_call_schema`: tool calls that the definition of the tool does not allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmeval_sdk.model.runs import Run, ToolCall
from llmeval_sdk.plugins.agents.heuristics import Scored, at, counted, of_a_run
from llmeval_sdk.text.budget import WorkBudget


_MAX_DEPTH = 8
_MAX_ITEMS = 200


def _score(run: Run) -> Scored:
    """Return how many tool calls break the schemas of the tools; none where these are not known.

    A call breaks them if its tool was not offered, or if an argument is missing, unexpected, of
    another type, or outside its enumeration.
    """
    if not run.schemas:
        return None, (), None
    return counted(_violations(run))


def _violations(run: Run) -> Iterator[tuple[int, str]]:
    budget = WorkBudget()
    for call in run.made:
        problem = _problem(call, run.schemas, budget)
        if problem is not None:
            yield call.number, at(call.number, call.step.name, problem)


def _problem(call: ToolCall, schemas: Mapping[str, Any], budget: WorkBudget) -> str | None:
    """Say what the schema of a call's tool does not allow; ``None`` where all is well."""
    name, arguments = call.step.name or "", call.step.arguments
    if name not in schemas:
        return "was not offered"
    schema = schemas[name]
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not isinstance(arguments, dict):
        return None if arguments is None and not required else "was called with no object"
    missing = [key for key in required if key not in arguments]
    if missing:
        return f"was called without {missing[0]!s:.80}"
    for key, value in arguments.items():
        if key not in properties:
            if not schema.get("additionalProperties"):
                return f"has no argument {key!s:.80}"
        elif not fits(value, properties[key], budget) and not (
            value is None and key not in required
        ):
            return f"takes another value of {key!s:.80}"
    return None


def fits(value: Any, schema: Any, budget: WorkBudget, depth: int = 0) -> bool:  # noqa: C901, PLR0911
    """Say whether a value fits the part of JSON Schema that tools use; what is unknown fits."""
    budget.spend(10)
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return True
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, (list, tuple)):
        return any(fits(value, choice, budget, depth + 1) for choice in choices[:_MAX_ITEMS])
    if isinstance(schema.get("enum"), (list, tuple)) and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)):
        return any(fits(value, {**schema, "type": one}, budget, depth + 1) for one in kind)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "integer":
        return is_number and float(value).is_integer()
    if kind == "number":
        return is_number
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    if kind == "array":
        items = schema.get("items")
        return isinstance(value, (list, tuple)) and all(
            fits(item, items, budget, depth + 1) for item in value[:_MAX_ITEMS]
        )
    if kind == "object":
        return isinstance(value, dict) and _fits_object(value, schema, budget, depth)
    return True


def _fits_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], budget: WorkBudget, depth: int
) -> bool:
    properties = schema.get("properties") or {}
    return all(key in value for key in schema.get("required") or ()) and all(
        fits(held, properties.get(key), budget, depth + 1)
        for key, held in list(value.items())[:_MAX_ITEMS]
    )


tool_call_schema = of_a_run(_score, "tool_call_schema")
