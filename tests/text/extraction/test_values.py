"""Extracted values: which are no answer, and when two of them are equal."""

import pytest

from llmeval_sdk.text.values import abstained, items, normal


NO_ANSWERS = [
    None, "", "  ", "-", "—", "N/A", "none", "Unknown", "not found", "Not specified in the text",
    "No license found", "There is no total in this receipt.", "I could not find it.",
    "The document does not mention a date", "cannot be determined", [], {}, [None, ""], {"a": None},
]  # fmt: skip
ANSWERS = [
    0, 0.0, False, "0", "No", "Notting Hill", "No. 12, Jalan", "Unknown Pleasures", "A/N",
    ("There is no limit on liability under this agreement, and each party shall be responsible for"
    " its own damages, costs and expenses, whatever their cause may turn out to be in the end."),
    ["a", None], {"a": 1},
]  # fmt: skip


@pytest.mark.parametrize("value", NO_ANSWERS, ids=repr)
def test_no_answer_is_a_state_of_its_own(value):
    """Absent, empty and refused values abstain."""
    assert abstained(value)


@pytest.mark.parametrize("value", ANSWERS, ids=repr)
def test_what_only_looks_like_no_answer_is_one(value):
    """Zeros, names and clauses are values."""
    assert not abstained(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RM 1,234.50", "1234.5"), ("May 2015", "2015-05"), ("$9.00", "9"), ("ACME  Ltd.", "acme ltd"), (9, "9.00"),
        ("1'234.50", "1234.50"), ("25/12/2018", "25-12-2018"), ("-5.00", -5), ("1,234", "1234"),
        ("12,50", "12.50"), ("1 March 2026", "2026-03-01"), ("2026年3月1日", "1. März 2026"),
        ("Germany", "DE"), ("BSD-3-Clause", "3-clause BSD"), ("10.280,27 EUR", "10280.27"),
        ("1 234,50 zł", "1234.5"), ("2 years", "24 months"), ("15 %", "15%"),
    ],
)  # fmt: skip
def test_spellings_of_one_value_are_equal(one, other):
    """Case, punctuation, currency and separators do not matter."""
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.234", "1234"), ("9.00", "9.10"), ("1.2.3", "1.23"), ("-5", "5"), ("a b", "ab")],
)
def test_different_values_are_not_equal(one, other):
    """What could be another value is another value."""
    assert normal(one) != normal(other)


def test_nested_values_are_read_to_a_bound():
    """Lists and mappings give their items, however deep and long they are."""
    deep = "end"
    for _ in range(5_000):
        deep = [deep]
    assert list(items({"a": [1, {"b": 2}]})) == [1, 2]
    assert len(list(items(list(range(10_000))))) == 50
    assert list(items(deep)) == []


def test_a_value_that_cannot_be_written_is_no_reason_to_fail():
    """An int of ten thousand digits and a broken object have no text."""

    class Broken:
        def __str__(self):
            raise RuntimeError("no")

    assert normal(10**10_000) == normal(Broken()) == ""
