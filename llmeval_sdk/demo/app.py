"""The app itself, as one would write it around a model: search, extract, vote.

Three decorators, a ``with`` block and two ``annotate`` calls are what the SDK asks for. Rules stand
where a model would be called (`extract`), so that the demo runs anywhere and costs nothing.
"""

from __future__ import annotations

from typing import Any

import llmeval_sdk as llmeval
from llmeval_sdk.demo.extract import find
from llmeval_sdk.demo.fields import FIELDS
from llmeval_sdk.demo.index import Index
from llmeval_sdk.demo.search import search
from llmeval_sdk.demo.vote import Answer, vote


LIMITS = {"bm25": 10, "knn": 10}


class FieldExtractor:
    """Answers one field of one document at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @llmeval.workflow
    def extract_field(self, field: str, package: str) -> str | None:
        """Find the value of a field; ``None`` where nothing in the document looks like one."""
        question = FIELDS[field].question.format(package=package)
        llmeval.annotate(
            request=question,
            field_config=FIELDS[field].config(),
            tags={"field": field},
            metadata={"package": package},
        )
        with llmeval.retrieval("hybrid_search", request=question) as step:
            found = search(self._index, FIELDS[field], package, LIMITS)
            step.retrieved_context = found.chunks
        extractions = self.extract(field, package, found.chunks)
        answer = self.aggregate(field, extractions)
        llmeval.annotate(
            extractions=extractions,
            confidence=answer.confidence,
            retrieval={"limits": LIMITS, "total_before_filter": found.total_before_filter},
        )
        return answer.value

    @llmeval.task
    def extract(
        self, field: str, package: str, chunks: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Ask every chunk for the value; most have none. An app would call its model here."""
        extractions = []
        for number, chunk in enumerate(chunks, start=1):
            value = find(field, package, chunk["content"], chunk["page"])
            if value is not None:
                extractions.append({**value, "chunk_number": number})
        return extractions

    @llmeval.task
    def aggregate(self, field: str, extractions: list[dict[str, Any]]) -> Answer:
        """Let the extractions vote; a chunk that both searches found votes twice."""
        return vote(field, extractions)
