"""Offline: the evaluators that run online, over rows of a data set."""

import llmeval_sdk as llmeval


rows = [
    {
        "request": "What is the roof made of?",
        "response": "slate",
        "retrieved_context": [{"content": "The roof is slate.", "doc_uri": "survey.pdf"}],
        "expected_retrieved_context": [{"doc_uri": "survey.pdf"}],
        "extractions": [{"value": "slate", "chunk_number": 1}],
    },
    {
        "request": "When was it built?",
        "response": "1 May 1999",
        "retrieved_context": [{"content": "Built in spring.", "doc_uri": "notes.txt"}],
        "expected_retrieved_context": [{"doc_uri": "deed.pdf"}],
        "extractions": [{"value": "1 May 1999", "chunk_number": 1}],
    },
]
report = llmeval.evaluate(
    rows, evaluators=["document_recall", "context_recall_heuristic", "semantic_validation"]
)
for path, value in report.metrics.items():
    print(f"{path:50} {value:.2f}")
for row in report.rows:
    print(row.record.request, "->", row.evaluations["semantic_validation"].value)
