"""Which values a text supports, and which it does not: one line per case, in our own words."""

import datetime as dt
import decimal

import pytest

from llmeval_sdk.text.support import EvidenceText, find, support


SUPPORTED = [
    # as it stands, or normalised
    ("Marble Arch Bakery", "at Marble Arch Bakery today", "verbatim"),
    ("marble  arch bakery", "MARBLE ARCH\nBAKERY", "normalised"),
    ("Marble_Arch_Bakery", "Marble Arch Bakery", "normalised"),
    ("Marble Arch Bakery", "MarbleArch Bakery", "normalised"),
    ("Smith & Sons", "Smith and Sons", "normalised"),
    ("O’Neill", "O'NEILL", "normalised"),
    ("José García", "JOSE GARCIA", "normalised"),
    ("Straße", "STRASSE", "normalised"),
    ("Łódź", "LODZ", "normalised"),
    ("Ｔｏｋｙｏ", "Tokyo", "normalised"),
    ("Київ", "КИЇВ", "normalised"),
    ("東京都", "住所：東京都港区", "verbatim"),
    ("ภาษาไทย", "คือภาษาไทยนะ", "verbatim"),
    ("हिन्दी", "यह हिन्दी है", "verbatim"),
    ("AB-1234/56", "Ref AB 1234 / 56", "normalised"),
    ("012-345 6789", "Tel: 0123456789", "normalised"),
    ("0123456789", "Tel 012-345 6789", "normalised"),
    ("BBB+", "rated BBB+ by two agencies", "verbatim"),
    # numbers and money
    ("1,234.50", "Total 1.234,50 EUR", "number"),
    ("1.234,50", "total 1234.50", "number"),
    ("1234.5", "1 234,50 €", "number"),
    ("1234.5", "1\u00a0234,50", "number"),
    ("1234567", "1'234'567", "number"),
    ("₹1,00,000", "Rs. 100000", "money"),
    ("1 lakh", "INR 1,00,000", "number"),
    ("$1.2 million", "USD 1,200,000", "money"),
    ("1200000", "$1.2 million", "number"),
    ("1.2", "$1.2 million", "verbatim"),
    ("€5k", "EUR 5,000", "money"),
    ("EUR 1.5m", "€1.5 million", "money"),
    ("GBP 20", "£20.00", "money"),
    ("USD 250000", "Two Hundred Fifty Thousand Dollars", "money"),
    ("twelve", "12 boxes", "number"),
    ("ninety-nine", "99 boxes", "number"),
    (12, "twelve boxes", "number"),
    (9.0, "RM 9.00", "number"),
    (-5.59, "discount (5.59)", "number"),
    (decimal.Decimal("12.50"), "12.5", "number"),
    ("５", "5 boxes", "number"),
    # percent and units
    ("12%", "twelve percent", "unit"),
    ("0.12", "12 %", "number"),
    ("12 percent", "a rate of 12.00%", "unit"),
    ("50 %", "fifty per cent", "unit"),
    ("1.5 kg", "1500 g", "unit"),
    ("3 km", "3,000 m", "unit"),
    ("5 kg", "Weight (kg): 5", "unit"),
    ("90 minutes", "1.5 hours", "unit"),
    ("2 years", "for a term of two (2) years from", "unit"),
    ("two (2) years", "a term of 2 years", "unit"),
    ("24 months", "a period of two years", "unit"),
    ("18 months", "an 18-month period", "unit"),
    ("5 days", "within five (5) business days of", "unit"),
    ("1 year", "within a year", "unit"),
    ("1 year 6 months", "one year and six months", "unit"),
    # dates
    ("2018-01-12", "January 12, 2018", "date"),
    ("12/01/2018", "January 12, 2018", "date"),
    ("2015-06-03", "effective as of the 3rd day of June, 2015", "date"),
    ("03/06/2015", "this third day of June 2015", "date"),
    ("2015-03-21", "the twenty-first day of March, 2015", "date"),
    ("2018-12-25", "DATE 25/12/20188:13:39 PM", "date"),
    ("2019-01-12", "12-01-19 21:13", "date"),
    ("2021-03-12", "12. März 2021", "date"),
    ("2021-03-12", "12 de março de 2021", "date"),
    ("2021-03-12", "2021年3月12日", "date"),
    ("2021-03", "12 March 2021", "date"),
    ("March 2021", "12-Mar-21", "date"),
    ("2021-03-12T10:30:00Z", "12 March 2021 at 10:30 AM", "date"),
    ("2021-03-12T00:00:00", "12 March 2021", "date"),
    ("20180304", "04/03/2018 15:41", "date"),
    (dt.date(2021, 3, 12), "March 12th, 2021", "date"),
    # nearly
    ("Riverside Trading Company", "RIVERSlDE TRADING COMPANY", "aligned"),
    ("14 Harbour Lane, Port Ellen", "14 HARBOUR LANF, P0RT ELLEN", "aligned"),
    ("Northgate Engineering", "NORTHGATE ENGINEERlNG", "aligned"),
    ("D.I.Y. Warehouse Limited", "D.T.Y. WAREHOUSE LIMITED", "aligned"),
    ("Ana Maria Castellanos", "Ana Maria de Castellanos", "aligned"),
    ("Riverside Industries", "RIVER5IDE INDUSTRIES", "aligned"),
    ("John Smith", "SMITH, JOHN", "aligned"),
    ("30 days written notice", "thirty (30) days' written notice", "normalised"),
    ("Courts of the State of Ohio", "courts of State of Ohio", "aligned"),
    ("State of Ohio", "under the laws of Ohio", "normalised"),
    ("Ohio, USA", "under the laws of the State of Ohio", "normalised"),
    # several in one text
    ("Acme Ltd. and Granite Inc.", "Acme Ltd., of Hull, meets Granite Inc. there", "verbatim"),
    ("Acme Ltd. (Seller); Bolt Inc. (Buyer)", "Acme Ltd., of Hull, and Bolt Inc.", "verbatim"),
    ("Bolt Inc.\n2 years", "for two years, at Bolt Inc.", "unit"),
]

