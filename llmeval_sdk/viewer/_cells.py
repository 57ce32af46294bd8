"""Scores as cells: a text, how good that is, and how long its bar is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from llmeval_sdk._terminal import number
from llmeval_sdk.model import Evaluation
from llmeval_sdk.store.pages import Said
from llmeval_sdk.store.reasons import explain


Tone = Literal["good", "fair", "bad", "plain", "quiet"]

_GOOD = frozenset({"yes", "pass", "good", "unanimous", "up", "true", "right"})
_FAIR = frozenset({"acceptable", "majority", "mixed", "HIGH_THRESHOLD_FILTERING"})
_BAD = frozenset({
    "no", "fail", "investigate", "conflicting", "down", "false", "wrong", "invented",
    "HIT_RETRIEVAL_LIMIT",
})  # fmt: skip
_MEASURES = ("_count", "_seconds")
"""Endings of names whose numbers are no scores."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows for one evaluator on one span."""

    text: str
    tone: Tone = "plain"
    share: float | None = None
    """Length of the bar, 0..1; ``None`` where the value is no share."""
    title: str = ""


def high_is_bad(name: str) -> bool:
    """Say whether the highest scores of an evaluator are the worst."""
    return name.endswith(("_risk", *_MEASURES))


def cell_of_said(said: Said) -> Cell:
    """Return the cell of a score in a list; its value is as it is stored."""
    if said.reason is not None:
        words = said.reason.replace("_", " ")
        return Cell(words, "quiet", title=f"Did not run. {explain(said.reason).meaning}")
    if said.error is not None:
        return Cell(said.error, "bad", title="The evaluator failed")
    value = bool(said.value) if type(said.value) is int else said.value
    return cell(said.name, value, said.label)


def cell_of(evaluation: Evaluation) -> Cell:
    """Return the cell of an evaluation."""
    if evaluation.error is not None:
        return Cell(evaluation.error.type, "bad", title="The evaluator failed")
    return cell(evaluation.name, evaluation.value, evaluation.label)


def cell(name: str, value: Any, label: str | None = None) -> Cell:
    """Return the cell of a value."""
    if value is None:
        return Cell("n/a", "quiet", title="Not applicable")
    if isinstance(value, bool):
        return Cell("pass" if value else "fail", "good" if value else "bad")
    if isinstance(value, str):
        return Cell(value.replace("_", " "), _tone_of_word(value), title=label or value)
    is_share = 0 <= value <= 1 and not name.endswith(_MEASURES)
    return Cell(
        f"{value:.2f}" if is_share else number(value),
        _tone_of_number(name, value) if is_share else "plain",
        value if is_share else None,
        label or "",
    )


def _tone_of_word(word: str) -> Tone:
    return (
        "good" if word in _GOOD else "fair" if word in _FAIR else "bad" if word in _BAD else "plain"
    )


def _tone_of_number(name: str, value: float) -> Tone:
    good = 1 - value if high_is_bad(name) else value
    return "good" if good > 0.7 else "fair" if good >= 0.4 else "bad"
