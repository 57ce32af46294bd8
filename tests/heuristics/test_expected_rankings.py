"""Free scores of a ranking against the documents that should have been found."""

import pytest

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.resolve import resolve
from llmeval_sdk.model import Chunk, Record


# Grades by rank, k, and what sklearn.metrics.ndcg_score 1.7 prints without and with k.
NDCG = [
    ([0, 2, 0, 0], 1, 0.6309297536, 0.0),
    ([3, 0, 3, 0], 1, 0.9197207891, 1.0),
    ([2, 2], 1, 1.0, 1.0),
    ([0, 3, 2], 1, 0.6787622295, 0.0),
    ([3, 0, 0, 3, 0, 3, 3, 2], 1, 0.8265721697, 1.0),
    ([0, 3, 0], 2, 0.6309297536, 0.6309297536),
    ([0, 3, 0, 3, 1], 5, 0.6623050836, 0.6623050836),
    ([0, 0, 3, 3, 0, 1, 0, 3], 2, 0.6000808974, 0.0),
]


def score(name, retrieved, expected):
    record = Record(retrieved_context=tuple(retrieved), expected_retrieved_context=tuple(expected))
    return registry.evaluator(name).evaluate(record)


def documents(*names):
    return [Chunk("x", name) for name in names]


@pytest.mark.parametrize(("grades", "k", "whole", "first"), NDCG)
def test_ndcg_is_that_of_the_reference_package(grades, k, whole, first):
    """The score of an expected passage is its grade; it agrees with scikit-learn to nine places."""
    retrieved = documents(*(f"d{rank}" for rank in range(len(grades))))
    expected = [Chunk("x", f"d{rank}", score=float(grade)) for rank, grade in enumerate(grades)]
    assert score("ndcg", retrieved, expected).value == pytest.approx(whole, abs=1e-9)
    assert score(f"ndcg_at_k:{k}", retrieved, expected).value == pytest.approx(first, abs=1e-9)


def test_precision_recall_and_reciprocal_rank():
    """Two of three relevant documents are found, at ranks 2 and 4."""
    retrieved, expected = documents("a", "b", "c", "d"), documents("b", "d", "e")
    assert score("precision_at_k:2", retrieved, expected).value == 0.5
    assert score("precision_at_k:8", retrieved, expected).value == 0.25
    assert score("recall_at_k:2", retrieved, expected).value == pytest.approx(1 / 3)
    assert score("recall_at_k:4", retrieved, expected).value == pytest.approx(2 / 3)
    assert score("mrr", retrieved, expected).value == 0.5
    assert score("mrr", documents("x"), expected).value == 0.0
    assert score("mrr", [], expected).value == 0.0


def test_a_document_counts_once_at_its_first_rank():
    """Two chunks of one document are one hit, and take one rank."""
    retrieved, expected = documents("b", "b", "d"), documents("b", "d")
    assert score("precision_at_k:2", retrieved, expected).value == 1.0
    assert score("ndcg", retrieved, expected).value == 1.0


def test_ids_decide_before_addresses_and_texts():
    """What the first expected passage has is what is compared."""
    retrieved = [Chunk("roof", "guide.pdf", "c1"), Chunk("wall", "guide.pdf", "c2")]
    assert score("mrr", retrieved, [Chunk(chunk_id="c2")]).value == 0.5
    assert score("mrr", retrieved, [Chunk("x", "guide.pdf")]).value == 1.0
    assert score("mrr", retrieved, [Chunk("the  wall"), Chunk("wall")]).value == 0.5


def test_passages_that_cannot_be_told_apart_have_no_value():
    """Nobody knows which were found: no 0, and the missing column is named."""
    made = score("mrr", [Chunk("roof")], documents("a"))
    assert made.value is None
    assert made.metadata["missing_inputs"] == "retrieved_context[].doc_uri"


def test_a_grade_of_zero_is_not_relevant():
    """All grades 0 leave nothing to find, and no value."""
    assert score("mrr", documents("a"), [Chunk("x", "a", score=0.0)]) is None
    both = [Chunk("x", "a", score=0.0), Chunk("x", "b", score=2.0)]
    assert score("precision_at_k:1", documents("a", "b"), both).value == 0.0


@pytest.mark.parametrize("name", ["ndcg:3", "mrr:x", "exact_match:yes"])
def test_what_has_no_parameter_says_so(name):
    """And is not taken for the address of a module."""
    with pytest.raises(ConfigurationError, match="takes nothing after its name") as error:
        resolve(name, Settings())
    assert ("did you mean 'ndcg_at_k'?" in str(error.value)) is name.startswith("ndcg")
