"""Extraction: decorate retrieval and workflow, annotate extractions, get six scores for free."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory


PASSAGES = [
    "The lease runs for three years from 1 May 2021.",
    "The tenant keeps the premises clean.",
    "Term of the lease: 36 months.",
]


@llmeval.retrieval
def find(field: str) -> list[dict[str, object]]:
    """Both methods found the first passage, one each the others."""
    hits = [(0, "bm25"), (0, "knn"), (1, "bm25"), (2, "knn")]
    return [
        {"content": PASSAGES[n], "chunk_id": f"c{n}", "score": 0.8, "retrieval_method": by}
        for n, by in hits
    ]


@llmeval.workflow
def lease_term(field: str) -> str:
    """Take the term from two chunks and agree on it."""
    chunks = find(field)
    llmeval.annotate(
        extractions=[
            {"value": "3 years", "chunk_number": 1, "evidence": chunks[0]["content"]},
            {"value": "36 months", "chunk_number": 4, "evidence": chunks[3]["content"]},
        ],
        retrieval={"limits": {"bm25": 20, "knn": 20}, "total_before_filter": 10},
        confidence="HIGH",
    )
    return "36 months"


llmeval.configure(exporters=["memory"])
lease_term("leaseTerm")
llmeval.flush(timeout=10)
for event in memory.evaluations():
    score = event.evaluation
    print(f"{score.name:26} {score.value!s:>12}  {score.label or ''}")
