"""Offline in any engine: the evaluators as a function of Arrow tables, as Spark takes it.

The table that comes back has a row for each row that went in, whatever is wrong with one of them.
"""
# needs: pyarrow

import pyarrow as pa

from llmeval_sdk.offline import BatchEvaluator


evaluate = BatchEvaluator(["context_relevance", "document_recall"])
print("columns:", ", ".join(evaluate.schema.names))

batch = pa.Table.from_pylist(
    [
        {
            "request_id": "roof",
            "request": "What is the roof made of?",
            "response": "slate",
            "retrieved_context": [{"content": "The roof is slate.", "doc_uri": "survey.pdf"}],
            "expected_retrieved_context": [{"doc_uri": "survey.pdf"}],
        },
        {
            "request_id": "wall",
            "request": "And the walls?",
            "response": "brick",
            "retrieved_context": [{"content": "A letter.", "doc_uri": "letter.pdf"}],
            "expected_retrieved_context": [{"doc_uri": "survey.pdf"}],
        },
        {"request_id": "nothing", "request": "And the door?", "expected_retrieved_context": [{}]},
    ]
)
for row in evaluate(batch).to_pylist():
    print(row)
