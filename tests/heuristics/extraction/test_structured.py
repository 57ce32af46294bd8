"""`extraction_risk` of structured answers: every field, one score."""

import json
from dataclasses import replace

import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.heuristics.extraction._sums import contradictions
from llmeval_sdk.heuristics.extraction.risk import extraction_risk
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.values import NOT_CHECKED
from llmeval_sdk.testing import capture
from llmeval_sdk.text.extraction import read


INVOICE = (
    "Northwind Traders\nInc., 12 Harbour Road, Bergen\nINVOICE No. 2026-117\n"
    "Invoice date: 1 March 2026\nDue date: 31 March 2026\nCustomer: Ada Lovelace\n"
    "Subtotal 41.50\nTax (8 %) 3.32\nShipping 5.00\nTotal due 49.82\nCountry: Norway\n"
    "IBAN NO93 8601 1117 947\nReverse charge: no"
)
ANSWER = {
    "vendor": {"name": "Northwind Traders Inc.", "country": "NO", "iban": "NO9386011117947"},
    "invoice_number": "2026-117", "invoice_date": "2026-03-01", "due_date": "2026-03-31",
    "customer_name": "Ada Lovelace", "subtotal": 41.5, "tax": "3.32", "tax_rate": "8%",
    "shipping": "5.00", "total": "49.82", "reverse_charge": False, "notes": None,
}  # fmt: skip


def answered(**changes):
    return Record(
        request="Extract the invoice.",
        value={**ANSWER, **changes},
        retrieved_context=(Chunk(INVOICE),),
    )


def by_path(evaluation):
    return {entry["path"]: entry for entry in evaluation.metadata["fields"]}


def test_a_wrong_field_is_the_worst_of_its_answer():
    """The subtotal in the place of the total leads, with its place and its rival."""
    score = extraction_risk.evaluate(answered(total="41.50"))
    assert score.metadata["worst_field"] == "total"
    (worst, *others) = score.metadata["fields"]
    assert (worst["path"], worst["value"], score.value) == ("total", "41.50", worst["chance"])
    assert INVOICE[worst["start"] : worst["end"]] == "41.50"
    assert worst["rival"]["value"] == "49.82"
    rival = worst["rival"]
    assert INVOICE[rival["start"] : rival["end"]] == "49.82"
    assert all(entry["chance"] <= 0.5 for entry in others if entry["checked"])
    assert "total" in score.explanation


def test_right_fields_are_present_in_whatever_form():
    """A line break, an ISO date, a code, spaces in an IBAN and a boolean make no value absent."""
    score = extraction_risk.evaluate(answered())
    assert not [entry for entry in score.metadata["fields"] if "none of the passages" in str(entry)]
    assert score.value < 0.5


def test_the_answer_says_how_many_fields_are_probably_wrong():
    """The greatest chance is the worst field's; the sum of all stands beside it."""
    right, wrong = (extraction_risk.evaluate(answered(total=total)) for total in ("49.82", "41.50"))
    chances = [entry["chance"] for entry in wrong.metadata["fields"] if entry["checked"]]
    assert wrong.value == max(chances)
    assert wrong.metadata["expected_wrong"] == pytest.approx(sum(chances), abs=1e-3)
    assert right.metadata["expected_wrong"] < wrong.metadata["expected_wrong"]
    assert wrong.metadata["fields_checked"] == len(chances)
    assert by_path(wrong)["notes"]["chance"] is None


def test_a_value_that_was_missed_is_told_with_its_place():
    """A field without a value leads where the document states one under the field's label."""
    score = extraction_risk.evaluate(answered(due_date=None))
    worst = score.metadata["fields"][0]
    assert (worst["path"], worst["value"]) == ("due_date", "")
    assert worst["chance"] == score.value > 0.8
    assert "'31 March 2026' stands under its label" in score.explanation
    rival = worst["rival"]
    assert INVOICE[rival["start"] : rival["end"]] == "31 March 2026"
    assert score.metadata["fields_checked"] == len(ANSWER) + 1  # of vendor 3, of notes none


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("due_date", "Order of Ada Lovelace, shipped to Bergen"),
        ("due_date", "Due date: not stated\nInvoice date: 1 March 2026"),
        ("due_date", "Due date:\nInvoice date: 1 March 2026"),
        ("purchase_order", "The purchase order was lost; 17 others were not."),
        ("buyer", "Buyer:\nSeller: Northwind"),
        ("notes", "Notes"),
        ("", "Total: 5"),
    ],
)
def test_an_empty_field_that_the_document_does_not_state_is_no_error(name, text):
    """No label, a label without a value, and prose say nothing of it."""
    record = Record(value={name: None, "x": "5"}, retrieved_context=(Chunk(text),))
    entry = by_path(extraction_risk.evaluate(record)).get(name, {"chance": None})
    assert entry["chance"] is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("due_date", "Fällig am: 31.03.2026", "31.03.2026"),
        ("total", "| Subtotal | 41.50 |\n| Total | 49.82 |", "49.82"),
        ("invoice_number", "Facture n°\n2026-117", "2026-117"),
        ("customer_name", "Kunde ........ Ada Lovelace", "Ada Lovelace"),
        ("contact_person", "Contact person: Ada Lovelace    Room 4", "Ada Lovelace"),
        ("contactPerson", "Contact person\nAda Lovelace", "Ada Lovelace"),
        ("発行者", "発行者：松原歯科医院", "松原歯科医院"),
    ],
)
def test_what_a_document_states_is_found_in_any_language_and_layout(name, text, value):
    """Behind the label, in the next cell or on the next line."""
    record = Record(value={name: None, "x": "5"}, retrieved_context=(Chunk(f"Page 1\n{text}\n"),))
    entry = by_path(extraction_risk.evaluate(record))[name]
    assert entry["rival"]["value"] == value


