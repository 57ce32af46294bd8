"""An offline run with Datadog as its exporter: an app under test, and rows answered before."""

import llmeval_sdk as llmeval


@llmeval.retrieval
def find(question):
    return [{"content": "The roof is slate.", "doc_uri": "d.pdf", "score": 0.9}]


@llmeval.workflow
def answer(request):
    find(request)
    return "slate"


truth = {"expected_retrieved_context": [{"doc_uri": "d.pdf"}]}
named = {"exporters": ["datadog"], "experiment": "golden roofs"}
rows = [{"request": f"Roof {number}?", **truth} for number in range(3)]
report = llmeval.evaluate(rows, model=answer, evaluators=["document_recall"], **named)
print(report.delivery["datadog"])
