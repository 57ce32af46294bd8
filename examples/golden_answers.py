"""Score a golden set without a judge: answers against the expected ones, rankings against truth."""

# needs: regex
import llmeval_sdk as llmeval


ROWS = [
    {
        "request": "What is the roof made of?",
        "response": "The roof is made of slate.",
        "expected_response": "slate",
        "retrieved_context": [{"doc_uri": "walls.pdf"}, {"doc_uri": "roof.pdf"}],
        "expected_retrieved_context": [{"doc_uri": "roof.pdf"}],
    },
    {
        "request": "When was it built?",
        "response": "In 1904",
        "expected_response": "1904",
        "retrieved_context": [{"doc_uri": "history.pdf"}],
        "expected_retrieved_context": [{"doc_uri": "history.pdf"}],
    },
]

report = llmeval.evaluate(
    ROWS,
    evaluators=["contains", "token_f1", "rouge_l", "mrr", "recall_at_k:1", r"regex:year=\b\d{4}\b"],
)
for path, mean in report.metrics.items():
    print(f"{path:<45} {mean:.2f}")
