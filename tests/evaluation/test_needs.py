"""What an evaluator needs of a record."""

from __future__ import annotations

import pytest

from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.fields import CHUNK_TEXT, missing


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


def test_an_empty_list_is_present_and_an_empty_answer_is_none():
    """Nothing was retrieved, and that is known; an app that returned "" has answered nothing."""
    empty = Record(response="", retrieved_context=())
    assert missing(empty, ("retrieved_context",)) is None
    assert missing(empty, ("response",)) == "response"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_chunks_without_text_do_not_meet_the_need_of_their_text(content):
    """An address alone says nothing that could be read; one chunk with text is enough."""
    bare = Chunk(content, doc_uri="a.pdf")
    record = Record(retrieved_context=(bare, bare))
    assert missing(record, (CHUNK_TEXT,)) == "text in retrieved_context"
    assert missing(record, ("retrieved_context",)) is None
    assert missing(Record(retrieved_context=(bare, Chunk("text"))), (CHUNK_TEXT,)) is None


def test_no_chunks_at_all_are_named_by_their_field_and_an_empty_list_is_present():
    """Retrieval that found nothing is something to judge; none at all is not."""
    assert missing(Record(), (CHUNK_TEXT,)) == "retrieved_context"
    assert missing(Record(retrieved_context=()), (CHUNK_TEXT,)) is None
