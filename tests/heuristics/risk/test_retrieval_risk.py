"""`retrieval_risk`: a context without what was asked for stands out."""

from dataclasses import replace

import pytest

from llmeval_sdk import registry
from llmeval_sdk.heuristics.risk import _context
from llmeval_sdk.heuristics.risk.retrieval import retrieval_risk
from llmeval_sdk.model import Chunk, Evaluation, Record
from llmeval_sdk.model.protocols import Heuristic


PASSAGES = (
    (
        "The Aurora lighthouse was built in 1874 on the northern cliff of Skerry Island. It is 42 metres "
        "tall and its lamp can be seen for 30 kilometres."
    ),
    "Keepers lived on Skerry Island until 1989. Visitors may climb the tower from May to September.",
    "The island has a population of sixty people, most of whom work in fishing or tourism.",
)
ANSWERED = "When was the Aurora lighthouse on Skerry Island built?"
OPEN = "Which architect won the competition for the harbour chapel?"


def risk(request, passages=PASSAGES) -> Evaluation:
    chunks = tuple(Chunk(passage) for passage in passages)
    found = retrieval_risk(Record(request=request, retrieved_context=chunks))
    assert isinstance(found, Evaluation)
    return found


def hybrid(lexical, dense) -> tuple[Chunk, ...]:
    """Chunks of two sides, as (passage, score) pairs."""
    return tuple(
        Chunk(PASSAGES[at], chunk_id=str(at), score=score, retrieval_method=method)
        for method, hits in (("bm25", lexical), ("knn", dense))
        for at, score in hits
    )


def test_it_is_a_heuristic_for_the_worker_that_attaches_by_itself():
    """The registry knows it, and it keeps off the caller's thread."""
    found = registry.evaluator("retrieval_risk")
    assert isinstance(found, Heuristic)
    assert (found.kind, found.inline, found.automatic) == ("heuristic", False, True)
    assert found.needs == ("request", "retrieved_context")


def test_a_question_that_the_context_covers_has_the_lower_risk():
    """One whose words it lacks has a far higher one."""
    assert risk(ANSWERED).value < 0.3
    assert risk(OPEN).value > 0.7


def test_taking_the_answering_passage_away_raises_the_risk():
    """The same question, with and without the passage."""
    assert risk(ANSWERED, PASSAGES[1:]).value > risk(ANSWERED).value + 0.2


def test_uncovered_words_are_named_as_they_were_written():
    """Covered ones, and those that only ask, are not among them; the heaviest comes first."""
    found = risk("Who painted the Aurora LIGHTHOUSE in Tangerine?")
    assert set(found.metadata["uncovered_query_terms"]) == {"painted", "Tangerine"}
    assert "Tangerine" in found.explanation


def test_two_sides_that_agree_on_a_clear_winner_lower_the_risk():
    """Against flat scores and disagreeing sides over the same passages."""
    chunks = hybrid([(0, 9.1), (1, 2.0), (2, 1.0)], [(0, 0.9), (1, 0.3), (2, 0.2)])
    flat = hybrid([(0, 2.2), (1, 2.1), (2, 2.0)], [(2, 0.32), (1, 0.31), (0, 0.3)])
    record = Record(request=ANSWERED, retrieved_context=chunks)
    assert (
        retrieval_risk(record).value < retrieval_risk(replace(record, retrieved_context=flat)).value
    )


def test_the_scale_of_the_scores_does_not_matter():
    """BM25 sums or scores in 0..1: the same ranks and proportions give the same risk."""
    chunks = hybrid([(0, 9.0), (1, 3.0), (2, 1.5)], [(0, 0.8), (1, 0.4), (2, 0.2)])
    scaled = tuple(replace(chunk, score=chunk.score * 0.125) for chunk in chunks)
    record = Record(request=ANSWERED, retrieved_context=chunks)
    assert retrieval_risk(record) == retrieval_risk(replace(record, retrieved_context=scaled))


def test_nothing_retrieved_is_the_highest_risk():
    """An empty retrieval answers nothing."""
    assert risk(ANSWERED, ()).value == 1.0


def test_what_cannot_be_looked_at_has_no_value_and_a_reason():
    """Chunks without content, questions without words, another language."""
    uris = Record(request=ANSWERED, retrieved_context=(Chunk(doc_uri="a"), Chunk(doc_uri="b")))
    german = "Wann wurde der Leuchtturm auf der Insel gebaut und von wem ist das Licht?"
    for found in (retrieval_risk(uris), risk("What is it?"), risk(""), risk(german)):
        assert found.value is None
        assert found.explanation
        assert found.error is None
    assert retrieval_risk(Record(request=ANSWERED)) is None
    assert retrieval_risk(Record(retrieved_context=())) is None


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"role": "user", "content": OPEN}, {"role": "assistant", "content": "?"},
                      {"role": "user", "content": ANSWERED}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ANSWERED}]}]},
        {"query": ANSWERED, "history": [{"role": "user", "content": OPEN}]},
    ],
)  # fmt: skip
def test_the_last_user_message_is_the_question(request_):
    """Chat requests and queries with a history are read like the plain string."""
    assert risk(request_) == risk(ANSWERED)


@pytest.mark.parametrize(
    ("passages", "answered", "left_open"),
    [
        (
            (
                "灯塔建于1874年，位于岛屿北部的悬崖上。塔高42米。",
                "岛上有六十名居民，大多从事渔业。",
            ),
            "灯塔位于哪里的悬崖上？",
            "谁赢得了教堂建筑比赛？",
        ),
        (
            (
                "Der Leuchtturm wurde 1874 auf der Nordklippe gebaut. Er ist 42 Meter hoch.",
                "Auf der Insel wohnen sechzig Menschen, die meisten sind Fischer.",
            ),
            "Wann wurde der Leuchtturm auf der Nordklippe gebaut?",
            "Welcher Architekt gewann den Wettbewerb für die Kapelle?",
        ),
    ],
)
def test_other_languages_are_compared_without_english_rules_and_say_so(
    passages, answered, left_open
):
    """With and without spaces between words."""
    covered, uncovered = risk(answered, passages), risk(left_open, passages)
    assert covered.metadata["language"] == uncovered.metadata["language"] == "other"
    assert uncovered.value > covered.value + 0.2


def test_the_same_record_gets_the_same_evaluation():
    """With a warm or a cold cache, nothing depends on what came before."""
    first = risk(ANSWERED)
    _context.forget_contexts()
    assert risk(ANSWERED) == first


@pytest.mark.parametrize(
    "hostile",
    [
        Chunk("x", score=float("nan"), retrieval_method="bm25"),
        Chunk("x", score="high", retrieval_method="knn", chunk_id=["a"]),
        Chunk(7, score=True, retrieval_method=3),
        Chunk("\ud800", score=-1.0, retrieval_method="BM25"),
    ],
)
def test_hostile_chunks_never_raise(hostile):
    """Three of each beside real ones, so that scores of both sides are looked at."""
    chunks = hybrid([(0, 9.0), (1, 3.0)], [(0, 0.8), (1, 0.4)])
    record = Record(request=ANSWERED, retrieved_context=(*chunks, hostile, hostile, hostile))
    assert 0.0 <= retrieval_risk(record).value <= 1.0
