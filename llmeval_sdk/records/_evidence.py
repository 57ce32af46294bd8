"""All that an app had to go by when it answered: documents, and what tools returned."""

from __future__ import annotations

from llmeval_sdk._coerce import to_text
from llmeval_sdk.model import Chunk, Record, Step


MOST_RESULTS = 50
"""Of the tool calls of a run, the last ones count."""
MOST_TEXT = 64_000
"""Characters of all results together; one that is longer than its share is cut."""


def evidence_of(record: Record) -> tuple[Chunk, ...] | None:
    """Return the retrieved chunks, and after them a chunk for each call of a tool.

    Those of tools have the ``retrieval_method`` ``tool`` and begin with the tool's name, so that a
    reader knows where the text comes from. The arguments of a call are not in them: the model wrote
    those itself. ``None`` where there is neither.
    """
    steps = enumerate(record.steps or (), 1)
    calls = [(number, step) for number, step in steps if _brought_something(step)]
    results = [_chunk(number, step, MOST_TEXT // len(calls[-MOST_RESULTS:]))
               for number, step in calls[-MOST_RESULTS:]]  # fmt: skip
    chunks = record.retrieved_context
    return chunks if not results else (*(chunks or ()), *results)


def _brought_something(step: Step) -> bool:
    return step.role == "tool" and (step.result is not None or step.error is not None)


def _chunk(number: int, step: Step, most: int) -> Chunk:
    outcome = "returned" if step.error is None else f"failed: {step.error};"
    text = f"tool {step.name} {outcome} {(to_text(step.result) or '')[:most]}"
    about = {"tool": step.name, "step": number}
    return Chunk(text, None, None, None, None, "tool", about)
