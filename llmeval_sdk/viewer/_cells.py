"""Scores as cells: a text, how good that is, and how long its bar is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from llmeval_sdk import _values
from llmeval_sdk._terminal import number
from llmeval_sdk.model import Evaluation
from llmeval_sdk.store.pages import Said
from llmeval_sdk.store.reasons import explain


Tone = Literal["good", "fair", "bad", "plain", "quiet"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows for one evaluator on one span."""

    text: str
    tone: Tone = "plain"
    share: float | None = None
    """Length of the bar, 0..1; ``None`` where the value is no share."""
    title: str = ""


def cell_of_said(said: Said) -> Cell:
    """Return the cell of a score in a list; its value is as it is stored."""
    if said.reason is not None:
        words = said.reason.replace("_", " ")
        return Cell(words, "quiet", title=f"Did not run. {explain(said.reason).meaning}")
    if said.error is not None:
        return Cell(said.error, "bad", title="The evaluator failed")
    value = bool(said.value) if type(said.value) is int else said.value
    return cell(said.name, value, said.label, near_constant=said.near_constant)


def cell_of(evaluation: Evaluation) -> Cell:
    """Return the cell of an evaluation."""
    if evaluation.error is not None:
        return Cell(evaluation.error.type, "bad", title="The evaluator failed")
    near_constant = _values.is_near_constant(evaluation.metadata)
    return cell(evaluation.name, evaluation.value, evaluation.label, near_constant=near_constant)


def cells_of_said(scores: Mapping[str, Said]) -> dict[str, Cell]:
    """Return the cells of a span in a list; those of a record without an answer have no colour."""
    cells = {name: cell_of_said(said) for name, said in scores.items()}
    abstention = scores.get(_values.ABSTENTION)
    if abstention is None or abstention.value is None:
        return cells
    return {name: colourless(cell) for name, cell in cells.items()}


def colourless(cell: Cell) -> Cell:
    """Return a cell that is neither good nor bad."""
    if cell.tone == "quiet":
        return cell
    return replace(cell, tone="plain", title=cell.title or "The app gave no answer")


def cell(name: str, value: Any, label: str | None = None, *, near_constant: bool = False) -> Cell:
    """Return the cell of a value."""
    is_rated = not isinstance(value, str) and not _values.is_unrated(name)
    if label and is_rated and _values.is_neutral(label):
        said = "Not applicable" if value is None else number(value)
        return Cell(label, "quiet", title=f"{said}: {label}, neither good nor bad")
    if value is None:
        return Cell("n/a", "quiet", title="Not applicable")
    standing = _values.standing(name, value, label)
    tone: Tone = "plain" if standing == "neutral" or near_constant else standing
    if near_constant:
        label = "neither good nor bad: nearly the same whatever was retrieved"
    if isinstance(value, bool):
        return Cell(_values.word(value), tone)
    if isinstance(value, str):
        return Cell(value.replace("_", " "), tone, title=label or value)
    is_share = 0 <= value <= 1 and not _values.is_measure(name)
    text = f"{value:.2f}" if is_share else number(value)
    return Cell(text, tone, value if is_share else None, label or "")
