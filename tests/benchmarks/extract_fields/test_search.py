"""Two retrievers that differ, and the list they are merged into."""

from __future__ import annotations

import pytest
from extract_fields.documents import FIELDS, compose


pytest.importorskip("bm25s")
pytest.importorskip("scipy")

from extract_fields.search import Index, search, words


LIMITS = {"bm25": 10, "knn": 10}


@pytest.fixture(scope="module")
def index(teapot, samovar):
    more = [compose(f"urn{n}", [("README", "An urn boils water. " * 30)]) for n in range(8)]
    return Index([teapot, samovar, *more])


def test_both_sides_stay_within_the_document(index):
    """A search in one document never returns a passage of another."""
    for side in (index.bm25, index.knn):
        hits = side("what boils", "samovar")
        assert hits
        assert all(passage.doc_uri.startswith("samovar") for passage, _ in hits)


def test_scores_are_sorted_and_between_nothing_and_one(index):
    """Both sides give scores in 0..1, best first."""
    for side in (index.bm25, index.knn):
        scores = [score for _, score in side("license permission copyright", "teapot")]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 1 for score in scores)


def test_bm25_scores_are_absolute(index):
    """A question that the text hardly answers does not get a full score for its best hit."""
    best = index.bm25("permission granted", "teapot")[0][1]
    worse = index.bm25("permission recipe documentation python install copyright", "teapot")[0][1]
    assert worse < best < 1


def test_meaning_finds_what_words_do_not():
    """A passage without any word of the question is found by the vector side alone."""

    def document(name, *texts):
        return compose(name, [(f"F{n}", text) for n, text in enumerate(texts)])

    pairs = [document(f"d{n}", "tea kettle steep brew", "tea steep leaf brew") for n in range(5)]
    other = [
        document(f"e{n}", "car wheel road engine", "road engine brake wheel") for n in range(5)
    ]
    index = Index([*pairs, *other, document("p", "steep brew leaf", "wheel brake engine")])
    assert index.bm25("kettle", "p") == []
    (best, score), *_ = index.knn("kettle", "p")
    assert best.text == "steep brew leaf"
    assert score > 0.5


def test_unknown_words_find_nothing(index):
    """A question of words that no document has gives empty lists, not an error."""
    assert index.bm25("xylophone", "teapot") == []
    assert index.knn("xylophone", "teapot") == []


def test_a_passage_found_by_both_stands_twice_with_one_id(index):
    """The merged list keeps one entry for each side, next to each other, best fusion first."""
    found = search(index, FIELDS["license"], "teapot", LIMITS)
    first, second = found.chunks[:2]
    assert first["chunk_id"] == second["chunk_id"]
    assert {first["retrieval_method"], second["retrieval_method"]} == {"bm25", "knn"}
    assert first["doc_uri"].endswith("LICENSE")
    assert found.total_before_filter >= len(found.chunks)


def test_the_filter_keeps_only_what_can_answer(index):
    """A passage without the field's own sign is left out, however well it ranks."""
    found = search(index, FIELDS["minimum_python"], "teapot", LIMITS)
    assert found.chunks
    assert all("3.9" in chunk["content"] for chunk in found.chunks)


def test_limits_hold_for_each_side(index):
    """No side brings more than its limit."""
    found = search(index, FIELDS["summary"], "teapot", {"bm25": 2, "knn": 1})
    sides = [chunk["retrieval_method"] for chunk in found.chunks]
    assert sides.count("bm25") <= 2
    assert sides.count("knn") <= 1
    assert found.total_before_filter <= 3


def test_the_index_is_deterministic(teapot, samovar):
    """The same documents give the same hits and scores again."""
    one, two = (Index([teapot, samovar]).knn("license terms", "teapot") for _ in range(2))
    assert [passage for passage, _ in one] == [passage for passage, _ in two]
    assert [score for _, score in one] == pytest.approx([score for _, score in two])


def test_words_drop_stop_words_and_plurals():
    """What both sides count are lower-case words in the singular."""
    assert words("The Licenses of THIS class: v2") == ["license", "class", "v2"]