UNSUPPORTED = [
    ("Ann", "Annual report"),
    ("50", "12.50"),
    ("12", "12.50 and 2012"),
    ("9.00", "19.00"),
    ("1,234.50", "1,234.05"),
    ("USD 9.00", "EUR 9.00"),
    ("500 EUR", "500 %"),
    ("380 million", "380 years"),
    ("-5.59", "total 5.59"),
    ("6%", "6 items"),
    ("5 kg", "5 km and 5 g"),
    ("3 years", "two (2) years"),
    ("2 years", "two (2) months; Section 2"),
    ("2 years", "2 parties"),
    ("2 years", "a period of three (3) years, expiring on March 2, 2017"),
    ("2 years", "within three years. On March 2 the parties meet"),
    ("1 year", "2 years and 1 month"),
    ("2018-01-13", "January 12, 2018"),
    ("12/01/2018", "01/12/2018"),
    ("12 March 2021", "12 May 2021"),
    ("2021-03-12", "March 2021"),
    ("2021-03-12T10:30:00", "12 March 2021 at 11:30"),
    ("Riverside Trading", "Riverside Engineering"),
    ("John Smith", "John Brown and Mary Smith"),
    ("Eastern Cape", "Western Cape"),
    ("Southern Harbour Lane Holdings", "Northern Harbour Lane Holdings"),
    ("Copper Harbour Meadow Granite", "Pepper Harbour Meadow Granite"),
    ("State of Delaware", "State of New York"),
    ("Block B", "Block A"),
    ("53 Harbour Lane", "55 Harbour Lane"),
    ("No. 12, 3 Harbour Lane", "No. 1, 23 Harbour Lane"),
    ("The Riverside Trading", "Old Riverside Trading"),
    ("Kim Lee", "Jim Lee"),
    ("BBB+", "rated BBB-"),
    ("Acme Ltd. and Granite Inc.", "Acme Ltd., of Hull, and Bolt Inc."),
    ("Acme Ltd.; Granite Inc.", "Acme Ltd., of Hull, and Bolt Inc."),
    ("東京", "大阪府"),
    ("हिन्दी", "हिन्दू"),
]


@pytest.mark.parametrize(("value", "text", "how"), SUPPORTED, ids=[f"{v}|{t}"[:60] for v, t, _ in SUPPORTED])  # fmt: skip
def test_a_true_value_is_found_however_it_is_written(value, text, how):
    """The text says the same, and the verdict says how it was seen."""
    assert support(value, EvidenceText(text)) == how


@pytest.mark.parametrize(("value", "text"), UNSUPPORTED, ids=[f"{v}|{t}"[:60] for v, t in UNSUPPORTED])  # fmt: skip
def test_a_wrong_value_is_not_found(value, text):
    """What looks alike is not the same."""
    assert support(value, EvidenceText(text)) == "unsupported"


def test_a_list_of_thousands_is_looked_for_as_one_text():
    """Its parts would be no value of a field, and their number is a stranger's."""
    assert support("Ada; " * 5_000, EvidenceText("Ada")) == "unsupported"
    assert support("Ada; " * 10, EvidenceText("Ada")) == "verbatim"


