"""Counts annotations that cannot be kept, and logs each kind once."""

from __future__ import annotations

from llmeval_sdk.errors import nearest
from llmeval_sdk.process.shield import caught, tell_once
from llmeval_sdk.tracing._fields import WRITERS


def note_unknown(name: str) -> None:
    """Count an annotation of an unknown field; the first time, log which one was probably meant."""
    caught.add("annotate: unknown field")
    tell_once(
        f"annotate({name[:40]}=…)",
        f"there is no such field and it is left out: {nearest(name[:80], WRITERS)}; "
        "anything else goes into metadata={...} or tags={...}",
    )


def note_late() -> None:
    """Count an annotation of a span that has ended."""
    caught.add("annotate after the span ended")
