"""How a text writes dates and numbers, and what its figures then mean."""

import pytest

from llmeval_sdk.heuristics.agreement import multi_source_agreement
from llmeval_sdk.heuristics.expected.exact_match import exact_match
from llmeval_sdk.heuristics.semantic_validation import semantic_validation
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text.conventions import Conventions, conventions_for, conventions_of
from llmeval_sdk.text.extraction import passages_of, places, values_in
from llmeval_sdk.text.support import EvidenceText, support
from llmeval_sdk.text.values import read_value, same_value


@pytest.mark.parametrize(
    ("locale", "order", "decimal"),
    [
        ("en-US", "mdy", "."), ("en_GB", "dmy", "."), ("de-DE", "dmy", ","), ("de-CH", "dmy", "."),
        ("fr-FR", "dmy", ","), ("ja-JP", "ymd", "."), ("hu", "ymd", ","), ("sv-SE", "ymd", ","),
        ("pt-BR", "dmy", ","), ("zh-Hant-TW", "ymd", "."), ("xx", None, None), ("", None, None),
        (None, None, None), (7, None, None), ("../../etc/passwd", None, None),
    ],
)  # fmt: skip
def test_a_locale_says_how_it_writes(locale, order, decimal):
    """What is no locale says nothing, and is no reason to fail."""
    assert conventions_for(locale) == Conventions(order, decimal)


@pytest.mark.parametrize(
    ("text", "order", "decimal"),
    [
        ("25/12/2025 and 03/04/2025", "dmy", None), ("12/25/2025, 03/04/2025", "mdy", None),
        ("25/12/2025 and 12/25/2025", None, None), ("03/04/2025", None, None),
        ("1.234,50 and 1.234", "dmy", ","), ("1,234.50", None, "."), ("12,50 or 12.50", None, None),
        ("version 1.2.33 of 01.02.2025", None, None), ("", None, None),
    ],
)  # fmt: skip
def test_a_text_says_how_it_writes_by_the_figures_that_leave_no_choice(text, order, decimal):
    """Where they contradict each other, everything stays open."""
    assert conventions_of(text) == Conventions(order, decimal)


@pytest.mark.parametrize(
    ("value", "text", "locale", "how"),
    [
        ("2025-04-03", "issued 03/04/2025", None, "date"),
        ("2025-03-04", "issued 03/04/2025", None, "date"),
        ("2025-03-04", "issued 03/04/2025, due 25/04/2025", None, "unsupported"),
        ("2025-04-03", "issued 03/04/2025, due 25/04/2025", None, "date"),
        ("2025-04-03", "issued 03/04/2025", "en-US", "unsupported"),
        ("2025-12-25", "issued 25/12/2025", "en-US", "date"),
        ("1234", "Summe 1.234 und 5,50", None, "number"),
        ("1234", "mean 1.234", "en-US", "unsupported"),
        ("1234", "Summe 1.234", "de-DE", "number"),
        (1234, "Summe 1.234 Stück", None, "number"),
    ],
)
def test_what_leaves_two_readings_open_is_settled_by_the_text_or_the_locale(
    value, text, locale, how
):
    """A given locale decides first; a date that does not exist in its order has the other one."""
    assert support(value, EvidenceText(text, locale=locale)) == how


def test_a_value_that_may_be_two_says_so():
    """A locale settles it."""
    assert read_value("03/04/2025").forms == ("2025-04-03", "2025-03-04")
    assert read_value("03/04/2025").is_ambiguous
    assert read_value("03/04/2025", locale="en-US").forms == ("2025-03-04",)
    assert read_value("1.234").forms == ("1.234", "1234")
    assert read_value("1.234", locale="de-DE").forms == ("1234",)
    assert not read_value("1 March 2026").is_ambiguous


def test_two_currencies_are_two_values():
    """An amount without one may be either, and a shared sign any that it stands for."""
    assert not same_value("5.00 EUR", "5.00 USD")
    assert same_value("5.00 EUR", "5")
    assert same_value("$5", "5.00 CAD")