def test_what_another_field_has_was_not_missed():
    """An amount that stands under two names is the value of the field that has it."""
    text = "Amount due: 49.82\nInvoice date: 1 March 2026"
    record = Record(value={"balance": "49.82", "total": None}, retrieved_context=(Chunk(text),))
    assert by_path(extraction_risk.evaluate(record))["total"]["chance"] is None


GOODS = (
    "Goods     Pieces   Each     Sum\nFelt      6        334.04   2,004.24\n{row}\n"
    "Tiles     8        115.33   922.64"
)
GOODS_READ = [
    {"description": "Felt", "count": 6, "price": 334.04, "sum": 2004.24},
    {"description": None, "count": None, "price": 112.66, "sum": 4055.76},
    {"description": "Tiles", "count": 8, "price": 115.33, "sum": 922.64},
]


def of_table(row):
    chunk = Chunk(GOODS.format(row=row))
    record = Record(value={"rows": GOODS_READ}, retrieved_context=(chunk,))
    return by_path(extraction_risk.evaluate(record))


def test_the_column_of_a_table_tells_what_an_item_lacks():
    """Also under a head that no table of labels has: the other items' values stand in it."""
    entries = of_table("Sacks     36       112.66   4,055.76")
    for name, value in (("description", "Sacks"), ("count", "36")):
        entry = entries[f"rows[1].{name}"]
        assert entry["rival"]["value"] == value
        assert entry["reason"] == f"{value!r} stands in its column, and the answer has no value"


@pytest.mark.parametrize(
    "row", ["          36       112.66   4,055.76", "Sacks 36 112.66 4,055.76"]
)
def test_a_row_with_other_cells_tells_of_no_missed_value(row):
    """An empty cell and a row that is parted otherwise leave open which cell is whose."""
    assert of_table(row)["rows[1].description"]["chance"] is None


@pytest.mark.parametrize("form", ["object", "json", "fenced"])
def test_an_object_and_its_json_get_one_score(form):
    """However an app returns its answer."""
    record = answered(total="41.50")
    text = json.dumps(record.value)
    forms = {
        "object": record,
        "json": replace(record, value=None, response=text),
        "fenced": replace(record, value=None, response=f"```json\n{text}\n```"),
    }
    assert extraction_risk.evaluate(forms[form]).value == extraction_risk.evaluate(record).value


def test_the_document_may_stand_in_the_prompt():
    """Then nothing has to be annotated and nothing retrieved."""
    record = answered(total="41.50")
    asked = [{"role": "user", "content": f"Extract.\n<document>{INVOICE}</document>"}]
    prompted = replace(record, request=asked, retrieved_context=None)
    assert extraction_risk.evaluate(prompted).value == extraction_risk.evaluate(record).value


def test_without_any_passage_it_says_not_checked_and_why():
    """An image is named as not read."""
    score = extraction_risk.evaluate(replace(answered(), retrieved_context=None))
    assert (score.value, score.label) == (None, NOT_CHECKED)
    seen = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    pictured = extraction_risk.evaluate(replace(answered(), request=seen, retrieved_context=None))
    assert "1 image_url" in pictured.explanation


def test_a_traced_object_is_scored_without_annotation():
    """The workflow only returns it; prose scores stay away from it."""
    with capture(escalations=[]) as seen:

        @llmeval.retrieval
        def pages():
            return [{"content": INVOICE}]

        @llmeval.workflow
        def extract(name):
            pages()
            return {**ANSWER, "total": "41.50"}

        extract("a.pdf")
        seen.drain()
        scores = seen.scores("extract")
    assert scores["extraction_risk"].metadata["worst_field"] == "total"
    assert scores["semantic_validation"].value == "pass"
    assert "groundedness_risk" not in scores


