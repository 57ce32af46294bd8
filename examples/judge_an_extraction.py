"""Was the right value extracted? A copied subtotal passes as grounded, but not this judge."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing import FakeLLM


RECEIPT = "SUBTOTAL 41.50\nTAX 8% 3.32\nTOTAL DUE 44.82\nCASH 50.00"
TOTAL = {
    "name": "total",
    "description": "the amount to pay",
    "guidelines": ["Tax is included.", "Never the cash that was given."],
    "examples": [{"evidence": "CASH 20.00", "value": "20.00", "rating": "no", "why": "cash given"}],
}


@llmeval.workflow
def extract(field: dict[str, object]) -> str:
    """Stand for an app whose model took the first amount."""
    llmeval.annotate(
        retrieved_context=[RECEIPT],
        extractions=[{"value": "41.50", "chunk_number": 1, "evidence": "SUBTOTAL 41.50"}],
        field_config=field,
    )
    return "41.50"


verdict = {  # what a model would answer; name yours with llm="gpt-4o-mini"
    "rationale": "41.50 is the subtotal; chunk 1 has 44.82 as the total due.",
    "problem": "wrong_value",
    "right_value": "44.82",
    "rating": "no",
}
llmeval.configure(exporters=["memory"], evaluators=["extraction_correctness"], llm=FakeLLM(verdict))
extract(TOTAL)
llmeval.flush(timeout=20)

for event in memory.evaluations():
    if event.evaluation.name == "extraction_correctness":
        found = event.evaluation
        print(found.value, found.metadata["problem"], "->", found.metadata["right_value"])
        print(found.explanation)
