"""What a stand-in by rules says in the place of a model: each judge's rule is made of these.

The stand-in of `llmeval_sdk.testing` answers demos and tests. A judge has a rule of its own in
``stand_in``; without one, the schema of its answer is filled in by shared words. Every rationale
begins with ``stand-in:``, so that nobody takes it for a model's verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any


Sections = Mapping[str, str]
"""The texts that a prompt shows, by the name of their section."""
Rule = Callable[[Sections], dict[str, Any]]
"""Returns the answer to a prompt, in the form that the judge asks for."""

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by did do does for from had has have how in is it its many much of "
        "on or that the their there this to was were what when where which who why will with you"
    )
)


def words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if word not in _COMMON}


def share(part: str, whole: str) -> float:
    """Return the share of one text's words that the other has; 0 where there are none."""
    wanted = words(part)
    return len(wanted & words(whole)) / len(wanted) if wanted else 0.0


def chunks_of(sections: Sections) -> str:
    """Return the text of all chunks that a prompt shows."""
    return "\n".join(text for name, text in sections.items() if name.startswith("chunk"))


def rating(found: float, least: float, what: str) -> dict[str, Any]:
    """Rate a share of words: yes where it is at least so much."""
    rationale = f"stand-in: {found:.0%} of the words of {what}, {least:.0%} needed"
    return {"rationale": rationale, "rating": "yes" if found >= least else "no"}
