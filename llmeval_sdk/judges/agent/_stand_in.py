"""What the rules that stand in for a model read of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from llmeval_sdk.judges.stand_in import Sections


_TITLE = re.compile(r"step (\d+), (.+)")
_FAILED = re.compile(
    r"^(?:error: |result: (?:error|failed|exception))", re.MULTILINE | re.IGNORECASE
)

NumberedStep = tuple[int, str, str]
"""A step's number, who it is by (``tool call`` for a call), and its text."""


def numbered(sections: Sections) -> list[NumberedStep]:
    """Return the steps that a prompt shows."""
    titles = ((_TITLE.fullmatch(title), text) for title, text in sections.items())
    return [(int(title[1]), title[2], text) for title, text in titles if title is not None]


def last_step(steps: Sequence[NumberedStep]) -> int:
    """Return the number of the last step."""
    return steps[-1][0] if steps else 1


def called(text: str) -> str:
    """Return the lines of a tool call that say what was called, with which arguments."""
    return "\n".join(text.split("\n")[:2])


def has_failed(text: str) -> bool:
    """Say whether a tool call shows an error."""
    return _FAILED.search(text) is not None


def verdict(at_fault: Sequence[int], why: str) -> dict[str, Any]:
    """Return a verdict that is good where no step is at fault."""
    return {
        "rationale": f"stand-in: {why}",
        "steps": list(at_fault),
        "rating": "no" if at_fault else "yes",
    }
