"""What each metric needs and may use at most, known without importing Ragas."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.model.needs import CHUNK_TEXT, EVIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: what a record must have, and the most calls it makes, of embeddings too."""

    needs: tuple[str, ...]
    calls: int = 1
    calls_per_context: int = 0
    definition: str = ""
    """How its score is computed, kept with each score."""

    def most_calls(self, contexts: int) -> int:
        """Return the most calls on a record with so many contexts."""
        return self.calls + self.calls_per_context * contexts


_ANSWER = ("request", "response")
_RAG = (*_ANSWER, CHUNK_TEXT)
_GROUNDED = (*_ANSWER, EVIDENCE)
_REFERENCE = "expected_response|expected_facts"
_JUDGED = ("response", _REFERENCE)
_RETRIEVED = ("request", _REFERENCE, CHUNK_TEXT)
_SOURCES = (CHUNK_TEXT, "expected_retrieved_context")

DATADOG = {
    "faithfulness": Metric(needs=_GROUNDED, calls=2, definition="faithful statements / statements"),
    "answer_relevancy": Metric(
        needs=_ANSWER,
        calls=4,
        definition="mean cosine of the question and generated questions; 0 if noncommittal",
    ),
    "context_precision": Metric(
        needs=_RAG, calls=0, calls_per_context=1, definition="useful contexts / contexts"
    ),
}
"""As Datadog defined them; ``ragas_`` stands before each name."""

VARIANTS = {
    "faithfulness": Metric(needs=_GROUNDED, calls=2),
    "answer_relevancy": Metric(needs=_ANSWER, calls=5),
    "context_precision": Metric(needs=_RETRIEVED, calls=0, calls_per_context=1),
    "context_precision_with_reference": Metric(needs=_RETRIEVED, calls=0, calls_per_context=1),
    "context_precision_without_reference": Metric(needs=_RAG, calls=0, calls_per_context=1),
    "context_utilization": Metric(needs=_RAG, calls=0, calls_per_context=1),
    "context_recall": Metric(needs=_RETRIEVED, calls=1),
    "context_entity_recall": Metric(needs=(_REFERENCE, CHUNK_TEXT), calls=2),
    "context_relevance": Metric(needs=("request", CHUNK_TEXT), calls=10),
    "response_groundedness": Metric(needs=("response", EVIDENCE), calls=10),
    "answer_accuracy": Metric(needs=(*_ANSWER, _REFERENCE), calls=10),
    "answer_correctness": Metric(needs=(*_ANSWER, _REFERENCE), calls=5),
    "factual_correctness": Metric(needs=_JUDGED, calls=4),
    "noise_sensitivity": Metric(needs=(*_RAG, _REFERENCE), calls=3, calls_per_context=2),
    "semantic_similarity": Metric(needs=_JUDGED, calls=2),
    "summary_score": Metric(needs=("response", "expected_retrieved_context"), calls=3),
    "sql_semantic_equivalence": Metric(needs=_JUDGED, calls=1),
    "quoted_spans_alignment": Metric(needs=("response", CHUNK_TEXT), calls=0),
    "non_llm_context_recall": Metric(needs=_SOURCES, calls=0),
    "non_llm_context_precision_with_reference": Metric(needs=_SOURCES, calls=0),
    "bleu_score": Metric(needs=_JUDGED, calls=0),
    "rouge_score": Metric(needs=_JUDGED, calls=0),
    "chrf_score": Metric(needs=_JUDGED, calls=0),
    "exact_match": Metric(needs=_JUDGED, calls=0),
    "string_presence": Metric(needs=_JUDGED, calls=0),
    "non_llm_string_similarity": Metric(needs=_JUDGED, calls=0),
}
"""As Ragas computes them, by the names it gives them; ``ragas:`` stands before each name."""

OBJECT_CALLS = 10
"""Calls reserved for a metric object, beside one for each context: its class may be anybody's."""

COLUMN_NEEDS = {
    "user_input": "request",
    "response": "response",
    "retrieved_contexts": CHUNK_TEXT,
    "reference": _REFERENCE,
    "reference_contexts": "expected_retrieved_context",
}
"""Ragas' columns and what they are in a Record."""


def variant(name: str) -> Metric:
    """Find one of Ragas' own metrics; raises `ConfigurationError` with the nearest name."""
    found = VARIANTS.get(name)
    if found is None:
        raise ConfigurationError(f"unknown Ragas metric 'ragas:{name}': {nearest(name, VARIANTS)}")
    return found
