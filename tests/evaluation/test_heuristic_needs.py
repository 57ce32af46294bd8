"""A heuristic's needs mean the same as a judge's, online and offline."""

from __future__ import annotations

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.scoring import Heuristics
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.fields import CHUNK_TEXT


@pytest.fixture
def reads_chunks():
    """A heuristic of the app that reads what the retrieved chunks say."""

    @llmeval.heuristic(needs=(CHUNK_TEXT,))
    def chunk_words(record: llmeval.Record) -> float:
        return float(len(" ".join(chunk.content or "" for chunk in record.retrieved_context)))

    yield chunk_words
    registry.forget("chunk_words")


WITH_TEXT = Record(retrieved_context=(Chunk("a slate roof"),))
ADDRESS_ONLY = Record(retrieved_context=(Chunk(doc_uri="doc:1"),))


def test_a_heuristic_that_needs_text_in_chunks_runs_online(reads_chunks):
    """The need of text in retrieved chunks is met by chunks that have text."""
    with testing.capture(escalations=[]) as seen:
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(response="slate", retrieved_context=["a slate roof"])
        seen.drain()
    assert seen.scores("answer")["chunk_words"].value == 12.0


def test_it_runs_neither_without_text_nor_without_chunks(reads_chunks):
    """Chunks that are known by their addresses only do not meet the need."""
    runner = Heuristics([reads_chunks])
    assert [evaluation.name for evaluation in runner.run(WITH_TEXT)] == ["chunk_words"]
    assert not runner.run(ADDRESS_ONLY)
    assert not runner.run(Record())


def test_a_record_without_metadata_is_not_read_for_it(reads_chunks):
    """The need of chunks' texts is one of what the app retrieves, so a bare call costs nothing."""
    assert not Heuristics([reads_chunks]).reads_anything


def test_a_misspelt_need_names_the_nearest_one():
    """Declaring a need that nothing can meet raises, with the need that was meant."""
    with pytest.raises(ConfigurationError, match=CHUNK_TEXT):

        @llmeval.heuristic(needs=("retrieved_context.contents",))
        def chunk_count(record: llmeval.Record) -> float:
            return 1.0
