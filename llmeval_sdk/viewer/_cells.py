"""The pieces of a page: a score as a cell, and a long text with the parts to look at marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from markdown_it import MarkdownIt
from markupsafe import Markup

from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.model.chat import both_ends, steps_of
from llmeval_sdk.store.reasons import explain
from llmeval_sdk.store.span_lists import ListedOutcome
from llmeval_sdk.store.traffic import has_abstained
from llmeval_sdk.text.terminal import number
from llmeval_sdk.viewer._render import MAX_TEXT


# Markdown as a page shows it: what a model wrote is formatted, and nothing of it is obeyed.
#
# HTML in the text stays text. Links and images stay as they were written, so that no answer can
# lead a reader elsewhere or tell a stranger that it was read.

MOST_TEXT = 8_000
"""A longer text is shown as it was written. Some texts of 20,000 characters take seconds."""
MOST_LINES = 200
_MOST_COLUMNS = 20
_MARKUP = re.compile(
    r"^ {0,3}(?:#{1,6} |[-*+] |\d{1,3}[.)] |> |```|~~~|\|.*\|)|\*\*\S|`[^`\n]+`", re.MULTILINE
)
_PARSER = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 12})
    .enable(["table", "strikethrough"])
    .disable(["html_inline", "html_block", "link", "image", "autolink", "reference", "entity"])
)


def rendered(text: str) -> Markup | None:
    """Return a text formatted as its Markdown asks.

    ``None`` is returned for a text without Markdown, or with more of it than a page has time for.
    """
    lines = text.split("\n")
    if len(text) > MOST_TEXT or len(lines) > MOST_LINES or _MARKUP.search(text) is None:
        return None
    if max(line.count("|") for line in lines) > _MOST_COLUMNS:
        return None
    return Markup(_PARSER.render(text))  # noqa: S704 - the parser escapes what it does not format


Tone = Literal["good", "fair", "bad", "plain", "quiet"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows for one evaluator on one span."""

    text: str
    tone: Tone = "plain"
    share: float | None = None
    """Length of the bar, from 0 to 1; ``None`` for a value that is not a share."""
    title: str = ""


def cell_of_said(said: ListedOutcome) -> Cell:
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


def cells_of_said(scores: Mapping[str, ListedOutcome]) -> dict[str, Cell]:
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


# Values as a tree whose branches a reader can fold, bounded in depth, number and length.

MOST_NODES = 300
"""Values that one tree shows."""
_MOST_IN_ONE = 100
"""Values of one mapping or list that are shown."""
_MOST_DEPTH = 8
_MOST_FOLDED = 2_000
_READ_TEXT = 60_000
"""A text of at most so many characters is read as JSON where it looks like an object or a list."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value: a text, or a mapping or list with the values in it."""

    name: str
    """Its key in a mapping, or its number in a list; empty at the top."""
    text: MarkedText | None
    """What the page shows; ``None`` for a mapping or a list."""
    summary: str
    """Says how much a mapping or list holds."""
    nodes: tuple[Node, ...]
    left_out: int
    """How many values of a mapping or list are not in ``nodes``."""
    is_open: bool
    """Whether the branch is unfolded at first."""


def folded(value: Any) -> Node:
    """Return a value as a tree; a text that is JSON of an object or a list is one, too."""
    return _node("", read(value), [MOST_NODES], 0)


def read(value: Any) -> Any:
    """Return the object or list that a text holds as JSON; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) <= _READ_TEXT:
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _node(name: str, value: Any, room: list[int], depth: int) -> Node:
    room[0] -= 1
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        return Node(name[:200], marked(_text(value), limit=_MOST_FOLDED), "", (), 0, is_open=False)
    if isinstance(value, Mapping):
        items = [(str(key), held) for key, held in value.items()]
        summary = f"{len(items):,} {'field' if len(items) == 1 else 'fields'}"
    else:
        items = [(str(number), held) for number, held in enumerate(value, 1)]
        summary = f"{len(items):,} {'item' if len(items) == 1 else 'items'}"
    nodes = []
    if depth < _MOST_DEPTH:
        for key, held in items[:_MOST_IN_ONE]:
            if room[0] <= 0:
                break
            nodes.append(_node(key, held, room, depth + 1))
    left_out = len(items) - len(nodes)
    is_open = depth == 0 or (depth == 1 and len(items) <= 5)
    return Node(name[:200], None, summary, tuple(nodes), left_out, is_open)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What was asked or answered, in the form in which a person reads it best.
#
# Messages of a chat are shown as turns, Markdown is formatted, other values are trees that fold,
# and any other text is shown as it was written. A link always leads to the whole as it was
# captured.

MOST_MESSAGES = 40
_MOST_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat, or a call of a tool in it."""

    role: str
    name: str
    """The name of the tool; empty for a message."""
    content: Content | None
    arguments: Node | None
    result: Node | None
    error: str


@dataclass(frozen=True, slots=True)
class Content:
    """A value as a page shows it; exactly one of the first four fields is set."""

    text: MarkedText | None = None
    formatted: Markup | None = None
    tree: Node | None = None
    messages: tuple[ChatMessage, ...] = ()
    left_out: int = 0
    """How many messages in the middle are not shown."""
    others: Node | None = None
    """The fields of a request other than its messages."""


def content_of(value: Any, marks: Iterable[Sequence[int]] = ()) -> Content:
    """Return what a page shows of a captured value; ``marks`` are ranges of a text to mark."""
    value = value if marks else read(value)
    if isinstance(value, str):
        return text_content(value, marks)
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(messages, list) and any(_is_message(message) for message in messages):
        return _chat(value, messages)
    if isinstance(value, (Mapping, list, tuple)) and value:
        return Content(tree=folded(value))
    return Content(text=folded(value).text)


def text_content(text: str, marks: Iterable[Sequence[int]] = (), limit: int = 20_000) -> Content:
    """Return a text, formatted if it is Markdown and no part of it is to be marked."""
    formatted = None if marks else rendered(text)
    if formatted is not None:
        return Content(formatted=formatted)
    return Content(text=marked(text, marks, limit))


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and not {"role", "type", "from"}.isdisjoint(message)


def _chat(value: Any, messages: list[Any]) -> Content:
    steps = steps_of(messages)
    if steps is None:
        return Content(tree=folded(value))
    shown = both_ends(steps, MOST_MESSAGES)
    others = {}
    if isinstance(value, Mapping):
        others = {key: held for key, held in value.items() if key != "messages"}
    return Content(
        messages=tuple(
            ChatMessage(
                step.role,
                (step.name or "")[:200],
                None if step.role == "tool" else text_content(step.content or "", (), _MOST_TEXT),
                None if step.arguments is None else folded(step.arguments),
                None if step.result is None else folded(step.result),
                (step.error or "")[:300],
            )
            for step in shown
        ),
        left_out=len(steps) - len(shown),
        others=folded(others) if others else None,
    )