PAIRS = [
    ("Northwind Traders Inc.", "Seller: Northwind Traders Inc.", "Seller: Northwind\nTraders Inc."),
    (
        "Northwind Traders Inc.",
        "Seller: Northwind Traders Inc.",
        "Seller: North-\nwind Traders Inc.",
    ),
    ("Northwind Traders Inc.", "Seller: Northwind Traders Inc.", "Northwind      Traders Inc.   9"),
    ("2026-03-01", "Issued 2026-03-01", "Issued 1 March 2026"),
    ("2026-03-01", "Issued 2026-03-01", "Émis le 1er mars 2026"),
    ("2026-06-16", "2026-06-16", "令和8年6月16日"),
    ("2026-11-12", "2026-11-12", "12 listopada 2026 r."),
    ("2025-07-05", "2025-07-05", "5 lip 2025"),
    ("번개물류 주식회사", "번개물류 주식회사", "번개물류 주식회사는 공급자"),
    ("BSD-3-Clause", "Licence: BSD-3-Clause", "under the 3-Clause BSD License"),
    ("DE", "Country: DE", "Land: Deutschland"),
    ("EUR", "in EUR", "in Euro"),
    ("EUR", "Total 5 EUR", "Total 5,00 €"),
    ("PLN", "in PLN", "Razem 1 234,50 zł"),
    ("false", "Taxable: false", "Taxable: no"),
    ("10280.27 EUR", "Total 10280.27 EUR", "Gesamt 10.280,27 €"),
    ("1234.50", "Total 1234.50", "Razem 1\u202f234,50 zł"),
    ("123456.00", "Total 123456.00", "Total ₹1,23,456.00"),
    ("1250.50", "Total 1250.50", "المجموع ١٬٢٥٠٫٥٠"),
    ("24 months", "Term: 24 months", "Term: two (2) years"),
    ("15 %", "Discount 15 %", "Discount: 15%"),
    ("office", "the office", "the o\ufb03ce"),
]


@pytest.mark.parametrize(("value", "plain", "other"), PAIRS)
def test_a_value_stands_in_every_form_of_its_document_for_every_score(value, plain, other):
    """What one score finds no other misses, and its place is in the text as it was written."""
    for text in (plain, other):
        made = Record(value=value, retrieved_context=(Chunk("x"), Chunk(text)))
        passages = passages_of(made)
        standing = places(value, passages)
        assert standing
        assert all(passages.number_at(place.start) == 2 for place in standing)
        assert all(passages.text[place.start : place.end].strip() for place in standing)
        made = Record(value=value, retrieved_context=(Chunk(text),), field_config={"name": "it"})
        assert semantic_validation.evaluate(made).value == "pass"


def test_the_values_of_a_kind_are_listed_with_their_forms():
    """They are what a value competes with."""
    made = Record(value="x", retrieved_context=(Chunk("1 March 2026, due 15.04.2026"),))
    assert [value.form for value in values_in(passages_of(made), "date")] == [
        "2026-04-15", "2026-03-01",
    ]  # fmt: skip


def test_spellings_of_one_value_agree():
    """Extractors that write it in other ways are no conflict; two currencies are one."""

    def share(*values):
        extractions = tuple(Extraction(value) for value in values)
        return multi_source_agreement.evaluate(Record(extractions=extractions)).value

    assert share("2026-03-01", "1 March 2026", "1. März 2026") == 1.0
    assert share("1,234.50", "1.234,50 EUR") == 1.0
    assert share("5 EUR", "5 USD") == 0.5
    assert share("Ada", "Bob") == 0.5


@pytest.mark.parametrize(
    ("answer", "expected", "same"),
    [
        ("1 March 2026", "2026-03-01", True), ("2026-03-02", "1 March 2026", False),
        ("10.280,27 EUR", "10,280.27 EUR", True), ("Germany", "DE", True),
        ("5 EUR", "5 USD", False), ("The Slate", "slate", True), ("no", "none", False),
    ],
)  # fmt: skip
def test_an_expected_value_is_matched_in_any_form(answer, expected, same):
    """So that an ISO date is no error."""
    assert exact_match.evaluate(Record(response=answer, expected_response=expected)).value is same


@pytest.mark.parametrize(
    "value",
    [
        "9" * 1_000_000, "1.234," * 100_000, "١2٣4", "30.02.2026", "5 EUR 6 USD", "a\u0301" * 5_000,
        "|".join(["1,5"] * 100_000),
    ],
    ids=["figures", "marks", "mixed digits", "no day", "two currencies", "accents", "table"],
)  # fmt: skip
def test_a_hostile_value_is_read_in_bounds(value):
    """It has a kind, a form and no error, as a value and as a text."""
    assert read_value(value).kind
    made = Record(value=value, retrieved_context=(Chunk("Total 12.50"), Chunk(value)))
    passages = passages_of(made)
    assert len(places(value, passages) or ()) <= 20
    assert len(values_in(passages, "money")) <= 300
