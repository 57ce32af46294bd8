"""How an answer compares with the metadata header, as an evaluator of the app's own.

It is the demo's example of ``@llmeval.heuristic``: it runs in the worker on every record, and what
it says is delivered, stored and reported beside the built-in scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import llmeval_sdk as llmeval
from llmeval_sdk.demo.documents import Document
from llmeval_sdk.demo.truth import right, stated, truths
from llmeval_sdk.protocols import Heuristic


OUTCOMES = {
    "right": "answered as the header does",
    "wrong": "the text states it, another answer was given",
    "missed": "the text states it, no answer was given",
    "abstained": "the text is silent, and so was the app",
    "invented": "the text is silent, an answer was given all the same",
}


@dataclass(frozen=True, slots=True)
class Key:
    """The right answers to one field of one document."""

    package: str
    field: str
    accepted: tuple[str, ...]
    stated: bool
    """Whether the document's text holds one of them."""


def keys(documents: Iterable[Document], fields: Iterable[str]) -> list[Key]:
    """Read the ground truth; a field that a header leaves out is not asked of that document."""
    wanted = tuple(fields)
    return [
        Key(document.package, field, accepted, stated(field, document, accepted))
        for document in documents
        for field in wanted
        if (accepted := truths(field, document))
    ]


def outcome(key: Key, value: object) -> str:
    """Sort an answer into one of `OUTCOMES`."""
    if right(key.field, value if isinstance(value, str) else None, key.accepted):
        return "right"
    if key.stated:
        return "wrong" if value else "missed"
    return "invented" if value else "abstained"


def grader(answers: Iterable[Key]) -> Heuristic:
    """Make the evaluator that knows the ground truth."""
    known: Mapping[tuple[str, str], Key] = {(key.package, key.field): key for key in answers}

    @llmeval.heuristic(needs=["field_config"], automatic=False)
    def against_header(record: llmeval.Record) -> llmeval.Evaluation | None:
        field = (record.field_config or {}).get("name", "")
        key = known.get((record.attributes.get("package", ""), field))
        if key is None:
            return None
        expected = " or ".join(key.accepted[:3])
        return llmeval.Evaluation(
            "against_header", outcome(key, record.value), explanation=f"header: {expected}"[:300]
        )

    return against_header
