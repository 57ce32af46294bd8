"""Whether retrieval found the documents it should have."""

from __future__ import annotations

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


def _document_recall(record: Record) -> Evaluation | None:
    """Share of the distinct expected documents that were retrieved, compared by ``doc_uri``.

    A document counts once, however many chunks of it are expected or retrieved. Addresses are
    compared as they are: ``guide.pdf`` is not ``s3://docs/guide.pdf``.

    Nothing where no expected chunk names its document, and not applicable where chunks were
    retrieved and none of them does. Where only some do, the value is the least that it can be, and
    ``chunks_without_doc_uri`` says how many chunks could be of any document.
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
