"""How well a retrieved context covers its question: the text features of `retrieval_risk`.

A coverage is a share of the question's mass, the sum of the inverse document frequencies of its
words. The ``rare_`` features also weigh a word by how few of the retrieved passages have it: a word
that all passages have is the topic, and one that few have is what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import _languages, _text
from llmeval_sdk.heuristics.risk._context import Context
from llmeval_sdk.heuristics.risk._passage import bigrams
from llmeval_sdk.heuristics.risk._sentence import NUMBER_WEIGHT
from llmeval_sdk.heuristics.risk._words import STOP_WORDS, SYMBOLS


NAMES = (
    "terms", "best_sentence", "best_window", "best_passage", "second_passage", "all", "soft",
    "uncovered", "uncovered_mass", "uncovered_max", "passage_spread", "sentence_spread",
    "rare_sentence", "rare_passage", "bigrams",
)  # fmt: skip

_ASKING = STOP_WORDS | {"kind", "type", "name"}


class Term(NamedTuple):
    """A word that the question asks about."""

    stem: str
    word: str
    """The word as it was written."""
    weight: float
    sentences: Sequence[int]
    """The sentences of the context that have it, in order."""


def terms(
    question: str, context: Context, weigh: Callable[[str], float], *, english: bool
) -> list[Term]:
    """Return the words that a question asks about, each stem once."""
    asking = _ASKING if english else _languages.STOP_WORDS
    parted = list(_parted(_text.tokens(question), english=english))
    wanted = {stem for _, stem in parted} - asking
    digits = {stem: _text.number_word(stem, english=english) for stem in wanted}
    postings = context.where(wanted | {number for number in digits.values() if number})
    found: dict[str, Term] = {}
    for word, stem in parted:
        if stem in found or stem not in wanted or word in SYMBOLS:
            continue
        where = postings.get(stem) or postings.get(digits[stem] or "") or ()
        weight = NUMBER_WEIGHT if stem < ":" else weigh(stem)
        found[stem] = Term(stem, word, weight, where)
    return list(found.values())


def _parted(tokens: Sequence[str], *, english: bool) -> Iterator[tuple[str, str]]:
    """Yield tokens with their stems. A run of a script without spaces comes as pairs of signs."""
    for token in tokens:
        stem = _text.stem_of(token, english=english)
        if stem:
            yield token, stem
        else:
            yield from ((gram, gram) for gram in _text.grams(token))


def measure(
    question: str, wanted: Sequence[Term], context: Context, *, english: bool
) -> dict[str, float]:
    """Compute the features of at least one term."""
    total = sum(term.weight for term in wanted) or 1.0
    count = 1 + max(context.chunks, default=0)
    sentences: dict[int, float] = {}
    passages: dict[int, float] = {}
    rare_sentences: dict[int, float] = {}
    rare_passages: dict[int, float] = {}
    rare_total = 0.0
    for term in wanted:
        within = {context.chunks[sentence] for sentence in term.sentences}
        rare = term.weight * math.log(1 + (count - len(within) + 0.5) / (len(within) + 0.5))
        rare_total += rare
        for at in term.sentences:
            sentences[at] = sentences.get(at, 0.0) + term.weight
            rare_sentences[at] = rare_sentences.get(at, 0.0) + rare
        for rank in within:
            passages[rank] = passages.get(rank, 0.0) + term.weight
            rare_passages[rank] = rare_passages.get(rank, 0.0) + rare
    uncovered = [term for term in wanted if not term.sentences]
    missing = sum(term.weight for term in uncovered)
    alike = sum(term.weight * context.resembles(term.stem, term.word) for term in uncovered)
    by_passage = sorted((passages.get(rank, 0.0) / total for rank in range(count)), reverse=True)
    by_sentence = sorted((mass / total for mass in sentences.values()), reverse=True)[:10]
    pairs = bigrams(_text.stems(_text.tokens(question), english=english))
    return {
        "terms": len(wanted),
        "best_sentence": by_sentence[0] if by_sentence else 0.0,
        "best_window": _window(wanted, context, sentences) / total,
        "best_passage": by_passage[0],
        "second_passage": by_passage[1] if count > 1 else 0.0,
        "all": 1 - missing / total,
        "soft": alike / total,
        "uncovered": len(uncovered),
        "uncovered_mass": missing,
        "uncovered_max": max((term.weight for term in uncovered), default=0.0),
        "passage_spread": spread(by_passage),
        "sentence_spread": spread(by_sentence),
        "rare_sentence": max(rare_sentences.values(), default=0.0) / (rare_total or 1.0),
        "rare_passage": max(rare_passages.values(), default=0.0) / (rare_total or 1.0),
        "bigrams": sum(map(context.bigrams.__contains__, pairs)) / (len(pairs) or 1),
    }


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation divided by the largest value; 0 if all are the same."""
    top = max(values, default=0.0)
    if len(values) < 2 or top <= 0:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / top


def _window(wanted: Sequence[Term], context: Context, sentences: Mapping[int, float]) -> float:
    """Return the mass that the best sentence and the better of its neighbours cover together."""
    best = max(sentences, key=sentences.__getitem__, default=-1)
    if best < 0:
        return 0.0
    added = {best - 1: 0.0, best + 1: 0.0}
    for term in wanted:
        if best not in term.sentences:
            for near in added:
                if near in term.sentences and context.chunks[near] == context.chunks[best]:
                    added[near] += term.weight
    return sentences[best] + max(added.values())
