"""A passage is read by one search, as if each of its sentences had been read by itself."""

import os
import random
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmeval_sdk.heuristics.risk import _context, _text
from llmeval_sdk.heuristics.risk._context import (
    MAX_SENTENCES,
    MAX_TOKENS,
    Passage,
    Vocabulary,
)
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


ENGLISH = Vocabulary(english=True)


def sentences_of(content):
    """Return the tokens of each sentence by themselves, at most forty in a row."""
    sentences = []
    for start, end in _text.sentences(content):
        tokens = _text.tokens(content, start, end)
        sentences += [tokens[at : at + 40] for at in range(0, max(1, len(tokens)), 40)]
    return sentences


def check(content):
    passage, sentences = Passage(content, ENGLISH), sentences_of(content)
    assert [passage.sentence(content, at) for at in range(passage.count)] == sentences
    assert passage.tokens == sum(map(len, sentences)) + len(sentences)
    assert not passage.capped
    for vocabulary in (Vocabulary(english=False), ENGLISH):
        written = passage.written(content, vocabulary)
        stem_of = {character: stem for stem, character in vocabulary.characters.items()}
        assert [[stem_of[character] for character in part] for part in written.split("\0")] == [
            *(_text.stems(tokens, english=vocabulary.english) for tokens in sentences),
            [],
        ]
    starts = [token for tokens in sentences for token in [*tokens, "\0"]][:60]
    assert passage.sample == _text.sample(starts)


@pytest.mark.parametrize("name", TEXTS)
def test_a_passage_is_written_as_if_each_sentence_were_read_by_itself(name):
    """In English and by the rules of other languages; a long sentence counts as several."""
    check(TEXTS[name])


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_characters="\u200c"), max_size=12),
            st.sampled_from([*TEXTS.values(), *" .!?\n\0'’", "1\u00a0000", "3.5%", "word " * 50]),
            st.text("ab. \n1,'\u00a0\u202fé漢字三年ж", max_size=30),
        ),
        max_size=20,
    )
)
@settings(deadline=None, max_examples=200)
def test_any_text_is_written_as_if_each_sentence_were_read_by_itself(parts):
    """Whatever its script, its spaces and the signs in its words are."""
    check("".join(parts))


def test_marks_number_the_sentences_behind_them():
    """A number with a colon inside a line marks nothing."""
    content = (
        "passage 1: The mill is old. It opens at 9:30.\n[2]: The pond is deep.\n\n#3: The end."
    )
    assert Passage(content, ENGLISH).numbered == {0: 1, 2: 2, 3: 3}


def test_a_word_is_found_in_the_sentences_that_have_it_and_no_pair_crosses_two():
    """Sentences are counted over all passages; the same one is named once."""
    read = _context.Context(("Old mill, old pond. New roof.", "The roof is old."))
    assert read.where({"old", "roof", "absent"}) == {"old": [0, 2], "roof": [1, 2]}
    assert read.chunks == [0, 0, 1]
    assert read.neighbours(["old", "pond", "new", "roof", "absent"]) == [True, False, True, False]


@pytest.mark.parametrize("looked_up", [set(), {"the"}, {"mill"}, {"the", "mill", "of"}])
def test_neighbours_are_the_same_whatever_was_looked_up_before(looked_up):
    """Which of two stems was searched says how they are compared, not with what result."""
    read = _context.Context(("The mill of the pond. " * 40, "Of the mill."))
    read.where(looked_up)
    asked = ["of", "the", "mill", "of", "pond", "the"]
    assert read.neighbours(asked) == [True, True, True, False, False]


def test_numbers_of_a_context_are_those_written_spelled_and_multiplied():
    """Only a number right before a scale in the same sentence is multiplied."""
    read = _context.Context(("It cost 1.5 million for two days. Paid 70. Million of 1,500.",))
    assert read.numbers == {"1.5", "1500000", "2", "70", "1500"}


@pytest.mark.parametrize("content", ["1 " * 20_000, "It is. " * 5_000, "漢字。" * 10_000])
def test_what_is_read_of_a_passage_is_bounded_and_says_so(content):
    """Its tokens and its sentences are."""
    passage = Passage(content, ENGLISH)
    assert passage.capped
    assert passage.tokens <= MAX_TOKENS + 650
    assert passage.count <= MAX_SENTENCES


def test_a_worker_limits_the_processor_time_of_a_risk_score():
    """As it does for every heuristic; the count of work alone never refuses a long record."""
    record = Record(
        request="q", response="The mill is old. " * 500, retrieved_context=(Chunk("a"),)
    )
    assert groundedness_risk(record).value is not None
    _context.forget_contexts()
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
    looked_up = _context.Context(contents)
    assert looked_up.where({"barn", "roof", "nothing"}) == {"barn": [0], "roof": [0, 1, 2]}
    again = looked_up.where({"roof", "last", "floor"})
    assert again == _context.Context(contents).where({"roof", "last", "floor"})
    assert again == {"roof": [0, 1, 2], "last": [1], "floor": [2]}


@pytest.mark.parametrize(
    "letters", [(3, 10), (500, 500)], ids=["words that no other passage has", "long words"]
)
def test_what_is_kept_of_passages_is_bounded(letters):
    """It takes 16 MB at most with the words that came along, and the latest ones are not read anew."""
    dice = random.Random(1)
    _context.forget_contexts()
    tracemalloc.start()
    try:
        for _ in range(120):
            sizes = [dice.randint(*letters) for _ in range(2_000 // letters[0])]
            content = " ".join("".join(dice.choices("abcdefgh", k=size)) for size in sizes)
            _context.Context([content])
            latest = _context._passage_of(content, ENGLISH)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16_000_000
    assert _context._passage_of(content, ENGLISH) is latest
