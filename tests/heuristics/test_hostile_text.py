"""Texts made to be slow: everything stays linear, so a megabyte is a matter of moments."""

import time
from contextlib import suppress

import pytest
from machine import is_within, slowdown

from llmeval_sdk.text.amounts import Tokens, amounts, dates, times
from llmeval_sdk.text.budget import MAX_CHARACTERS, TooLargeError
from llmeval_sdk.text.folding import plain, words
from llmeval_sdk.text.support import EvidenceText, support


MEGABYTE = 1_000_000
PATTERNS = {
    "figures": "1",
    "spaced figures": "1 ",
    "groups of three": "111 ",
    "commas": "1,",
    "dots": "1.1.",
    "slashes": "1/",
    "dates": "1/1/1 ",
    "months": "may 1 of ",
    "links": "of ",
    "colons": "1:11:",
    "brackets": "((",
    "dollars": "$1m ",
    "number words": "twenty hundred and ",
    "initials": "a.",
    "one letter": "a",
    "spaces": " ",
    "marks": "e\u0301\u0302",
    "ideographs": "東",
    "quotes": "1'",
}
VALUES = ["2018-01-12 10:30", "RM 9.00", "2 years", "14 Harbour Lane, Port Ellen", "aaaa", "1 1 1"]


def parse(text):
    """Read a text in every way there is, without a cap, and return the processor time in seconds."""
    begun = time.thread_time()
    for _ in dates(text):
        pass
    for _ in amounts(Tokens(text)):
        pass
    times(text)
    words(text)
    return time.thread_time() - begun


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_makes_parsing_backtrack(pattern):
    """Eight times the text takes less than thirty times as long; a quadratic one takes 64 times."""

    def seconds(size):
        return parse(plain(PATTERNS[pattern] * (size // len(PATTERNS[pattern])) + "!"))

    small = min(seconds(1 << 13) for _ in range(3))
    assert any(seconds(1 << 16) < max(30 * small, 0.02 * slowdown()) for _ in range(3))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("value", VALUES)
def test_evidence_as_long_as_may_be_is_searched_or_refused_in_moments(pattern, value):
    """The budget counts what is read, so even the slow ways end soon."""
    evidence = EvidenceText((PATTERNS[pattern] * MAX_CHARACTERS)[:MAX_CHARACTERS])
    begun = time.thread_time()
    with suppress(TooLargeError):
        support(value, evidence)
    assert is_within(time.thread_time() - begun, 0.5)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_megabyte_as_a_value_is_checked_in_moments(pattern):
    """A model may also answer with a megabyte."""
    value = (PATTERNS[pattern] * MEGABYTE)[:MEGABYTE]
    begun = time.thread_time()
    with suppress(TooLargeError):
        assert support(value, EvidenceText("14 Harbour Lane")) in (None, "unsupported")
    assert is_within(time.thread_time() - begun, 0.5)
