"""`context_relevance` on scores that are on no common scale: it says so, and takes ranks instead."""

import pytest

from llmeval_sdk.heuristics.context_relevance import context_relevance
from llmeval_sdk.model import Chunk, Record


def hits(method, *scores, first=0):
    return tuple(
        Chunk("text", chunk_id=str(first + at), score=score, retrieval_method=method)
        for at, score in enumerate(scores)
    )


def relevance(chunks, **retrieval):
    return context_relevance(Record(retrieved_context=chunks, retrieval=retrieval or None))


@pytest.mark.parametrize("method", ["bm25", "vector", None])
def test_one_method_with_unnormalized_scores_is_marked_and_the_formula_stays(method):
    """Whatever was retrieved gives the same value, and the metadata says so."""
    good, poor = relevance(hits(method, 30.0, 28.0)), relevance(hits(method, 3.0, 1.2))
    assert good.value == poor.value == 0.5
    for found in (good, poor):
        assert found.metadata["near_constant"] is True
        assert found.metadata["unnormalized_scores"] is True


@pytest.mark.parametrize(
    "chunks",
    [
        (Chunk("a passage"), Chunk("another")),
        (Chunk("a passage", page=3),),
        (Chunk("a passage", chunk_id="a", retrieval_method="knn"),),
    ],
)
def test_passages_without_a_score_have_no_relevance(chunks):
    """What nobody scored was not found to be irrelevant: the score is not applicable."""
    assert relevance(chunks) is None
    assert relevance(chunks, scores="ranks") is None


def test_a_score_of_zero_and_an_empty_retrieval_are_values():
    """There the retrieval itself said how relevant its passages are, or found none."""
    assert relevance(hits("knn", 0.0)).value == 0.0
    assert relevance([]).value == 0.0


def test_passages_that_both_methods_found_need_no_score():
    """That two methods agree is known without one."""
    assert relevance(hits("bm25", None) + hits("knn", None)).value == 0.4


def test_two_methods_or_scores_within_the_scale_are_not_marked():
    """There the value tells retrievals apart."""
    assert "near_constant" not in relevance(hits("bm25", 30.0) + hits("knn", 0.4)).metadata
    assert "near_constant" not in relevance(hits("bm25", 0.3, 0.2)).metadata


def test_ranks_in_place_of_scores_do_not_depend_on_the_scale():
    """The same order on both sides gives the same value, and agreement at the top a higher one."""
    plain = relevance(hits("bm25", 30.0, 20.0) + hits("knn", 0.9, 0.8), scores="ranks")
    scaled = relevance(hits("bm25", 3.0, 2.0) + hits("knn", 90.0, 80.0), scores="ranks")
    apart = relevance(hits("bm25", 30.0, 20.0) + hits("knn", 0.9, 0.8, first=2), scores="ranks")
    assert plain == scaled
    assert plain.metadata["scores"] == "ranks"
    assert plain.metadata["mean_score"] == 0.75
    assert apart.metadata["mean_score"] == 0.375


def test_ranks_of_one_side_are_still_marked():
    """With one ranking there is nothing to compare it with."""
    found = relevance(hits("bm25", 30.0, 20.0), scores="ranks")
    assert found.metadata["near_constant"] is True


@pytest.mark.parametrize("retrieval", [True, 7, {"scores": 3}, {"scores": ["ranks"]}, {}])
def test_any_other_retrieval_annotation_leaves_the_scores_alone(retrieval):
    """Only the word is the option."""
    record = Record(retrieved_context=hits("bm25", 0.3), retrieval=retrieval)
    assert "scores" not in context_relevance(record).metadata
