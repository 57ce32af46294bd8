"""The built-in detectors: what they find, what they leave, and that no text makes them slow."""

import random

import pytest
from counted import calls_of
from hostile_pieces import PIECES
from hypothesis import given, settings
from hypothesis import strategies as st

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.redaction import DETECTORS, Redactor, detectors


# Put together here, so that no scanner of this repository takes them for real ones.
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + "." + "dozjgNryP4J3jVmN"
FOUND = {
    "api_key": [
        "sk-" + "proj-a1b2c3d4e5f6g7h8i9j0k1l2",
        "sk-" + "ant-api03-Zx9Yw8Vu7Ts6Rq5Po4Nm3",
        "sk_" + "live_51Habcdefghijklmnop",
        "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_" + "11ABCDEFG0abcdefghijkl",
        "glpat-" + "abcdefghij0123456789",
        "xoxb-" + "1234567890-abcdefghij",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ASIA" + "IOSFODNN7EXAMPL2",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "hf_" + "abcdefghijklmnopqrstuvwxyz012345",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJ\nABC=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn",
    ],
    "jwt": [JWT],
    "email": ["a.b+c@example.co.uk", "jan_de-vries@bank.nl", "X@y.io"],
    "card": [
        "4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005",
        "3782 822463 10005", "6011111111111117",
    ],
    "iban": [
        "DE89370400440532013000", "GB82 WEST 1234 5698 7654 32", "NL91ABNA0417164300",
        "FR1420041010050500013M02606", "NO93 8601 1117 947",
    ],
    "phone": [
        "+31 6 12345678", "+1 (555) 123-4567", "+442071838750", "(555) 123-4567", "555-123-4567",
        "555.123.4567",
    ],
}  # fmt: skip
LEFT = {
    "api_key": [
        "risk-assessment-of-the-northern-region", "task-0123456789abcdefghij", "sk-short1",
        "the AKIA club", "sk-learn-is-a-nice-library-to-use", "9f86d081884c7d659a2feaa0c55ad015",
        "d9428888-122b-11e1-b85c-61cd3cbb3210", "bearer of the good news about everything",
    ],
    "jwt": ["eyJ.x.y", "a.eyJ", "www.example.com"],
    "email": ["a@b", "@handle", "x @ y.com", "see p.12@home"],
    "card": [
        "4111111111111112", "1234567890123456", "2024-11-21 11:12:13", "0.4111111111",
        "41111111111111111111111111", "4111 1111 1111 1112",
    ],
    "iban": [
        "DE89370400440532013001", "AB12CDEF34567890123", "XX00 0000 0000 0000", "ISO9001 and 14001",
    ],
    "phone": ["2024-11-21", "12345678", "1.234.567", "192.168.100.200", "p. 123-124", "+3 points"],
}  # fmt: skip


def one(name):
    return Redactor([name])


def cases(table):
    return [(name, text) for name, texts in table.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), cases(FOUND))
def test_what_a_detector_is_for_is_taken_out_of_any_surroundings(name, text):
    """Alone, in a sentence, in quotes and in JSON, nothing of it is left."""
    for around in ("{}", "it is {} indeed", '"{}"', '{{"k":"{}","n":1}}', "({}),", "a\n{}\nb"):
        before = around.format(text)
        after = one(name).detect(before)
        assert text not in after
        assert "<redacted:" in after
        assert after.startswith(before[: before.index(text)])
        assert after.endswith(before[before.index(text) + len(text) :])


@pytest.mark.parametrize(("name", "text"), cases(LEFT))
def test_what_only_looks_alike_stays(name, text):
    """Words, dates, ids and numbers with a wrong checksum are the app's text."""
    for around in ("{}", "it is {} indeed", '"{}"'):
        assert one(name).detect(around.format(text)) == around.format(text)


def test_a_bearer_token_goes_and_the_word_before_it_stays():
    """What kind of header it was can still be read."""
    assert one("api_key").detect("Authorization: Bearer abcdefghij0123456789==") == (
        "Authorization: Bearer <redacted:api_key>"
    )


def test_what_stands_right_behind_an_iban_stays():
    """The length of the country's numbers decides where one ends."""
    text = "DE89 3704 0044 0532 0130 00 AND THE REST"
    assert one("iban").detect(text) == "<redacted:iban> AND THE REST"


def test_neither_a_neighbour_nor_a_false_start_hides_one():
    """Each of two that touch is found, and one inside of what only looked like one."""
    assert one("iban").detect("DE89370400440532013000 GB82 WEST 1234 5698 7654 32") == (
        "<redacted:iban> <redacted:iban>"
    )
    assert one("iban").detect("AB12 GB82 WEST 1234 5698 7654 32") == "AB12 <redacted:iban>"
    assert one("card").detect("5411 4111 1111 1111 1111") == "5411 <redacted:card>"


def test_redacting_twice_changes_nothing():
    """The marks that are left are not found again by any detector."""
    text = ", ".join(text for _, text in cases(FOUND))
    once = Redactor(["all"]).detect(text)
    assert once.count("<redacted:") == len(cases(FOUND))
    assert Redactor(["all"]).detect(once) == once


@pytest.mark.parametrize(("name", "text"), cases(FOUND))
def test_the_quick_look_at_a_record_misses_nothing(name, text):
    """Whatever a detector finds in some text of a record, the hint says so beforehand."""
    redactor = one(name)
    for around in ("{}", "it is {} indeed", "schön: {}€", "x" * 300 + " {}"):
        assert redactor.may_concern((1, ["a", {"k": around.format(text)}], None))
    assert not redactor.may_concern(("plain words, nothing else", 7))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.sampled_from(cases(FOUND)), st.text(max_size=40))
def test_the_quick_look_agrees_with_the_detectors_on_any_text(before, case, after):
    """If redaction would change the text, the hint must have said that it may."""
    name, text = case
    whole = before + text + after
    redactor = one(name)
    if redactor.detect(whole) != whole:
        assert redactor.may_concern(whole)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("name", DETECTORS)
def test_time_is_linear_in_the_size_of_any_text(name, piece):
    """Four times the text takes about four times the calls, each of which is bounded."""
    redactor = one(name)
    small, large = (piece * (size // len(piece)) for size in (1 << 17, 1 << 19))
    few, many = (calls_of(lambda text=text: redactor.detect(text)) for text in (small, large))
    assert many <= 6 * few + 2_000


def test_more_candidates_than_can_be_checked_are_redacted_unchecked():
    """It fails closed where checking would take too long."""
    text = "4111111111111112 " * 12_000
    after = one("card").detect(text)
    assert after.count("4111111111111112") <= 5_001
    assert "<redacted:card>" in after


def test_random_digits_are_mostly_left_alone():
    """Nine in ten numbers of card length fail the checksum."""
    chance = random.Random(1)
    numbers = [f"4{chance.randrange(10**15):015}" for _ in range(2_000)]
    changed = sum(one("card").detect(number) != number for number in numbers)
    assert 100 < changed < 300


def test_names_are_checked():
    """``off`` is none, ``all`` is all, and a typing mistake says what was meant."""
    assert detectors(["off"]) == detectors([]) == ()
    assert len(detectors(["all"])) == len(detectors(DETECTORS))
    with pytest.raises(ConfigurationError, match="did you mean 'email'"):
        detectors(["emial"])
