"""What an evaluator needs of a record."""

from __future__ import annotations

from llmeval_sdk._needs import missing
from llmeval_sdk.model import Record


def test_a_record_with_every_need_misses_nothing():
    """Fields that are there meet their needs."""
    assert missing(Record(request="q", response="a"), ("request", "response")) is None


def test_every_absent_need_is_named():
    """All that is missing is said at once."""
    found = missing(Record(request="q"), ("request", "response", "retrieved_context"))
    assert found == "response, retrieved_context"


def test_either_of_two_fields_meets_an_alternative():
    """``a|b`` is met by a and by b, and by neither it is named as it stands."""
    need = ("expected_facts|expected_response",)
    assert missing(Record(expected_facts=("f",)), need) is None
    assert missing(Record(expected_response="r"), need) is None
    assert missing(Record(), need) == "expected_facts|expected_response"


def test_empty_is_present():
    """An empty list or string is an input; only None is absent."""
    assert (
        missing(Record(response="", retrieved_context=()), ("response", "retrieved_context"))
        is None
    )
