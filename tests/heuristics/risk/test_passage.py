"""A passage is read by one search, as if each of its sentences had been read by itself."""

import os
import random
import subprocess
import sys
import tracemalloc

import pytest

from llmeval_sdk.heuristics.risk import _features, _text
from llmeval_sdk.heuristics.risk._text import MAX_SENTENCES, MAX_TOKENS, Passage
from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.text.budget import TooLargeError, limit_processor_time


TEXTS = {
    "English": "Dr. Ito's mill opened in 1,850. It cost $2.5 million!\n\n- Closed on Mondays",
    "typography": "The mill’s roof (“slate”) is 12 m² – and 3½ m high. It’s old.",
    "German": "Die Mühle öffnete 1850. Sie kostet 2.500 € im Jahr.",
    "Chinese": "磨坊于1850年开放。它有三个房间。",
    "Arabic": "افتتحت الطاحونة عام ١٨٥٠. وهي من الحجر.",
    "a sentence of many words": "mill " * 95 + ". Another one.",
    "control characters": "The mill\0house is old. It\0 has\0\0 a roof.",
    "no words": "... !!! \n\n ???",
    "nothing": "",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_pieces_of_a_passage_are_the_tokens_of_its_sentences(name):
    """At most forty in a row; what stands between them in the one list is not seen."""
    content, pieces = TEXTS[name], []
    for start, end in _text.sentences(content):
        tokens = _text.tokens(content, start, end)
        pieces += [tokens[at : at + 40] for at in range(0, max(1, len(tokens)), 40)]
    passage = Passage(content)
    assert passage.pieces == pieces
    assert passage.count == len(pieces)
    assert not passage.capped


def test_marks_number_the_sentences_behind_them():
    """A number with a colon inside a line marks nothing."""
    content = (
        "passage 1: The mill is old. It opens at 9:30.\n[2]: The pond is deep.\n\n#3: The end."
    )
    assert Passage(content).numbered == {0: 1, 2: 2, 3: 3}


def test_a_word_is_found_in_the_sentences_that_have_it_and_no_pair_crosses_two():
    """Sentences are counted over all passages; the same one is named once."""
    read = _features.Context(("Old mill, old pond. New roof.", "The roof is old."))
    assert read.where({"old", "roof", "absent"}) == {"old": [0, 2], "roof": [1, 2]}
    assert read.chunks == [0, 0, 1]
    assert hash(("old", "pond")) in read.bigrams
    assert hash(("pond", "new")) not in read.bigrams


@pytest.mark.parametrize("content", ["1 " * 20_000, "It is. " * 5_000, "漢字。" * 10_000])
def test_what_is_read_of_a_passage_is_bounded_and_says_so(content):
    """Its tokens and its sentences are."""
    passage = Passage(content)
    assert passage.capped
    assert len(passage.tokens) <= MAX_TOKENS + 650
    assert passage.count <= MAX_SENTENCES


def test_a_worker_limits_the_processor_time_of_a_risk_score():
    """As it does for every heuristic; the count of work alone never refuses a long record."""
    record = Record(
        request="q", response="The mill is old. " * 500, retrieved_context=(Chunk("a"),)
    )
    assert groundedness_risk(record).value is not None
    _features.forget_contexts()
    limit_processor_time(0.0)
    try:
        with pytest.raises(TooLargeError, match="processor time"):
            groundedness_risk(record)
    finally:
        limit_processor_time(None)


def test_the_same_record_has_the_same_risk_in_every_process():
    """Whatever order the sets of words have there."""
    program = (
        "from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk as risk\n"
        "from llmeval_sdk.model import Chunk, Record\n"
        "said = 'The mill house by the deep pond was not built of brick in 1901.'\n"
        "read = Chunk('The mill is old. The pond is deep. The house is not of brick. Built 1850.')\n"
        "made = Record(request='Which mill house by the pond?', response=said,"
        " retrieved_context=(read,))\n"
        "print(risk(made).value)\n"
    )
    values = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(values) == 1


def test_what_was_looked_up_before_is_found_again():
    """Where stems stand does not depend on who asked before."""
    contents = ("The barn has a roof. The roof will last.", "A roof is not a floor.")
    looked_up = _features.Context(contents)
    assert looked_up.where({"barn", "roof", "nothing"}) == {"barn": [0], "roof": [0, 1, 2]}
    again = looked_up.where({"roof", "last", "floor"})
    assert again == _features.Context(contents).where({"roof", "last", "floor"})
    assert again == {"roof": [0, 1, 2], "last": [1], "floor": [2]}


@pytest.mark.parametrize(
    "letters", [(3, 10), (500, 500)], ids=["words that no other passage has", "long words"]
)
def test_what_is_kept_of_passages_is_bounded(letters):
    """It takes 16 MB at most with the words that came along, and the latest ones are not read anew."""
    dice = random.Random(1)
    _features.forget_contexts()
    tracemalloc.start()
    try:
        for _ in range(250):
            sizes = [dice.randint(*letters) for _ in range(2_000 // letters[0])]
            content = " ".join("".join(dice.choices("abcdefgh", k=size)) for size in sizes)
            latest = _features._passage_of(content)
            latest.view(english=True)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16_000_000
    assert _features._passage_of(content) is latest
