"""Fields of answers in commands: the report by field, and the worst requests with their field."""

import json

from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.reader import StoreReader


def fill(store):
    """Store an invoice with a doubtful total, and one whose note nothing could check."""
    for span_id, total, note in (("01" * 8, 0.93, 0.05), ("02" * 8, 0.04, None)):
        span = store.span(span_id, "read_invoice", tags={"tenant": "acme"})
        fields = [
            {"path": "total", "value": "41.50", "chance": total, "reason": "it stands under 'Subtotal'"},
            {"path": "note", "value": "paid", "chance": note, "reason": "it is free text"},
        ]  # fmt: skip
        store.evaluation(span, "extraction_risk", total, metadata={"fields": fields})


def test_a_report_by_field_says_what_is_probably_wrong(llmeval, store):
    """Each field has its number of values, of doubtful ones and of those expected to be wrong."""
    fill(store)
    done = llmeval("report", "--by", "field", "--store", store.path)
    assert done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["read_invoice", "total", "2", "0", "1", "1.0", "-", "-"] in rows
    assert ["read_invoice", "note", "2", "1", "0", "0.1", "-", "-"] in rows
    asked = llmeval("report", "--by", "field", "--json", "--store", store.path)
    assert [each["field"] for each in json.loads(asked.stdout)["fields"]] == ["total", "note"]


def test_a_label_of_a_field_is_shown_with_the_field(llmeval, store):
    """Otherwise it would read as a label of the whole answer."""
    fill(store)
    with StoreReader(store.path) as reader:
        span = reader.span("01" * 8)
    add_feedback(store.path, human_label(span, "extraction_correctness", "no", field="total"))
    shown = llmeval("explain", "01" * 8, "--store", store.path).stdout
    assert "extraction_correctness of total  no" in shown


def test_a_report_by_field_refuses_what_it_cannot_do(llmeval, store):
    """It has no alert and no other evaluator, and says so instead of ignoring them."""
    fill(store)
    done = llmeval("report", "--by", "field", "--evaluator", "correctness", "--store", store.path)
    assert done.returncode == 2
    assert "it has no --evaluator" in done.stderr


def test_the_worst_requests_come_with_field_value_reason_and_tags(llmeval, store):
    """Whoever reads the list knows what to look at without opening each request."""
    fill(store)
    asked = ("traces", "--worst", "extraction_risk", "--limit", "1", "--store", store.path)
    done = llmeval(*asked)
    assert f"{'01' * 8}  total = '41.50': it stands under 'Subtotal'; tenant=acme" in done.stdout
    (row,) = json.loads(llmeval(*asked, "--json").stdout)
    assert row["worst_field"]["path"] == "total"
    assert row["tags"] == {"tenant": "acme"}
