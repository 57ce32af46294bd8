"""`retrieval_risk`: how likely the retrieved context cannot answer its question, without an LLM."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk.heuristics._reading import DENSE, LEXICAL, key, number, side
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import _text, _words
from llmeval_sdk.heuristics.risk._context import Context, context_of
from llmeval_sdk.heuristics.risk._features import NUMBER_WEIGHT
from llmeval_sdk.heuristics.risk._words import STOP_WORDS, SYMBOLS
from llmeval_sdk.model import Chunk, Evaluation, Record


# How well a retrieved context covers its question: the text features of `retrieval_risk`.
#
# A coverage is a share of the question's mass, the sum of the inverse document frequencies of
# its words. The ``rare_`` features also weigh a word by how few of the retrieved passages have
# it: a word that all passages have is the topic, and one that few have is what was asked.

QUERY_NAMES = (
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


def _query_terms(
    question: str, context: Context, weigh: Callable[[str], float], *, english: bool
) -> list[Term]:
    """Return the words that a question asks about, each stem once."""
    asking = _ASKING if english else _words.OTHER_STOP_WORDS
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


def _measure_query(
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
    pairs = context.neighbours(_text.stems(_text.tokens(question), english=english))
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
        "bigrams": sum(pairs) / (len(pairs) or 1),
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


# The features of a hybrid retrieval: do its methods agree, and does the best chunk stand out?
#
# A score is only compared with others of the same method, so their scales do not matter. The
# features need scores of both methods; without them there are none.

RANKING_NAMES = ("overlap", "lexical_spread", "lexical_gap", "dense_spread", "dense_gap")
_DEPTH = 20
_PERSISTENCE = 0.8
"""How much a rank weighs beside the rank above it. The first five ranks decide."""


def _measure_ranking(chunks: Sequence[Chunk]) -> dict[str, float]:
    """Compute the features. There are none if a method has fewer than three positive scores."""
    ids: dict[str, list[object]] = {LEXICAL: [], DENSE: []}
    scores: dict[str, list[float]] = {LEXICAL: [], DENSE: []}
    for chunk in chunks:
        found_by = side(chunk.retrieval_method)
        if found_by in ids:
            ids[found_by].append(key(chunk.chunk_id) or chunk.content)
            score = number(chunk.score)
            if score is not None:
                scores[found_by].append(score)
    features = {}
    for found_by, name in ((LEXICAL, "lexical"), (DENSE, "dense")):
        ranked = sorted(scores[found_by], reverse=True)
        if len(ranked) < 3 or ranked[0] <= 0:
            return {}
        features[f"{name}_spread"] = spread(ranked)
        features[f"{name}_gap"] = (ranked[0] - ranked[1]) / ranked[0]
    features["overlap"] = _overlap(ids[LEXICAL], ids[DENSE])
    return features


def _overlap(left: Sequence[object], right: Sequence[object]) -> float:
    """Return the rank-biased overlap, 0..1, of two rankings, down to the end of the shorter one."""
    seen_left: set[object] = set()
    seen_right: set[object] = set()
    total = weight = 0.0
    for rank in range(min(len(left), len(right), _DEPTH)):
        seen_left.add(left[rank])
        seen_right.add(right[rank])
        share = _PERSISTENCE**rank
        total += share * len(seen_left & seen_right) / (rank + 1)
        weight += share
    return total / weight


NAME = "retrieval_risk"
_MAX_SHOWN = 20


def features(
    record: Record, *, table: Mapping[str, float] | None = None
) -> tuple[dict[str, float], list[Term], dict[str, object]] | str:
    """Return a record's features, the terms of its question, and metadata.

    A text is returned instead if the record cannot be measured; it says why. ``table`` replaces the
    shipped background table; training uses it.
    """
    question = _text.question(record)
    context = context_of(_text.passages(record.retrieved_context))
    spoken = _text.language([_text.sample(_text.tokens(question))])
    written = context.language
    if spoken.sure and written.sure and spoken.english != written.english:
        return "question and context are in different languages, so their words cannot be compared"
    english = written.english and (spoken.english or not spoken.sure)
    if english != context.english:
        context = context_of(_text.passages(record.retrieved_context), english=english)
    weigh = _words.weigher(table, english=english)
    terms = _query_terms(question, context, weigh, english=english)
    if not terms:
        return "the question has no words to look for"
    measured = _measure_query(question, terms, context, english=english)
    measured.update(_measure_ranking(record.retrieved_context or ()))
    metadata: dict[str, Any] = {"language": "en" if english else "other"}
    if context.capped:
        metadata["context_capped"] = True
    return measured, terms, metadata


def _retrieval_risk(record: Record) -> Evaluation | None:
    """Return how likely the retrieved chunks lack what the question asks for.

    The value lies between 0 and 1, and is 1 if nothing was retrieved. It is ``None`` if the chunks
    have no text, if question and context are in different languages, or if the question has no
    words to look for. It notices that passages are missing, but not that a passage on the right
    subject leaves the question open.

    Formula: the features say what share of the question's words the context, its best passage and
    its best sentence have, and for a hybrid retrieval how far the rankings of both sides agree. A
    model made of one step function per feature turns them into a probability. It was fitted on
    questions whose paragraph was or was not in the index (``benchmarks/quality/risk_train.py``), so
    compare ranks between applications and not values.

    Metadata: ``uncovered_query_terms`` (as written), ``language`` (``en``; ``other``: only features
    that hold in every language were used), and ``context_capped`` if the context was too
    long to be read to its end.
    """
    chunks = record.retrieved_context
    if chunks is None or record.request is None:
        return None
    if not chunks:
        return Evaluation(NAME, 1.0, None, "nothing was retrieved", None, {})
    if not _text.passages(record.retrieved_context):
        return Evaluation(NAME, None, None, "the chunks have no content to look at", None, {})
    measured = features(record)
    if isinstance(measured, str):
        return Evaluation(NAME, None, None, measured, None, {})
    values, terms, metadata = measured
    part = "hybrid" if "overlap" in values else "text"
    value = _words.model("retrieval", part).risk(values)
    uncovered = sorted((t for t in terms if not t.sentences), key=lambda t: -t.weight)
    metadata["uncovered_query_terms"] = [term.word for term in uncovered[:_MAX_SHOWN]]
    explanation = f"the best sentence covers {values['best_sentence']:.0%} of the question"
    if uncovered:
        explanation += f"; not in the context: {', '.join(term.word for term in uncovered[:5])}"
    return Evaluation(NAME, round(value, 4), None, explanation, None, metadata)


retrieval_risk = FunctionHeuristic(
    _retrieval_risk, NAME, version="2", needs=("request", "retrieved_context")
)
