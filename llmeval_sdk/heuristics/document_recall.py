"""Whether retrieval found the documents it should have."""

from __future__ import annotations

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


def _document_recall(record: Record) -> Evaluation | None:
    """Share of the distinct expected documents that were retrieved, compared by ``doc_uri``.

    Nothing where no expected chunk names its document.
    """
    if record.expected_retrieved_context is None or record.retrieved_context is None:
        return None
    expected = _documents(record.expected_retrieved_context)
    if not expected:
        return None
    found = expected & _documents(record.retrieved_context)
    metadata = {"expected_documents": len(expected), "found_documents": len(found)}
    value = len(found) / len(expected)
    return Evaluation("document_recall", value, None, None, None, metadata)


def _documents(chunks: tuple[Chunk, ...]) -> set[str]:
    return {chunk.doc_uri for chunk in chunks if isinstance(chunk.doc_uri, str) and chunk.doc_uri}


document_recall = FunctionHeuristic(
    _document_recall,
    "document_recall",
    needs=("expected_retrieved_context", "retrieved_context"),
    inline=True,
)
