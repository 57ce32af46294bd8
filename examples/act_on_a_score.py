"""Acting on a score: read the relevance of what was retrieved before paying for an answer."""

import llmeval_sdk as llmeval


def search(question: str) -> list[dict[str, object]]:
    """Find something for roofs and next to nothing for the rest."""
    score = 0.9 if "roof" in question else 0.1
    return [{"content": f"About {question}", "chunk_id": "1", "score": score, "page": 1}]


def answer(question: str) -> str:
    """Ask the model only where the retrieval looks usable."""
    with llmeval.workflow("answer", request=question) as span:
        with llmeval.retrieval("search", request=question) as step:
            step.retrieved_context = search(question)
        relevance = span.evaluations["context_relevance"]
        if relevance.label == "investigate":
            span.response = f"I do not know (relevance {relevance.value:.2f})."
        else:
            span.response = f"An answer (relevance {relevance.value:.2f})."
        return str(span.response)


llmeval.configure(exporters=["memory"])
print(answer("the roof"))
print(answer("the weather"))