def test_an_answer_that_could_not_be_checked_is_delivered_with_the_reason():
    """It has no value, and no entry for each of its fields, which would say the same."""
    with capture(escalations=[]) as seen:

        @llmeval.workflow
        def extract(name):
            return ANSWER

        extract("a.pdf")
        seen.drain()
        score = seen.scores("extract")["extraction_risk"]
    assert (score.value, score.label) == (None, NOT_CHECKED)
    assert "there is neither a passage nor" in score.explanation
    assert score.metadata == {"fields_checked": 0, "fields_not_checked": 14}


def test_a_model_call_by_itself_is_an_answer_of_its_own():
    """The document in its prompt and JSON as its answer are enough."""
    with capture(escalations=[]) as seen:
        with llmeval.llm("chat", model_name="m") as span:
            span.request = [{"role": "user", "content": f"<document>{INVOICE}</document>"}]
            span.response = json.dumps({**ANSWER, "total": "41.50"})
        seen.drain()
        assert seen.scores("chat")["extraction_risk"].metadata["worst_field"] == "total"


def test_a_model_call_below_a_workflow_is_a_step_of_that():
    """It is not scored twice."""
    with capture(escalations=[]) as seen:
        with llmeval.workflow("extract"), llmeval.llm("chat", model_name="m") as span:
            span.request = [{"role": "user", "content": f"<document>{INVOICE}</document>"}]
            span.response = json.dumps(ANSWER)
        seen.drain()
        assert "extraction_risk" not in seen.scores("chat")


def test_offline_a_column_of_json_is_read_like_that():
    """The same score, by the same name."""
    row = {"request": f"<document>{INVOICE}</document>",
           "response": json.dumps({**ANSWER, "total": "41.50"})}  # fmt: skip
    (done,) = llmeval.evaluate([row], progress=False).rows
    assert done.evaluations["extraction_risk"].metadata["worst_field"] == "total"


@pytest.mark.parametrize("count", [500, 10_000])
def test_many_fields_are_bounded(count):
    """Five hundred are read, the others counted."""
    many = Record(
        value={f"f{n}": f"v{n}" for n in range(count)}, retrieved_context=(Chunk("v1 v2"),)
    )
    score = registry.evaluator("extraction_risk").evaluate(many)
    assert len(score.metadata["fields"]) == 500
    assert score.metadata.get("fields_cut", 0) == count - 500


ORDER = (
    "ORDER 2210\nItem     Qty   Amount\nPlanks   12    310.40\nTarps    30    915.70\n"
    "Hinges   44    88.15\nIssued 3 May 2026\nShipped 9 May 2026"
)
ITEMS = {
    "issued": "2026-05-03",
    "shipped": "2026-05-09",
    "lines": [
        {"item": "Planks", "qty": 12, "amount": "310.40"},
        {"item": "Tarps", "qty": 30, "amount": "915.70"},
        {"item": "Hinges", "qty": 44, "amount": "88.15"},
    ],
}


def ordered(**changes):
    return by_path(
        extraction_risk.evaluate(
            Record(value={**ITEMS, **changes}, retrieved_context=(Chunk(ORDER, "order.txt"),))
        )
    )


def test_two_fields_that_claim_one_place_are_riskier():
    """A date that stands once cannot be right for two fields; the one without its label leads."""
    right, wrong = ordered(), ordered(shipped="2026-05-03")
    assert wrong["shipped"]["chance"] > right["shipped"]["chance"] + 0.2
    assert wrong["shipped"]["chance"] > wrong["issued"]["chance"]


def test_a_value_from_the_line_of_another_item_is_riskier():
    """Values of one item are expected on one line."""
    lines = [dict(line) for line in ITEMS["lines"]]
    lines[0]["amount"] = "88.15"
    right, wrong = ordered(), ordered(lines=lines)
    amount = "lines[0].amount"
    assert wrong[amount]["chance"] > right[amount]["chance"] + 0.2
    assert wrong[amount]["chance"] > wrong["lines[2].amount"]["chance"]


