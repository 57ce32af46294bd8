"""Counts annotations that cannot be kept, and logs each kind once."""

from __future__ import annotations

from llmeval_sdk._process.shield import caught, tell
from llmeval_sdk.errors import nearest
from llmeval_sdk.tracing._fields import WRITERS


_unknown_names: set[str] = set()
MAX_UNKNOWN_NAMES = 100


def note_unknown(name: str) -> None:
    """Count an annotation of an unknown field; the first time, log which one was probably meant."""
    caught.add("annotate: unknown field")
    if name in _unknown_names or len(_unknown_names) >= MAX_UNKNOWN_NAMES:
        return
    _unknown_names.add(name)
    tell(
        f"annotate({name[:40]}=…)",
        f"there is no such field and it is left out: {nearest(name[:80], WRITERS)}; "
        "anything else goes into metadata={...} or tags={...}",
    )


def note_late() -> None:
    """Count an annotation of a span that has ended."""
    caught.add("annotate after the span ended")
