"""Labels of documents in many languages, and what a place stands under."""

import json
from importlib.resources import files

import pytest
from counted import calls_of

from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.text.extraction import read
from llmeval_sdk.text.folding import plain
from llmeval_sdk.text.labels import (
    GROUP_OF,
    concept_of,
    heads_in,
    label_of_column,
    labels_in,
    nearest_label,
)


@pytest.mark.parametrize(
    ("name", "concept"),
    [
        ("total", "total"), ("total_amount", "total"), ("subtotal", "subtotal"), ("totalTax", "tax"),
        ("invoiceNumber", "invoice_number"), ("po_number", "order_number"), ("due_date", "due_date"),
        ("Fälligkeitsdatum", "due_date"), ("montant_ttc", "total"), ("vendor_name", "seller"),
        ("customer", "buyer"), ("lines amount", "line_total"), ("items unit_price", "unit_price"),
        ("vat_id", "tax_id"), ("address", None), ("colour", None), ("", None),
        ("invoice_date", "issue_date"), ("orderDate", "order_date"), ("invoice_total", "total"),
        ("order_total_2", "total"), ("invoice_amount", "total"), ("valid_from", "start_date"),
        ("tax_date", None), ("closing_date", None), ("principal_amount", None),
        ("order_status", None), ("total_price", "total"), ("customer_address", None),
        ("change_of_control", None), ("notice_period_to_terminate_renewal", None),
    ],
)  # fmt: skip
def test_a_field_asks_for_a_known_thing_by_its_name(name, concept):
    """In snake case, camel case or another language."""
    assert concept_of(name) == concept


@pytest.mark.parametrize(
    ("description", "concept"),
    [
        ("Name of the company that issued the receipt", "seller"), ("Grand total in euros, including the VAT", "total"),
        ("Who signed for the supplier", None), ("The vendor", "seller"), ("Due date", "due_date"),
    ],
)  # fmt: skip
def test_a_description_asks_for_what_it_begins_with(description, concept):
    """What it mentions behind that only explains it."""
    assert concept_of("x", description) == concept


@pytest.mark.parametrize(
    ("line", "concept"),
    [
        ("Zwischensumme: 5", "subtotal"), ("Montant TTC 5", "total"), ("Razem netto: 5", "subtotal"),
        ("Förfallodatum: 1", "due_date"), ("Счёт № 5", "invoice_number"), ("小計 5", "subtotal"),
        ("請求書番号: 4", "invoice_number"), ("부가세: 3", "tax"), ("Покупатель: x", "buyer"),
        ("Total due 4", "total"), ("Date d'échéance : 1", "due_date"), ("Rechnungs-Nr. 7", "invoice_number"),
    ],
)  # fmt: skip
def test_a_label_names_the_same_thing_in_any_language(line, concept):
    """The table of usual labels says so."""
    (label,) = labels_in(plain(line), GROUP_OF[concept])
    assert label.concept == concept


def test_a_seller_in_a_sentence_is_no_label():
    """Only what leads a line, a cell or a value is."""
    prose = plain("Goods remain the property of the seller until they are paid.")
    assert labels_in(prose, "party") == []
    assert labels_in(plain("Seller: Northwind"), "party")


@pytest.mark.parametrize(
    ("text", "value", "concept"),
    [
        ("Subtotal 41.50. Tax 3.32. Total due 44.82.", "3.32", "tax"),
        ("Subtotal\n41.50\nTotal due\n44.82", "44.82", "total"),
        ("| Subtotal | 41.50 |\n| Total | 44.82 |", "41.50", "subtotal"),
        ("Subtotal            41.50\nTotal               44.82", "44.82", "total"),
    ],
)
def test_a_value_stands_under_the_nearest_label(text, value, concept):
    """On its line, above it, or in the cell before it."""
    labels = labels_in(plain(text), "amount")
    at = text.index(value)
    label, _ = nearest_label(labels, plain(text), at, at + len(value))
    assert label.concept == concept


def test_a_value_of_a_table_stands_under_the_head_of_its_column():
    """By bars, or by its place in the line."""
    for text in (
        "| Item | Qty | Unit price | Amount |\n|---|---|---|---|\n| Pen | 2 | 1.25 | 2.50 |",
        "Item      Qty   Unit price   Amount\nPen       2     1.25         2.50",
    ):
        labels = labels_in(plain(text))
        for value, concept in (("1.25", "unit_price"), ("2.50", "line_total")):
            at = text.index(value)
            heads = heads_in(labels, plain(text))
            label = label_of_column(heads, plain(text), at, at + len(value))
            assert label is not None
            assert label.concept == concept