@pytest.mark.parametrize("value", ["{n}.50", "value {n} EUR", "2025-03-0{n}", "x y z"])
def test_an_answer_of_many_fields_holds_nobody_up(value):
    """What goes beyond the work of one score is not checked, and says so."""
    document = "\n".join(f"Item {n}: value {n} EUR {n}.50 total {n * 3}.20" for n in range(400))
    answer = {f"total_{n}": value.format(n=n) for n in range(500)}
    record = Record(value=answer, retrieved_context=(Chunk(document),))
    score = extraction_risk.evaluate(record)  # the passages are read once
    assert calls_of(lambda: extraction_risk.evaluate(record)) < 300_000
    skipped = [entry for entry in score.metadata["fields"] if not entry["checked"]]
    assert all(entry["reason"] for entry in skipped)


def risks(**changes):
    """Return what `extraction_risk` says of each field of the answer."""
    entries = extraction_risk.evaluate(answered(**changes)).metadata["fields"]
    return {entry["path"]: entry["chance"] for entry in entries}


@pytest.mark.parametrize(
    ("changes", "doubted"),
    [
        ({"subtotal": "49.82"}, ("subtotal",)),  # which is the total: 41.50 would do
        ({"subtotal": "49.82", "tax": "5.00"}, ("subtotal", "tax", "total")),  # nothing would do
        ({"invoice_date": "2026-03-31", "due_date": "2026-03-01"}, ("invoice_date", "due_date")),
        ({"tax_rate": "41.5%"}, ("tax_rate",)),
    ],
)
def test_fields_that_do_not_fit_each_other_are_riskier(changes, doubted):
    """Sums, rates and the order of dates speak against what they are made of, and nothing else."""
    before, after = risks(), risks(**changes)
    assert all(after[path] > before[path] for path in doubted)
    others = {"tax", "invoice_date", "due_date"}.difference(doubted, changes)
    assert all(after[path] == before[path] for path in others)


def test_quantity_and_price_make_the_amount():
    """Of an item whose product does not come out, the amount is riskier that a rival would mend."""
    text = "Item Qty Unit price Amount\nBolts 3 2.50 7.50\nNuts 4 1.25 5.00\nClips 5 1.00 5.00"

    def chances(amount):
        lines = [
            {"item": "Bolts", "quantity": 3, "unit_price": "2.50", "amount": "7.50"},
            {"item": "Nuts", "quantity": 4, "unit_price": "1.25", "amount": amount},
            {"item": "Clips", "quantity": 5, "unit_price": "1.00", "amount": "5.00"},
        ]
        record = Record(value={"lines": lines}, retrieved_context=(Chunk(text),))
        return {e["path"]: e["chance"] for e in extraction_risk.evaluate(record).metadata["fields"]}

    right, wrong = chances("5.00"), chances("7.50")
    assert wrong["lines[1].amount"] > right["lines[1].amount"]
    assert wrong["lines[1].quantity"] == right["lines[1].quantity"]
    assert wrong["lines[0].quantity"] == right["lines[0].quantity"]


def test_a_field_with_more_items_than_are_read_says_so():
    """So that nobody takes the chance of the first ones for that of all."""
    record = Record(
        value={"tags": [f"tag {n}" for n in range(30)], "total": "49.82"},
        retrieved_context=(Chunk(INVOICE + "\n" + " ".join(f"tag {n}" for n in range(30))),),
    )
    entries = by_path(extraction_risk.evaluate(record))
    assert entries["tags"]["values_cut"] is True
    assert "values_cut" not in entries["total"]


FIGURES = (
    "Subtotal 41.50\nVAT 3.32\nTotal due 44.82\nCash 50.00\nChange 5.18\n"
    "Bolts, quantity 12, unit price 2.50, amount 30.00\nMemo 0.00"
)


@pytest.mark.parametrize(
    ("answer", "blamed"),
    [
        ({"subtotal": "41.50", "tax": "3.32", "total": "44.82"}, set()),
        ({"subtotal": "41.50", "tax": "3.32", "total": "41.60"}, {"total"}),
        ({"subtotal": "41.50", "tax": "5.18", "total": "44.82"}, {"tax"}),
        ({"subtotal": "50.00", "tax": "3.32", "total": "44.82"}, {"subtotal"}),
        ({"subtotal": "50.00", "tax": "5.18", "total": "44.82"}, {"subtotal", "tax", "total"}),
        ({"quantity": "12", "unit_price": "2.50", "line_amount": "44.82"}, {"line_amount"}),
    ],
)
def test_of_a_sum_that_does_not_come_out_the_field_that_the_document_corrects_is_to_blame(
    answer, blamed
):
    """The others are not made to look wrong; where nothing mends the sum, all of them are."""
    readings = []
    for name, value in answer.items():
        made = Record(value=value, field_config={"name": name}, retrieved_context=(Chunk(FIGURES),))
        readings += [(name, reading) for reading in read(made)]
    assert contradictions(readings) == blamed
