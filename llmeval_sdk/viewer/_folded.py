"""Values as a tree whose branches a reader can fold, bounded in depth, number and length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.viewer._cells import MarkedText, marked


MOST_NODES = 300
"""Values that one tree shows."""
_MOST_IN_ONE = 100
"""Values of one mapping or list that are shown."""
_MOST_DEPTH = 8
_MOST_TEXT = 2_000
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
        return Node(name[:200], marked(_text(value), limit=_MOST_TEXT), "", (), 0, is_open=False)
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
