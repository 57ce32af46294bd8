"""Each feature of `extraction_risk` alone: what raises it, and what does not."""

from dataclasses import replace

import pytest

from llmeval_sdk.heuristics.extraction import risk
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text.extraction import read


RECEIPT = "DATE: 25/12/2018\nSUBTOTAL 41.50\nTAX 3.32\nTOTAL DUE 44.82\nCASH 50.00"
GOOD = Record(
    request="What is the total?",
    value="44.82",
    confidence="HIGH",
    field_config={"name": "total", "description": "amount to pay"},
    extractions=(Extraction("44.82", 1, 0.9), Extraction("44.82", 2, 0.8)),
    retrieved_context=(
        Chunk(RECEIPT, chunk_id="a", score=0.9, retrieval_method="bm25"),
        Chunk(RECEIPT, chunk_id="a", score=0.8, retrieval_method="knn"),
        Chunk("Opening hours 9-17", chunk_id="b", score=0.2, retrieval_method="bm25"),
    ),
)


def features(record):
    (reading,) = read(record)
    return risk.features(record, reading)


CASES = [
    ("against", {"extractions": (Extraction("44.82", 1), Extraction("41.50", 1))}),
    ("split", {"extractions": (Extraction("44.82", 1), Extraction("41.50", 1))}),
    ("outvoted", {"extractions": (Extraction("41.50", 1),) * 2}),
    ("lone", {"extractions": (Extraction("44.82", 1, 0.9),)}),
    ("few_sources", {"extractions": (Extraction("44.82", 1),) * 2}),
    ("unsure", {"confidence": "LOW"}),
    ("unsure_self", {"extractions": (Extraction("44.82", 1, 0.2),) * 2}),
    ("rival_nearer", {"value": "41.50"}),
    ("no_cue", {"value": "50.00"}),
    ("outnumbered", {"retrieved_context": (Chunk(RECEIPT), Chunk("3.32 a 3.32 b 3.32"))}),
    ("wrong_format", {"field_config": {"name": "total", "format": "date"}}),
    ("wrong_kind", {"value": "CASH"}),
    ("free_form", {"value": "CASH"}),
    ("has_label", {"value": "TOTAL DUE: 44.82"}),
    ("long", {"value": "word " * 30}),
    ("cut_off", {"value": "Opening hours 9"}),
    ("absent", {"value": "99.99"}),
    ("absent_exact", {"value": "99.99"}),
    ("inexact", {"value": "Openign hours 9-17"}),
    ("uncited", {"extractions": (Extraction("44.82", 3),)}),
    ("low_rank", {"extractions": (Extraction("44.82", 3),)}),
    ("low_score", {"extractions": (Extraction("44.82", 3),)}),
    ("one_side", {"extractions": (Extraction("44.82", 3),)}),
    ("qualified", {"value": "3.32"}),
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=lambda case: str(case)[:40])
def test_a_feature_rises_where_its_sign_of_trouble_is(name, changes):
    """Beside a sound record, one change raises it; it stays within 0..1."""
    sound, odd = features(GOOD)[name], features(replace(GOOD, **changes))[name]
    assert 0 <= sound < odd <= 1


def test_common_words_are_no_name():
    """A name whose words the passages use in lower case is probably none."""
    text = "The License applies to the license holders. Written by Ada Lovelace."
    assert features(Record(value="The License", retrieved_context=(Chunk(text),)))["common"] > 0
    assert features(Record(value="Ada Lovelace", retrieved_context=(Chunk(text),)))["common"] == 0


def test_an_address_of_somebody_else_is_unrelated():
    """A rival address has the name that the request asks about."""
    text = "See https://example.org/rich and https://example.org/other for more."
    made = Record(
        request="Where is the source of rich?",
        value="https://example.org/other",
        retrieved_context=(Chunk(text),),
    )
    assert features(made)["unrelated"] == 1
    assert features(replace(made, value="https://example.org/rich"))["unrelated"] == 0


def test_extractions_in_lists_vote_for_each_item():
    """An extraction of two values supports both."""
    made = replace(GOOD, value=["a", "b"], extractions=(Extraction(["a", "b"], 1),) * 2)
    for reading in read(made):
        assert risk.measure_votes(made, reading, 0.9)["against"] == 0


