"""Which documents were found, and what cannot be known of chunks that do not name theirs."""

from __future__ import annotations

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model import Chunk, Record


def recall(expected, found):
    record = Record(
        expected_retrieved_context=tuple(Chunk("x", uri) for uri in expected),
        retrieved_context=tuple(Chunk("x", uri) for uri in found),
    )
    return registry.evaluator("document_recall").evaluate(record)


def test_chunks_that_name_no_document_are_not_applicable():
    """Whether they are of the right document nobody can say: no 0, and the column is named."""
    made = recall(["a", "b"], [None, ""])
    assert made.value is None
    assert made.error is None
    assert made.metadata["missing_inputs"] == "retrieved_context[].doc_uri"
    row = {
        "request": "q",
        "expected_retrieved_context": [{"doc_uri": "a"}],
        "retrieved_context": [{"content": "roof"}],
    }
    report = llmeval.evaluate([row], evaluators=["document_recall"])
    assert report.reasons["document_recall"] == {"missing: retrieved_context[].doc_uri": 1}
    assert report.metrics == {}


def test_nothing_retrieved_found_nothing():
    """An empty list is an answer of the retriever."""
    assert recall(["a"], []).value == 0.0


@pytest.mark.parametrize(
    ("expected", "found", "value"),
    [
        (["a", "a", "b"], ["a"], 0.5),
        (["a"], ["a", "a", "a"], 1.0),
        (["a", "a"], ["b", "b"], 0.0),
    ],
)
def test_a_document_counts_once(expected, found, value):
    """However many of its chunks are expected or retrieved."""
    assert recall(expected, found).value == value


@pytest.mark.parametrize(
    "other", ["guide.pdf", "s3://docs/guide.pdf#page=2", "S3://docs/guide.pdf"]
)
def test_a_part_of_an_address_is_another_address(other):
    """Addresses are compared as they are: a guess could find what was not retrieved."""
    assert recall(["s3://docs/guide.pdf"], [other]).value == 0.0


def test_where_only_some_chunks_name_their_document_the_value_is_the_least():
    """It says how many could be of any document, unless all were found anyway."""
    made = recall(["a", "b"], ["a", None, "c", None])
    assert made.value == 0.5
    assert made.metadata["chunks_without_doc_uri"] == 2
    assert made.explanation == "at least: 2 of 4 retrieved chunks have no doc_uri"
    assert recall(["a"], ["a", None]).explanation is None
