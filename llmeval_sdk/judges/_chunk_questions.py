"""A typed question about one chunk: what it asks, and which sections are shown with it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from llmeval_sdk.judges._template import Template, sections_for, title_of
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.model import Chunk, Failure, Question, Record


NO_TEXT = Failure("bad_input", "the chunk holds no text")


@dataclass(frozen=True, slots=True)
class ChunkQuestion:
    """A question about one chunk, and what is shown with it."""

    question: Question
    shown: Sequence[Section]
    same: Hashable
    """Equal for chunks of which the question shows the same."""


def of_chunk(
    template: Template, record: Record, chunk: Chunk, rank: int
) -> tuple[str, list[Section], Hashable]:
    """Return a prompt and its sections with the chunk's number in all of their titles."""
    wording = template.rubric
    shown: list[Section] = []
    own: list[str] = []
    for name in template.names:
        sections = sections_for(name, record, chunk)
        if name.startswith("chunk."):
            former = title_of(name)
            title = f"chunk {rank}{former.removeprefix('chunk')}"
            wording = wording.replace(f"[section: {former}]", f"[section: {title}]")
            sections = [Section(title, section.text) for section in sections]
            own += [section.text for section in sections]
        shown += sections
    return wording, shown, tuple(own)
