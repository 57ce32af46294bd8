"""The generated documents and answers that extraction is measured on are what they claim to be."""

import datetime as dt
from decimal import Decimal

import pytest

from benchmarks.quality.document_words import KEPT_APART, WORDS
from benchmarks.quality.documents import APART, LAYOUTS, TRAIN, documents, vendors_of
from benchmarks.quality.form_pairs import pairs
from benchmarks.quality.structured_answers import EMPTY, ERRORS, RIGHT, answers
from llmeval_sdk.model.structure import fields_of


COUNT = 36
LOCALES = sorted(WORDS)


@pytest.fixture(scope="module")
def every():
    return {locale: answers(locale, COUNT) for locale in LOCALES}


def test_the_same_arguments_give_the_same():
    """Documents, answers and pairs are equal when they are made again, and differ by the seed."""
    assert documents("de-DE", 12, APART) == documents("de-DE", 12, APART)
    assert answers("ja-JP", 12) == answers("ja-JP", 12)
    assert pairs() == pairs()
    assert documents("de-DE", 12, APART, 1) != documents("de-DE", 12, APART, 2)


def test_there_are_enough_values_of_enough_locales(every):
    """At least 15 locales, four of them never trained on, have 300 values each."""
    assert len(LOCALES) >= 15
    assert len(KEPT_APART) >= 4
    for locale, made in every.items():
        assert sum(len(answer.given) for answer in made) >= 300, locale


def test_splits_share_no_layout_company_or_locale():
    """What is measured stands in layouts and names companies that no training text has."""
    assert not set(LAYOUTS[TRAIN]) & set(LAYOUTS[APART])
    for locale in set(WORDS) - set(KEPT_APART):
        words = WORDS[locale]
        assert not set(vendors_of(words, TRAIN)) & set(vendors_of(words, APART))
        texts = "\n".join(document.text for document in documents(locale, COUNT, TRAIN))
        assert not any(vendor in texts for vendor in vendors_of(words, APART))
        rare = [names[-1] for names in words.labels.values() if len(names) > 1]
        assert not any(f"{label}:" in texts or f"| {label} |" in texts for label in rare)
    for locale in KEPT_APART:
        with pytest.raises(ValueError, match="kept apart"):
            documents(locale, 1, TRAIN)


@pytest.mark.parametrize("locale", LOCALES)
def test_documents_add_up(locale):
    """Quantity by price is the amount, amounts the subtotal, and with tax the total; dates follow."""
    for document in documents(locale, COUNT, APART):
        truths = {fact.key: fact.truth for fact in document.facts}
        rows = [{fact.key: fact.truth for fact in row} for row in document.rows]
        if "price" in (rows[0] if rows else {}):
            assert all(row["quantity"] * row["price"] == row["amount"] for row in rows)
            assert sum(row["amount"] for row in rows) == truths["subtotal"]
        if "total" in truths:
            assert truths["subtotal"] + truths["tax"] == truths["total"]
        if "due" in truths:
            assert truths["issued"] < truths["due"]
        if "end" in truths:
            assert truths["start"] < truths["end"]


@pytest.mark.parametrize("locale", LOCALES)
def test_right_values_are_right_and_wrong_ones_are_wrong(every, locale):
    """A right value is the truth in one of its forms; a wrong one is in none of them."""
    for answer in every[locale]:
        style = answer.document.style
        for one in answer.given:
            assert (one.value is None) == (not one.has_value)
            if one.kind == EMPTY:
                assert one.key not in {fact.key for fact in answer.document.facts}
                continue
            forms = [one.truth, style.text(one.key, one.truth)]
            if isinstance(one.truth, Decimal):
                forms.append(float(one.truth))
            if isinstance(one.truth, dt.date):
                forms.append(one.truth.isoformat())
            assert (one.value in forms) == (one.kind == RIGHT), one
            assert forms[1] in answer.document.text


def test_errors_are_of_every_kind_and_as_many_as_asked_for(every):
    """About a tenth is wrong by default, in all the ways that are named; the share can be set."""
    given = [one for made in every.values() for answer in made for one in answer.given]
    kinds = [one.kind for one in given if one.kind != EMPTY]
    wrong = [kind for kind in kinds if kind != RIGHT]
    assert 0.08 < len(wrong) / len(kinds) < 0.12
    assert set(wrong) == set(ERRORS)
    more = [one for answer in answers("en-GB", COUNT, wrong=0.4) for one in answer.given]
    filled = [one for one in more if one.kind != EMPTY]
    assert 0.3 < sum(one.is_wrong for one in filled) / len(filled) < 0.5


@pytest.mark.parametrize("locale", LOCALES)
def test_an_answer_is_read_as_the_fields_that_it_was_made_of(every, locale):
    """The package finds each value of an object at the path at which it was put."""
    for answer in every[locale]:
        found = {field.path: field.value for field in fields_of(answer.record()).fields}
        assert found == {one.path: one.value for one in answer.given}


def test_the_right_document_is_among_the_passages(every):
    """Every answer could have been read from its passages, which hold another document too."""
    for made in every.values():
        for answer in made:
            files = {chunk.doc_uri for chunk in answer.chunks}
            assert answer.document.file in files
            assert len(files) > 1


def test_pairs_differ_in_value_or_passage_alone():
    """There are 300 pairs, and what is asked is the same in both records of each."""
    made = pairs()
    assert len(made) >= 300
    for pair in made:
        assert pair.plain.request == pair.changed.request
        assert pair.plain.field_config == pair.changed.field_config
        changed = pair.plain.value != pair.changed.value
        assert changed != (pair.plain.retrieved_context != pair.changed.retrieved_context)
