"""`document_recall`: whether retrieval found the documents that it should have found."""

from __future__ import annotations

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


def _document_recall(record: Record) -> Evaluation | None:
    """Return the share of the expected documents that were retrieved.

    The score lies between 0 and 1: the number of different ``doc_uri`` in
    ``expected_retrieved_context`` that were retrieved, divided by the number of those expected. A
    document counts once, however many chunks of it there are. Addresses are compared exactly, so
    ``guide.pdf`` is not ``s3://docs/guide.pdf``.

    There is no evaluation if no expected chunk names its document, and the value is ``None`` if
    chunks were retrieved but none of them does. If only some of them do, the value is the smallest
    that is possible, and ``chunks_without_doc_uri`` in the metadata counts the others.
    """
    expected_chunks, chunks = record.expected_retrieved_context, record.retrieved_context
    if expected_chunks is None or chunks is None:
        return None
    expected = _documents(expected_chunks)
    if not expected:
        return None
    named = [chunk for chunk in chunks if _names_document(chunk)]
    if chunks and not named:
        return Evaluation(
            "document_recall",
            explanation="not applicable: no retrieved chunk has a doc_uri",
            metadata={"missing_inputs": "retrieved_context[].doc_uri"},
        )
    found = expected & _documents(named)
    metadata = {"expected_documents": len(expected), "found_documents": len(found)}
    unnamed, explanation = len(chunks) - len(named), None
    if unnamed:
        metadata["chunks_without_doc_uri"] = unnamed
        if len(found) < len(expected):
            explanation = f"at least: {unnamed} of {len(chunks)} retrieved chunks have no doc_uri"
    value = len(found) / len(expected)
    return Evaluation("document_recall", value, None, explanation, None, metadata)


def _documents(chunks: tuple[Chunk, ...] | list[Chunk]) -> set[str | None]:
    return {chunk.doc_uri for chunk in chunks if _names_document(chunk)}


def _names_document(chunk: Chunk) -> bool:
    return isinstance(chunk.doc_uri, str) and bool(chunk.doc_uri)


document_recall = FunctionHeuristic(
    _document_recall,
    "document_recall",
    needs=("expected_retrieved_context", "retrieved_context"),
    inline=True,
    report_path="retrieval/ground_truth/document_recall",
)
