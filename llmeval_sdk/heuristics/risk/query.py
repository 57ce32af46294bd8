"""How well a retrieved context covers its question: the text features of `retrieval_risk`.

A coverage is a share of the question's mass, the sum of the inverse document frequencies of its
words. The ``rare_`` features weigh a word once more by how few of the retrieved passages have it:
what all of them have is the topic, what none has is what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import text
from llmeval_sdk.heuristics.risk.context import PREFIX, Context, bigrams
from llmeval_sdk.heuristics.risk.sentence import NUMBER_WEIGHT
from llmeval_sdk.heuristics.risk.words import STOP_WORDS


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
    """As written."""
    weight: float
    sentences: Sequence[int]
    """Of the context, in order."""


def terms(
    question: str, context: Context, weigh: Callable[[str], float], *, english: bool
) -> list[Term]:
    """Return what a question asks about, each stem once, without the words that only ask."""
    found: dict[str, Term] = {}
    for token in text.tokens(question, 0, len(question), english=english):
        stem = token.stem
        asks = stem in _ASKING if english else len(stem) <= 3 and stem.isascii()
        if stem in found or token.kind == text.SYMBOL or (asks and token.kind == text.WORD):
            continue
        digits = text.number_word(stem)
        where = context.postings.get(stem) or context.postings.get(digits or "") or ()
        weight = NUMBER_WEIGHT if token.kind == text.NUMBER else weigh(stem)
        found[stem] = Term(stem, question[token.start : token.end], weight, where)
    return list(found.values())


def measure(
    question: str, wanted: Sequence[Term], context: Context, *, english: bool
) -> dict[str, float]:
    """Compute the features; there must be at least one term."""
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
    alike = sum(term.weight for term in uncovered if _prefix(term.stem) in context.prefixes)
    by_passage = sorted((passages.get(rank, 0.0) / total for rank in range(count)), reverse=True)
    by_sentence = sorted((mass / total for mass in sentences.values()), reverse=True)[:10]
    pairs = list(bigrams(text.stems(question.lower(), english=english)))
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
    """Return the standard deviation over the largest: 0 where all are the same."""
    top = max(values, default=0.0)
    if len(values) < 2 or top <= 0:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / top


def _window(wanted: Sequence[Term], context: Context, sentences: Mapping[int, float]) -> float:
    """Mass that the best sentence and the richer of its neighbours cover together."""
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


def _prefix(stem: str) -> str:
    return stem[:PREFIX] if len(stem) >= PREFIX else ""
