"""Relevance of a hybrid retrieval whose scores have scales of their own: ranks in their place.

BM25 gives scores without an upper bound, so that their mean says little. With
``annotate(retrieval={"scores": "ranks"})`` the best hit of each side counts 1, the last of n 1/n.
"""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.model import Chunk


ROOF = Chunk("The roof is of slate.", chunk_id="a", page=1)
WALL = Chunk("The wall is of brick.", chunk_id="b", page=2)
HALL = Chunk("The hall has tin walls.", chunk_id="c", page=7)
FOUND = {
    "What is the roof of?": ([(ROOF, 14.2), (WALL, 3.1)], [(ROOF, 0.83), (WALL, 0.41)]),
    "Who built the tower?": ([(WALL, 12.9), (HALL, 12.7)], [(ROOF, 0.79), (WALL, 0.78)]),
}


@llmeval.workflow
def answer(question: str, *, ranks: bool) -> str:
    """Answer from what both sides found, and say how its scores are to be read."""
    chunks = [
        {"content": chunk.content, "chunk_id": chunk.chunk_id, "page": chunk.page}
        | {"score": score, "retrieval_method": method}
        for method, hits in zip(("bm25", "knn"), FOUND[question], strict=True)
        for chunk, score in hits
    ]
    retrieval = {"scores": "ranks"} if ranks else {}
    llmeval.annotate(retrieved_context=chunks, retrieval=retrieval)
    return "slate"


llmeval.configure(exporters=["memory"])
for question in FOUND:
    for ranks in (False, True):
        answer(question, ranks=ranks)
llmeval.flush(timeout=10)
for event in memory.evaluations():
    made = event.evaluation
    if made.name == "context_relevance":
        read = "ranks" if made.metadata.get("scores") == "ranks" else "scores"
        print(f"{made.value:.2f} by {read}, of which mean score {made.metadata['mean_score']:.2f}")