@pytest.mark.parametrize("piece", ["total ", "total|", "a|b|", "invoice no ", "\n", "total\n1\n"])
def test_a_table_of_many_cells_is_read_with_bounded_work(piece):
    """Labels are bounded, and so is looking for the one of a place."""
    text = piece * (40_000 // len(piece))

    def read():
        labels = labels_in(text)
        heads = heads_in(labels, text)
        for at in range(0, len(text), len(text) // 20):
            nearest_label(labels, text, at, at + 1)
            label_of_column(heads, text, at, at + 1)

    assert calls_of(read) < 150_000


@pytest.mark.parametrize(
    ("line", "concepts"),
    [
        ("Total incl. GST 12.30", ["total"]), ("Total including tax: 5", ["total"]),
        ("Subtotal 5 Tax 1 Total 6", ["subtotal", "tax", "total"]),
    ],
)  # fmt: skip
def test_what_a_label_includes_is_no_label_of_its_own(line, concepts):
    """A total with its tax is a total; a row of sums has several labels."""
    assert [label.concept for label in labels_in(plain(line))] == concepts


def test_the_lowest_label_of_a_stack_says_nothing_of_the_value_below():
    """Where labels stand in one block and values in the next, nobody knows which belong together."""
    stack = "total\ncash\nchange\n26.60\n100.00\n73.40"
    assert nearest_label(labels_in(stack), stack, *span(stack, "26.60")) is None
    single = "rounding\nchange\n73.40"
    assert nearest_label(labels_in(single), single, *span(single, "73.40"))[0].concept == "change"


def test_a_value_on_a_line_of_its_own_stands_in_no_column():
    """A heading far above is the head of a table only for lines with several values."""
    text = "qty   amount\n2     5.00\n7.50"
    heads = heads_in(labels_in(text), text)
    assert label_of_column(heads, text, *span(text, "5.00")).concept == "line_total"
    assert label_of_column(heads, text, *span(text, "7.50")) is None


def test_the_head_of_a_table_counts_for_forty_lines():
    """What stands farther below may belong to another table."""
    text = "qty   amount\n" + "2     5.00\n" * 60
    heads = heads_in(labels_in(text), text)
    places = [at for at in range(len(text)) if text.startswith("5.00", at)]
    under = [label_of_column(heads, text, at, at + 4) is not None for at in places]
    assert under == [True] * 40 + [False] * 20


def span(text, part):
    start = text.index(part)
    return start, start + len(part)


@pytest.mark.parametrize(
    "line",
    [
        "TOTAL SALES INCL GST",
        "Total after adj. incl. GST",
        "TOTAL\n:",
        "Total (inclusive of tax) :",
    ],
)
def test_a_label_may_tell_what_it_includes_or_have_its_colon_below(line):
    """What stands under such a line stands under the label."""
    text = f"Shop\n{line}\n44.82\nThank you"
    label, how = nearest_label(labels_in(plain(text)), text, *span(text, "44.82"))
    assert (label.concept, how) == ("total", "above")


def test_a_quantity_in_total_is_no_total():
    """Of two labels on a line, the one that stands nearer to the value says what it is."""
    fields = {"total": None, "quantity": "quantity"}
    text = "Soap\nTotal qty: 4.00\nTotal: 8.20"
    for name, concept in fields.items():
        made = Record(value="4.00", field_config={"name": name}, retrieved_context=(Chunk(text),))
        (reading,) = read(made)
        assert (reading.label.concept if reading.label else None) == concept


@pytest.mark.parametrize("gap", [" ", "  ", "\t", " | "])
def test_a_table_needs_no_aligned_columns(gap):
    """A row stands under its head cell by cell, however the text of a file parts them."""
    rows = ["Item", "Qty", "Unit price", "Amount"], ["Hex bolts", "3", "2.50", "7.50"]
    text = "\n".join(map(gap.join, rows))
    heads = heads_in(labels_in(plain(text)), text)
    columns = [label_of_column(heads, text, *span(text, cell)) for cell in rows[1][1:]]
    assert [label.concept for label in columns] == ["quantity", "unit_price", "line_total"]


def test_a_row_with_too_few_figures_says_nothing_of_its_columns():
    """Where single spaces part the cells and one is empty, nobody knows which."""
    text = "Item Qty Unit price Amount\nHex bolts 2.50 7.50"
    heads = heads_in(labels_in(plain(text)), text)
    assert label_of_column(heads, text, *span(text, "7.50")) is None


def test_every_label_of_the_table_is_read_as_what_it_names():
    """Also with hyphens between its words, and in scripts whose letters carry marks."""
    table = json.loads((files("llmeval_sdk.text") / "data" / "labels.json").read_text("utf-8"))
    concepts: dict[str, set[str]] = {}
    for concept, labels in table.items():
        for label in labels:
            concepts.setdefault(label, set()).add(concept)
    read_labels = 0
    for label, meant in concepts.items():
        for text in (label, label.replace(" ", "-")):
            read_as = labels_in(f"{plain(text)}:")
            assert {one.concept for one in read_as[:1]} <= meant
            read_labels += bool(read_as)
    assert read_labels == 2 * len(concepts)
