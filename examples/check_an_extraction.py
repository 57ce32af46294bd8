"""A value copied faithfully from the wrong place: scored, explained and acted on inline."""

import llmeval_sdk as llmeval


INVOICES = {
    "4711": "INVOICE 4711\nIssued 3 May 2021\nSubtotal 41.50\nTax 8% 3.32\nTotal due 44.82",
    "4712": "INVOICE 4712\nIssued 9 June 2021\nSubtotal 18.00\nTax 8% 1.44\nTotal due 19.44",
}
FIELD = {"name": "total", "description": "total amount due, tax included", "type": "amount"}
DOUBTFUL = 0.2
"""What the riskiest fifth of your own records exceeds; `llmeval report` shows them."""


def read_amount(text: str, *, which: int) -> str:
    """Stands in for an LLM that extracts: it takes the amount of one line."""
    return text.splitlines()[which].split()[-1]


@llmeval.workflow
def total_of(number: str) -> str | None:
    """Return the total of an invoice, or nothing where it is likely to be wrong."""
    text = INVOICES[number]
    value = read_amount(text, which=2 if number == "4711" else -1)  # the subtotal, once
    llmeval.annotate(
        field_config=FIELD,
        retrieved_context=[{"content": text, "chunk_id": number, "score": 0.9}],
        extractions=[{"value": value, "chunk_number": 1, "confidence": 0.9, "evidence": text}],
        value=value,
    )
    risk = llmeval.current_span().evaluate("extraction_risk")
    print(f"{number}: {value}, risk {risk.value:.2f}: {risk.explanation}")
    if risk.value <= DOUBTFUL:
        return value
    if rival := risk.metadata.get("rival"):
        print(f"      kept for a person; the rival is {rival['value']!r}")
    return None


llmeval.configure(exporters=["memory"])
print("answers:", {number: total_of(number) for number in INVOICES})
print("delivered:", llmeval.flush(timeout=5).delivered)
