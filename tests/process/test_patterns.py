"""How long a text may be is known of a pattern before it is matched with any."""

import re
import subprocess
import sys

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.heuristics._reading import _SITE, matches
from llmeval_sdk.process.patterns import UnboundedPatternError, longest_text
from llmeval_sdk.process.shield import caught


USUAL = [
    r"\d{4}-\d{2}-\d{2}", r"[A-Z]{2}\d+", r".*", r"\d+(\.\d+)?", r"(\d{1,3}\.){3}\d{1,3}",
    r"\d{1,3}(,\d{3})*(\.\d+)?", r"^\s*\$?\d+(?:,\d{3})*(?:\.\d{2})?\s*$", r"https?://\S+",
    r"(?=.*\d)(?=.*[a-z]).{8,}", r"[a-z0-9]+(-[a-z0-9]+)*", r"(yes|no|maybe)", r"(a|b|c)+",
    r"(Jan|Feb|Mar|Jun|Jul) \d{1,2}, \d{4}", r"\w+(\s\w+){0,5}", r"(\d+)-\1", r"(?i)(mr|ms)\.? \w+",
]  # fmt: skip
SHORTER = [r"[^@]+@[^@]+\.[a-z]+", r".+,.+", r"(\w+\s)*\w+", r"([A-Z][a-z]+ )*[A-Z][a-z]+"]
ENDLESS = [
    r"(a+)+", r"(a*)*", r"(a|a)*", r"(a|aa)+", r"(\w+\s?)+", r"(\d+,?)+", r"((ab)*)*", r"(.*)*",
    r"(?:\w+\W?)+", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(x+x+)+y", r"(a?){30}a{30}", r"(.*a){12}",
    r"(?:a{1,50}){1,50}", r"\s*\s*\s*\s*\s*\s*x", r"ID-(a+)+", r"(a{2,3}|a{3,4})+", r"(a|(a))*b",
    r"(?:(?:a|b)*(?:b|c)*)*", r"(?i)(a|A\b)+", r"(?:a|ab|b)*c", r"(\w+\d?)*-", "(" * 900, "x" * 3_000,
]  # fmt: skip


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_match_texts_of_any_usual_length(pattern):
    """Also as compiled ones."""
    assert longest_text(pattern) == longest_text(re.compile(pattern)) == 1_000


@pytest.mark.parametrize("pattern", SHORTER)
def test_a_pattern_with_two_ends_matches_shorter_texts(pattern):
    """Names and addresses are shorter."""
    assert 100 < longest_text(pattern) < 1_000


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_that_can_take_seconds_is_refused(pattern):
    """Repeats within repeats, alternatives that begin alike, and chains of equal repeats."""
    with pytest.raises((UnboundedPatternError, re.error)):
        longest_text(pattern)


def test_what_is_allowed_ends_soon():
    """Each pattern with texts of its own characters, as long as it may have them."""
    patterns = USUAL + SHORTER
    code = f"""
import re
from llmeval_sdk.process.patterns import longest_text
for pattern in {patterns!r}:
    most = longest_text(pattern)
    for sign in "a1 ,.-xA@$/:":
        for other in "a1 ,.-!":
            for text in (sign * most, sign * (most - 1) + other, (sign + other) * (most // 2) + "!"):
                for before in ("", "1", "a@", "http://", "Jan 1, "):
                    re.fullmatch(pattern, (before + text)[:most])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)  # a guard against hanging


@pytest.mark.parametrize("pattern", [r"(a+)+", r"(a|a)*b", r"(\w+\s?)+!", r"(.*a){12}"])
def test_a_format_that_can_take_seconds_is_not_used_and_counted(pattern):
    """The value of the field has then no known format; the app goes on."""
    before = caught.snapshot().get(_SITE, 0)
    for form in (pattern, re.compile(pattern)):
        assert matches("a" * 40 + "!", form) is None
    assert caught.snapshot()[_SITE] == before + 2


@pytest.mark.parametrize("pattern", [r"(a+)+", r"(a|a)*b", r"(\w+\s?)+!"])
def test_a_row_with_such_a_format_is_refused(pattern):
    """Where a person is watching, with row, column and what is wrong."""
    row = {
        "request": "q",
        "value": "a" * 40,
        "confidence": "HIGH",
        "field_config": {"format": pattern},
    }
    with pytest.raises(DataError, match=r"row 1, column 'field_config'.*can take seconds"):
        llmeval.evaluate([row], evaluators=["aggregated_confidence"])
