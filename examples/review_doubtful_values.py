"""Which value of a structured answer is probably wrong, and what a person says of that one field.

`llmeval view` shows the same under *Review*, where two keys do the labelling.
"""

import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


INVOICE = """Northwind Traders Inc.
Invoice INV-2044
Date of issue: 1 March 2026
Subtotal: 41.50 EUR
Total due: 47.31 EUR"""


ANSWER = {"number": "INV-2044", "issued": "2026-03-01", "total": 41.50, "currency": "EUR"}

with tempfile.TemporaryDirectory() as folder:
    store = str(Path(folder) / "llmeval.db")
    llmeval.configure(store=store)
    with llmeval.workflow("read_invoice", request="Read inv-2044.pdf") as span:
        span.annotate(retrieved_context=[{"content": INVOICE, "doc_uri": "inv-2044.pdf"}])
        span.response = ANSWER  # the total is a subtotal: copied faithfully, and wrong
    llmeval.flush()
    main(["traces", "--worst", "extraction_risk", "--store", store])
    llmeval.submit_feedback(
        label="extraction_correctness", value="no", span=span, field="total", source="review"
    )
    llmeval.flush()
    main(["report", "--by", "field", "--store", store])
    llmeval.shutdown()