@pytest.mark.parametrize("value", [None, "", " ", "...", float("nan"), float("inf")])
def test_nothing_is_not_looked_for(value):
    """There is nothing to find."""
    assert support(value, EvidenceText("nan None True")) is None


def test_amounts_that_are_present_but_not_meant_cannot_be_seen():
    """A known limit: another amount of the same text counts as found."""
    assert support("100.00", EvidenceText("Total 9.00, cash 100.00, change 91.00")) == "verbatim"


@pytest.mark.parametrize(
    ("value", "text", "how"),
    [
        ("Northwind Traders Inc.", "Seller: Northwind Traders\nInc., Oslo", "normalised"),
        ("2026-03-01", "Invoice date: 1 March 2026", "date"),
        ("2026-11-12", "Datum: 12. November 2026", "date"),
        ("2026-06-16", "発行日 2026年6月16日", "date"),
        ("2026-06-16", "発行日 令和8年6月16日", "date"),
        ("2026-03-01", "Päiväys 1. maaliskuuta 2026", "date"),
        ("2026-03-01", "Дата: 1 марта 2026 г.", "date"),
        ("2026-03-01", "Fecha: 1 de marzo de 2026", "date"),
        ("2026-03-01", "Kelt: 2026. március 1.", "date"),
        ("2026-03-01", "Data: 1 marca 2026 r.", "date"),
        ("10280.27", "Gesamtbetrag 10.280,27 EUR", "number"),
        ("EUR 10,280.27", "Gesamtbetrag 10.280,27 €", "money"),
        ("1234.5", "Razem 1 234,50 zł", "number"),
        ("123456.00", "Total ₹1,23,456.00", "number"),
        ("1200000", "合計 120万円", "number"),
        ("BSD-3-Clause", "Released under the 3-Clause BSD License.", "code"),
        ("BSD-3-Clause", "License: new BSD", "code"),
        ("GPL-3.0-or-later", "under the GNU General Public License, version 3", "code"),
        ("DE", "Land: Deutschland", "code"),
        ("Germany", "Country of origin: DE", "code"),
        ("EUR", "alle Beträge in Euro", "code"),
        ("North wind", "the North-\nwind range", "normalised"),
        ("office", "the o\ufb03ce", "normalised"),
        (True, "Reverse charge: yes", "boolean"),
        ("false", "Reverse charge: nein", "boolean"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_found_in_the_form_in_which_the_document_has_it(value, text, how):
    """A line break, a normal form, another language or a code changes nothing."""
    answer = find(value, EvidenceText(text))
    assert answer.how == how
    assert answer.spans


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("DE", "Calle de la Rosa, Madrid"), ("2026-03-01", "1 April 2026, 2026-01-03"),
        ("BSD-2-Clause", "3-Clause BSD License"), ("IT", "it is on the list"),
        ("10280.27", "10.208,27 EUR"), ("GPL-2.0", "GNU General Public License version 3"),
    ],
)  # fmt: skip
def test_a_value_is_not_found_in_what_only_looks_like_it(value, text):
    """A code is no word in small letters, and another date or amount is another value."""
    assert support(value, EvidenceText(text)) == "unsupported"


@pytest.mark.parametrize(
    ("value", "text", "stated"),
    [
        ("Northwind Traders Inc.", "Seller: Northwind Traders\nInc., Oslo", "Northwind Traders\nInc"),
        ("2026-03-01", "Date: 1 March 2026.", "1 March 2026"),
        ("2026-03-01", "Päiväys: 1. maaliskuuta 2026", "1. maaliskuuta 2026"),
        ("10280.27", "ﬁnal: 10.280,27 EUR due", "10.280,27 EUR"),
        ("DE", "Straße 5, Deutschland!", "Deutschland"),
        ("株式会社アサヒ", "請求元: 株式会社\nアサヒ 御中", "株式会社\nアサヒ"),
        ("Jonas Weber-Lang", "von Jonas  Weber - Lang, Köln", "Jonas  Weber - Lang"),
        ("Harbour Trading Ltd", "at Harbuor Trading Ltd today", "Trading Ltd"),
        (True, "Is it paid? Yes.", "Yes"),
    ],
)  # fmt: skip
def test_a_value_has_a_place_in_the_text_as_it_was_written(value, text, stated):
    """The viewer marks that place, whatever was folded to find it."""
    start, end = find(value, EvidenceText(text)).spans[0]
    assert text[start:end] == stated
