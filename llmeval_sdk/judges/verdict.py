"""The one strict reader of verdicts: a reply fits its form to the letter, or it is malformed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model.json_object import NoObjectError, only_object


RATIONALE_CHARACTERS = 4000
"""How much of a rationale is kept."""


@dataclass(frozen=True, slots=True)
class VerdictForm:
    """What a judge has to fill in: a JSON schema for the server, and its words for the model."""

    schema: Mapping[str, Any]
    words: str


def form(words: str, **properties: Mapping[str, Any]) -> VerdictForm:
    """Build a form in the dialect of JSON schema that every strict mode takes."""
    return VerdictForm(_object(properties), words)


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
NUMBER = {"type": "number"}

YES_NO = form(
    '"rationale": a short text that gives the reason first; "rating": "yes" or "no".',
    rationale=TEXT,
    rating={"type": "string", "enum": ["yes", "no"]},
)
SCORE = form(
    '"rationale": a short text that gives the reason first; "score": a number from 0 to 1.',
    rationale=TEXT,
    score=NUMBER,
)
RECALL = form(
    '"reason": a text with specifics, first; "context_recall_score": a number from 0.0 to 1.0.',
    reason=TEXT,
    context_recall_score=NUMBER,
)
FACTS = form(
    '"facts": for each expected fact, in order, its "number" and whether the response states it, '
    '"stated": "yes" or "no"; "rationale": a short text that says what is missing, if anything is.',
    facts={
        "type": "array",
        "items": _object(
            {"number": {"type": "integer"}, "stated": {"type": "string", "enum": ["yes", "no"]}}
        ),
    },
    rationale=TEXT,
)


def category(*names: str) -> VerdictForm:
    """Build the form of a judge that sorts into categories."""
    choice = ", ".join(f'"{name}"' for name in names)
    return form(
        f'"rationale": a short text that gives the reason first; "rating": one of {choice}.',
        rationale=TEXT,
        rating={"type": "string", "enum": list(names)},
    )


def score_of(levels: Sequence[str]) -> VerdictForm:
    """Build the form of a score whose levels have names, at equal distances from 0 to 1."""
    last = len(levels) - 1
    named = ", ".join(f"{place / last:.3g} {level}" for place, level in enumerate(levels))
    return VerdictForm(SCORE.schema, f"{SCORE.words} Levels of the score: {named}.")


def read(text: str, form: VerdictForm) -> dict[str, Any]:
    """Read a filled-in form; words of an enum may differ in case.

    Raises:
        JudgeError: ``malformed``: anything else than exactly one object that fits.
    """
    try:
        answer = only_object(text)
    except NoObjectError as problem:
        raise JudgeError("malformed", str(problem)) from None
    fitted: dict[str, Any] = _fit(answer, form.schema, "the verdict")
    return fitted


def in_range(score: float, low: float = 0.0, high: float = 1.0) -> float:
    """Return a score as it is; raises `JudgeError` (``malformed``) outside its range."""
    if not low <= score <= high:
        raise JudgeError("malformed", f"the score {score:g} is not in {low:g}..{high:g}")
    return score + 0.0  # minus zero becomes zero


def _fit(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    kind = schema["type"]
    if kind == "object" and type(value) is dict:
        properties = schema["properties"]
        if value.keys() != properties.keys():
            raise JudgeError("malformed", f"{where} must have exactly the keys {list(properties)}")
        return {key: _fit(value[key], properties[key], f"{key!r}") for key in properties}
    if kind == "array" and type(value) is list:
        return [_fit(item, schema["items"], f"an item of {where}") for item in value]
    if kind == "string" and type(value) is str:
        return _fit_text(value, schema.get("enum"), where)
    if kind == "integer" and type(value) is int:
        return value
    if kind == "number" and type(value) in (int, float) and _is_reasonable(value):
        return float(value)
    raise JudgeError("malformed", f"{where} must be a {kind}")


def _fit_text(value: str, words: list[str] | None, where: str) -> str:
    if words is None:
        return value[:RATIONALE_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    said = value.strip().casefold()
    for word in words:
        if word.casefold() == said:
            return word
    raise JudgeError("malformed", f"{where} must be one of {words}")


def _is_reasonable(value: float) -> bool:
    return -1e15 < value < 1e15 and math.isfinite(value)