def test_ten_thousand_extractions_cost_no_more_than_two_hundred():
    """Only the first ones are read."""
    many = replace(GOOD, extractions=(*GOOD.extractions, *(Extraction("1.00", 1),) * 10_000))
    two_hundred = replace(many, extractions=many.extractions[:200])
    assert features(many) == features(two_hundred)


# Names, addresses and totals: what they look like, and where they stand.

SLIP = "HARBOUR SUPPLIES SDN BHD\n12 Quay Road, Bergen\nCASHIER: ANNA\n" + RECEIPT


def of_field(name, value, text=SLIP):
    record = Record(
        value=value, field_config={"name": name}, retrieved_context=(Chunk(text),), request="?"
    )
    return features(record)


@pytest.mark.parametrize(
    ("name", "wrong", "right", "feature"),
    [
        ("company", "CASHIER:", "HARBOUR SUPPLIES SDN BHD", "is_label"),
        ("company", "TOTAL DUE", "HARBOUR SUPPLIES SDN BHD", "is_label"),
        ("address", "SUBTOTAL", "12 Quay Road, Bergen", "is_label"),
        ("vendor", "ANNA", "HARBOUR SUPPLIES SDN BHD", "no_legal_form"),
        ("vendor", "ANNA", "HARBOUR SUPPLIES SDN BHD", "far_down"),
        ("address", "HARBOUR SUPPLIES SDN BHD", "12 Quay Road, Bergen", "no_address"),
        ("address", "12 Quay Road, Bergen\nCASHIER: ANNA", "12 Quay Road,\nBergen", "foreign_line"),
        ("address", "1 March 2026\n12 Quay Road", "12 Quay Road,\nBergen", "foreign_line"),
        ("company", "Harbour Sdn Bhd (1248717-W)", "Harbour Sdn Bhd", "foreign_line"),
        ("vendor", "www.harbour.example", "HARBOUR SUPPLIES SDN BHD", "foreign_line"),
        ("total", "3.32", "44.82", "exceeded"),
        ("total", "3.32", "44.82", "no_sum"),
    ],
)
def test_a_value_of_another_kind_of_field_is_told_by_its_looks(name, wrong, right, feature):
    """A label is no company, a company no address, and a tax no total."""
    assert of_field(name, wrong)[feature] > of_field(name, right).get(feature, 0.0)


def test_a_name_with_one_word_of_labels_is_still_a_name():
    """Half of the words have to be those of labels before it is surely one."""
    assert of_field("company", "Cash and Carry Northern Foods")["is_label"] < 0.5


def test_what_was_paid_may_be_more_than_the_total():
    """Amounts on the lines of cash and change do not speak against it."""
    assert of_field("total", "44.82")["exceeded"] == 0.0


def test_names_without_capitals_are_not_common_for_that():
    """In a script that has no capitals, a name stands in the text as it would in small letters."""
    assert of_field("contact", "김 민준", "담당자: 김 민준 님")["common"] == 0.0


def test_a_licence_that_the_text_tells_in_other_words_is_not_exactly_absent():
    """A number or a date is found in every form; a code may be concluded from what stands there."""
    measured = features(replace(GOOD, value="BSD-3-Clause", field_config={"name": "license"}))
    assert measured["absent"] == 1
    assert measured["absent_exact"] == 0


def test_a_misspelt_name_is_told_with_the_spelling_of_the_passage():
    """Two letters that changed places make another name, which the reason shows."""
    text = "Golden Arches Restaurants Ltd\n12 High Street\nTOTAL 44.82"
    made = [
        risk.extraction_risk.evaluate(
            Record(value=value, field_config={"name": "company"}, retrieved_context=(Chunk(text),))
        )
        for value in ("Golden Arches Restaurants Ltd", "Golden Arhces Restaurants Ltd")
    ]
    right, wrong = made
    assert wrong.explanation == "the passages have it as 'Golden Arches Restaurants Ltd'"
    assert wrong.value > 3 * right.value
