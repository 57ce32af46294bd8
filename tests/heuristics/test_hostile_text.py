"""Texts made to be slow: everything stays linear, counted in calls, so a megabyte is no matter."""

from contextlib import suppress

import pytest
from counted import calls_of
from hostile_pieces import PATTERNS, parse

from llmeval_sdk.text.budget import MAX_CHARACTERS, TooLargeError
from llmeval_sdk.text.folding import plain
from llmeval_sdk.text.support import EvidenceText, support


MEGABYTE = 1_000_000
VALUES = ["2018-01-12 10:30", "RM 9.00", "2 years", "14 Harbour Lane, Port Ellen", "aaaa", "1 1 1"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_parsing_is_linear_in_any_pattern(pattern):
    """Eight times the text takes at most nine times the calls; a quadratic way takes 64 times."""

    def calls(size):
        text = plain(PATTERNS[pattern] * (size // len(PATTERNS[pattern])) + "!")
        return calls_of(lambda: parse(text))

    parse("1")  # makes what all readings share
    assert calls(1 << 16) <= 9 * calls(1 << 13) + 100


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("value", VALUES)
def test_evidence_as_long_as_may_be_is_searched_or_refused_with_bounded_work(pattern, value):
    """The budget counts what is read, so even the slow ways end soon."""
    evidence = EvidenceText((PATTERNS[pattern] * MAX_CHARACTERS)[:MAX_CHARACTERS])

    def search():
        with suppress(TooLargeError):
            support(value, evidence)

    assert calls_of(search) < 25_000


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_megabyte_as_a_value_is_checked_with_bounded_work(pattern):
    """A model may also answer with a megabyte."""
    value = (PATTERNS[pattern] * MEGABYTE)[:MEGABYTE]

    def check():
        with suppress(TooLargeError):
            assert support(value, EvidenceText("14 Harbour Lane")) in (None, "unsupported")

    assert calls_of(check) < 25_000
