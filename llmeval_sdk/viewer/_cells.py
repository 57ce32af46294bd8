"""The pieces of a page: a score as a cell, and a long text with the parts to look at marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.store.pages import Said
from llmeval_sdk.store.reasons import explain
from llmeval_sdk.store.said import has_abstained
from llmeval_sdk.text.terminal import number
from llmeval_sdk.viewer._render import MAX_TEXT


Tone = Literal["good", "fair", "bad", "plain", "quiet"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows for one evaluator on one span."""

    text: str
    tone: Tone = "plain"
    share: float | None = None
    """Length of the bar, from 0 to 1; ``None`` for a value that is not a share."""
    title: str = ""


def cell_of_said(said: Said) -> Cell:
    """Return the cell of a score whose value is written as the store holds it."""
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
    near_constant = values.is_near_constant(evaluation.metadata)
    return cell(evaluation.name, evaluation.value, evaluation.label, near_constant=near_constant)


def cells_of_said(scores: Mapping[str, Said]) -> dict[str, Cell]:
    """Return the cells of a span in a list.

    They have no colour if the record has no answer, because then no score is good or bad.
    """
    cells = {name: cell_of_said(score) for name, score in scores.items()}
    if not has_abstained({name: score.value for name, score in scores.items()}):
        return cells
    return {name: colourless(cell) for name, cell in cells.items()}


def colourless(cell: Cell) -> Cell:
    """Return a cell that is neither good nor bad."""
    if cell.tone == "quiet":
        return cell
    return replace(cell, tone="plain", title=cell.title or "The app gave no answer")


def cell(name: str, value: Any, label: str | None = None, *, near_constant: bool = False) -> Cell:
    """Return the cell of a value."""
    is_rated = not isinstance(value, str) and not values.is_unrated(name)
    if label and is_rated and values.is_neutral(label):
        shown = "Not applicable" if value is None else number(value)
        return Cell(label, "quiet", title=f"{shown}: {label}, neither good nor bad")
    if value is None:
        return Cell("n/a", "quiet", title="Not applicable")
    standing = values.standing(name, value, label)
    tone: Tone = "plain" if standing == "neutral" or near_constant else standing
    if near_constant:
        label = "neither good nor bad: nearly the same whatever was retrieved"
    if isinstance(value, bool):
        return Cell(values.word(value), tone)
    if isinstance(value, str):
        return Cell(value.replace("_", " "), tone, title=label or value)
    is_share = 0 <= value <= 1 and not values.is_measure(name)
    text = f"{value:.2f}" if is_share else number(value)
    return Cell(text, tone, value if is_share else None, label or "")


MAX_MARKS = 200
_BOX = 400, 10
"""How many characters and lines fit the smallest box, the one on a phone."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """As much of a text as a page shows, cut into marked and plain parts."""

    parts: tuple[tuple[str, bool], ...]
    """The parts in order, each with whether it is marked."""
    rest: int
    """How many characters are left out at the end."""

    @property
    def scrolls(self) -> bool:
        """Whether the text may need a scroll bar; its box must then be reachable by keyboard."""
        texts = [text for text, _ in self.parts]
        return sum(map(len, texts)) > _BOX[0] or sum(text.count("\n") for text in texts) > _BOX[1]


def marked(text: str, spans: Iterable[Sequence[int]] = (), limit: int = MAX_TEXT) -> MarkedText:
    """Cut a text into parts, marking the ranges ``[start, end]`` of its characters.

    Ranges that make no sense are ignored, and at most `MAX_MARKS` are used.
    """
    shown = text[:limit]
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in sorted(_usable(spans, len(shown)))[:MAX_MARKS]:
        if end > at:
            parts += [(shown[at : max(start, at)], False), (shown[max(start, at) : end], True)]
            at = end
    parts.append((shown[at:], False))
    return MarkedText(tuple((part, on) for part, on in parts if part), len(text) - len(shown))


def places(text: str, quotes: Iterable[str | None]) -> list[tuple[int, int]]:
    """Return the range of the first occurrence of each quote that the text contains."""
    ranges = []
    for quote in quotes:
        start = text.find(quote) if quote else -1
        if quote and start >= 0:
            ranges.append((start, start + len(quote)))
    return ranges


def _usable(spans: object, length: int) -> list[tuple[int, int]]:
    """Return what is a range of characters; stored metadata may hold anything else."""
    ranges = []
    for span in spans if isinstance(spans, Iterable) else ():
        if isinstance(span, (list, tuple)) and len(span) == 2:
            start, end = span
            if type(start) is int and type(end) is int and 0 <= start < end:
                ranges.append((start, min(end, length)))
    return ranges
