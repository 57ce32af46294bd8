"""The features that the risk scores weigh: of one sentence and of a response.

A mass is a sum of inverse document frequencies, so rare words weigh more. A share is a part of the
sentence's mass. The time for all features of a sentence is linear in its length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import _text, _words
from llmeval_sdk.heuristics.risk._context import Context
from llmeval_sdk.heuristics.risk._text import scaled
from llmeval_sdk.heuristics.risk._words import SCALES, STOP_WORDS, SYMBOLS
from llmeval_sdk.process.pieces import paced, pause


# The features of one sentence: how much of it the context does not say.


# Splits a sentence of a response into words, and finds where the context has each of them.

_DIGIT = re.compile(r"\d")
NUMBER_WEIGHT = 6.0
NUMBER_WORD_WEIGHT = 3.0


class Sentence(NamedTuple):
    """One sentence of a response: its place, its features, and numbers that the context lacks."""

    start: int
    end: int
    features: dict[str, float]
    numbers_absent: list[str]
    """The numbers that the context lacks, as they were written."""
    own_words: float
    """How many words neither context nor question have, including numbers."""
    english: bool


class Reference(NamedTuple):
    """What the sentences of a response are compared with."""

    context: Context
    question: Collection[str]
    """The stems of the question. What the question says need not stand in the context as well."""
    weigh: Callable[[str], float]
    english: bool
    names_by_capitals: bool = True
    asked: frozenset[int] = frozenset()
    """The sentences of the context that match the question best."""
    asked_missing: float = 0.0
    """The part of the question's mass that the context lacks."""


class Draft(NamedTuple):
    """A sentence that is split into tokens and not compared yet."""

    start: int
    end: int
    raw: str
    item: bool
    tokens: list[str]
    stems: list[str]
    """The stems of the tokens. A run of a script without spaces has several."""
    cited: list[int]


class Word(NamedTuple):
    """A content word or a number, with the sentences of the context that have it."""

    stem: str
    token: str
    at: int
    weight: float
    posting: Sequence[int] | None
    known: bool
    number: bool


def draft(response: str, start: int, end: int, *, english: bool) -> Draft:
    """Split a sentence into tokens, without its list mark and its citations."""
    pause()
    raw = response[start:end]
    item = _words.LIST_ITEM.match(raw)
    claim = raw[item.end() :] if item else raw
    tokens = _text.tokens(claim)
    cited: list[int] = []
    if _DIGIT.search(claim):
        kept, rest = "", 0
        for first, last, numbers in _words.citations(claim):
            kept, rest = kept + claim[rest:first], last
            cited += numbers
        if rest:
            tokens = _text.tokens(kept + claim[rest:])
    return Draft(
        start, end, raw, item is not None, tokens, _text.stems(tokens, english=english), cited
    )


def words_of(
    sentence: Draft, reference: Reference, postings: Mapping[str, list[int]]
) -> list[Word]:
    """Return the content words and numbers of a sentence."""
    words = []
    english, question, weigh = reference.english, reference.question, reference.weigh
    numbers = reference.context.numbers
    tokens = sentence.tokens
    stop = STOP_WORDS if english else _words.OTHER_STOP_WORDS
    spelled = _text.SPELLED_OUT_NUMBERS[english]
    stems = _text.stems_of(tokens, english=english)
    for at, (token, stem) in enumerate(zip(tokens, stems, strict=True)):
        if stem in stop or token in SYMBOLS:
            continue
        if not stem:
            for gram in _text.grams(token):
                posting = postings.get(gram)
                known = posting is not None or gram in question
                words.append(Word(gram, gram, at, weigh(gram), posting, known, False))
            continue
        posting = postings.get(stem)
        if stem < ":":
            known = _number_known(stem, tokens[at + 1 : at + 2], reference)
            words.append(
                Word(stem, token, at, NUMBER_WEIGHT, posting if known else None, known, True)
            )
            continue
        weight = weigh(stem)
        known = posting is not None or stem in question
        digits = spelled.get(stem)
        if digits is not None:
            weight, known = min(weight, NUMBER_WORD_WEIGHT), known or digits in numbers
        words.append(Word(stem, token, at, weight, posting, known, False))
    return words


def _number_known(digits: str, following: list[str], reference: Reference) -> bool:
    """Return whether the context has a number. "2 million" is another number than "2 billion"."""
    numbers = reference.context.numbers
    plain = digits in numbers or digits in reference.question
    scale = following[0].lower() if following else ""
    whole = scaled(digits, scale) if scale in SCALES else None
    if whole is None:
        return plain
    return whole in numbers or (plain and len(scale) < 3)


# Details that make a sentence wrong although the context has its words.
#
# These are a number in another place or unit, a negation, and a citation of the wrong passage.

COMMON = 24
"""A word that stands in more sentences than this is taken to align with all of them. To look each
of them up would not take linear time."""
_SHORT = 8
"""A context of at most so many sentences is looked at as a whole."""
_PLACES = 8
"""In how many sentences of the context the unit of a number is looked up."""


def numbers(
    words: list[Word],
    sentence: Draft,
    context: Context,
    aligned: tuple[int, int],
    features: dict[str, float],
) -> None:
    """Count numbers that the context has, but in another sentence or beside another word."""
    count = far = unpaired = 0
    for word in paced(words):
        if not word.number:
            continue
        count += 1
        if not word.known:
            continue
        at = word.at
        far += word.posting is not None and not any(map(word.posting.__contains__, aligned))
        around = _text.stems(sentence.tokens[max(0, at - 1) : at + 2], english=context.english)
        unpaired += not any(context.neighbours(around))
    features["numbers"] = count
    features["numbers_far"] = far
    features["numbers_unpaired"] = unpaired


def _units_changed(
    words: list[Word], sentence: Draft, context: Context, postings: Mapping[str, list[int]]
) -> int:
    """Count numbers that the context has only with other units of the same dimension."""
    english = context.english
    spelled = _text.SPELLED_OUT_NUMBERS[english]
    changed = 0
    for word in words:
        digits = word.stem if word.number else spelled.get(word.stem)
        if digits is None or not word.known:
            continue
        here = _text.behind(sentence.tokens, word.at)
        if here is not None:
            written = (digits, *_text.SPELLED[english].get(digits, ()))
            places = chain.from_iterable(postings.get(form, ()) for form in written)
            changed += _text.changed(here, context.units(digits, islice(places, _PLACES)))
    return changed


def _polarity(
    tokens: list[str],
    lower: set[str],
    reference: Reference,
    aligned: tuple[int, int],
    features: dict[str, float],
) -> None:
    """Compare whether the sentence negates with whether the context does where they match.

    They match in the aligned sentences and in those that the question asks about. Where there is
    neither, a short context is looked at as a whole.
    """
    context = reference.context
    may = not (reference.english and _words.NEGATIONS.isdisjoint(lower))
    here = may and _words.negates(tokens, english=reference.english)
    places = {sentence for sentence in aligned if sentence >= 0} | reference.asked
    if not places and len(context.chunks) <= _SHORT:
        places = set(range(len(context.chunks)))
    negated = here and bool(places) and not any(map(context.negates, places))
    first = reference.asked or {aligned[0]}
    affirmed = not here and any(s >= 0 and context.negates(s) for s in first)
    features["negated"], features["affirmed"] = negated, affirmed


def _citation_gap(words: list[Word], cited: list[int], context: Context, total: float) -> float:
    """Return the part of the mass that the context has, but not in the passages that are cited."""
    if not cited:
        return 0.0
    gap = 0.0
    cited_as = context.cited
    for word in words:
        posting = word.posting
        if posting is not None and len(posting) <= COMMON:
            gap += word.weight * all(cited_as[sentence] not in cited for sentence in posting)
    return gap / total


SOFT = 0.3
"""The part of its mass that a word loses when the context has all of its parts."""
SOFT_OTHER = 0.9
"""The same for other languages, where words inflect and form compounds."""
GRAM_SIZE = 0.4
"""How many words a pair of signs counts as, in a script without spaces."""


SENTENCE_FEATURES = (
    "novel_mass", "novel_count", "novel_share", "novel_max", "novel_run", "novel_run_mass",
    "fresh_mass", "question_share", "soft_share", "best", "best_pair", "split_pairs", "bigrams",
    "copied", "numbers", "numbers_absent", "numbers_far", "numbers_unpaired", "units_changed",
    "negated", "affirmed", "citation_gap", "asked_missing", "bigrams_absent", "capitals_absent",
    "position", "last", "item", "lead_in", "refusal", "hedge", "meta", "advice",
)  # fmt: skip


def sentence_features(
    sentence: Draft,
    reference: Reference,
    postings: Mapping[str, list[int]],
    seen: set[str],
    position: float,
) -> Sentence:
    """Compute the features of a sentence.

    ``postings`` says in which sentences of the context each stem stands. ``seen`` holds the novel
    words of earlier sentences, and those of this one are added.
    """
    words = words_of(sentence, reference, postings)
    mass = sum([word.weight for word in words])
    total = mass or 1.0
    lower = {token.lower() for token in sentence.tokens}
    raw = sentence.raw.lower()
    english = reference.english
    absent = [word.token for word in words if word.number and not word.known]
    features: dict[str, float] = {
        "content": len(words),
        "mass": mass,
        "tokens": len(sentence.stems),
        "position": position,
        "last": position == 1.0,
        "item": sentence.item,
        "lead_in": raw.endswith((":", "?")),
        "question_share": sum([w.weight for w in words if w.known and w.posting is None]) / total,
        "numbers_absent": len(absent),
        "refusal": _words.declines(raw, lower, english=english),
        "hedge": english and not _words.HEDGES.isdisjoint(lower),
        "meta": english and not _words.META.isdisjoint(lower),
        "advice": english and not _words.ADVICE.isdisjoint(lower),
    }
    aligned = _align(words, total, features)
    _novelty(words, reference, seen, total, features)
    _copying(sentence.stems, reference.context, features)
    numbers(words, sentence, reference.context, aligned, features)
    features["units_changed"] = _units_changed(words, sentence, reference.context, postings)
    _polarity(sentence.tokens, lower, reference, aligned, features)
    features["asked_missing"] = reference.asked_missing
    features["citation_gap"] = _citation_gap(words, sentence.cited, reference.context, total)
    own = sum(
        [
            1.0 if len(word.stem) > 2 or word.stem < "\u0e00" else GRAM_SIZE
            for word in words
            if not word.known
        ]
    )
    return Sentence(sentence.start, sentence.end, features, absent, own, english)


def _align(words: list[Word], total: float, features: dict[str, float]) -> tuple[int, int]:
    """Find the sentence of the context that covers most mass, and the one that adds most to it."""
    votes: dict[int, float] = {}
    everywhere = 0.0
    pairs = split = 0
    previous: Sequence[int] | None = None
    for word in words:
        posting = word.posting
        if posting is None:
            previous = previous if word.known else None
        elif len(posting) > COMMON:
            everywhere += word.weight
        else:
            weight = word.weight
            for sentence in posting:
                votes[sentence] = votes.get(sentence, 0.0) + weight
            if previous is not None:
                pairs += 1
                split += not (posting[0] in previous or any(map(previous.__contains__, posting)))
            previous = posting
    best = max(votes, key=votes.__getitem__, default=-1)
    added: dict[int, float] = {}
    for word in words:
        posting = word.posting
        if posting is not None and len(posting) <= COMMON and best not in posting:
            for sentence in posting:
                added[sentence] = added.get(sentence, 0.0) + word.weight
    second = max(added, key=added.__getitem__, default=-1)
    covered = everywhere + votes.get(best, 0.0)
    features["best"] = covered / total if words else 1.0
    features["best_pair"] = (covered + added.get(second, 0.0)) / total if words else 1.0
    features["split_pairs"] = split / pairs if pairs else 0.0
    return best, second


def _novelty(
    words: list[Word],
    reference: Reference,
    seen: set[str],
    total: float,
    features: dict[str, float],
) -> None:
    mass = largest = fresh = soft = run_mass = longest_mass = count = run = longest = 0.0
    capitals = 0
    softness = SOFT if reference.english else SOFT_OTHER
    for word in words:
        if word.known:
            run = run_mass = 0.0
            continue
        weight, stem, size = word.weight, word.stem, 1.0
        if word.number:
            pass
        elif stem > "\u0dff" and len(stem) <= 2:
            size = GRAM_SIZE
        else:
            alike = reference.context.resembles(stem, word.token)
            soft += alike * weight
            weight *= 1 - softness * alike
            if not reference.english:
                size = 1 - softness * alike
            capitals += reference.names_by_capitals and word.at > 0 and word.token[0].isupper()
        count += size
        mass += weight
        run += size
        run_mass += weight
        largest = max(largest, weight)
        longest, longest_mass = max(longest, run), max(longest_mass, run_mass)
        if stem not in seen:
            fresh += weight
            seen.add(stem)
    features["novel_mass"] = mass
    features["novel_share"] = mass / total
    features["novel_count"] = count
    features["novel_max"] = largest
    features["novel_run"] = longest
    features["novel_run_mass"] = longest_mass
    features["fresh_mass"] = fresh
    features["soft_share"] = soft / total
    features["capitals_absent"] = capitals


def _copying(stems: list[str], context: Context, features: dict[str, float]) -> None:
    """Measure how many pairs of neighbours the context has too, and how many of them in a row."""
    two = longest = current = 0
    for known in context.neighbours(stems):
        if known:
            current += 1
            two += 1
        else:
            longest = max(longest, current)
            current = 0
    longest = max(longest, current)
    features["bigrams"] = two / (len(stems) - 1) if len(stems) > 1 else 1.0
    features["bigrams_absent"] = max(0, len(stems) - 1 - two)
    features["copied"] = (longest + 1) / len(stems) if longest else 0.0


# The features of a whole response, made from the features of its sentences.
#
# None of them describes style, such as length, lists or phrases. Style tells which generator wrote
# an answer and not whether it is supported, so a model that uses it fails on the next generator.


RESPONSE_FEATURES = (
    "novel_mass", "novel_share", "novel_count", "worst_mass", "second_mass", "novel_run",
    "novel_run_mass", "novel_max", "fresh_mass", "best", "best_pair", "worst_best",
    "worst_best_pair", "bigrams", "copied", "numbers_absent", "numbers_far", "numbers_unpaired",
    "units_changed", "negated", "affirmed", "citation_gap", "asked_missing", "bigrams_absent",
    "worst_bigrams", "capitals_absent", "split_pairs", "question_share", "risk_1", "risk_2",
    "risk_3", "risk_mean", "risk_sum", "risk_any",
)  # fmt: skip


def response_features(sentences: Sequence[Sentence], risks: Sequence[float]) -> dict[str, float]:
    """Summarise the features of a response's sentences, by name.

    Args:
        sentences: The sentences of the response; at least one.
        risks: The risk of each sentence, 0..1.
    """
    rows = [sentence.features for sentence in sentences]
    weights = [row["content"] + 1e-9 for row in rows]
    weight = sum(weights)
    shared = list(zip(rows, weights, strict=True))

    def total(name: str) -> float:
        return sum([row[name] for row in rows])

    def mean(name: str) -> float:
        return sum([row[name] * share for row, share in shared]) / weight

    masses = sorted([row["novel_mass"] for row in rows], reverse=True)
    worst = [*sorted(risks, reverse=True)[:3], 0.0, 0.0]
    return {
        "novel_mass": total("novel_mass"),
        "novel_share": total("novel_mass") / (total("mass") or 1.0),
        "novel_count": total("novel_count"),
        "worst_mass": masses[0],
        "second_mass": masses[1] if len(masses) > 1 else 0.0,
        "novel_run": max([row["novel_run"] for row in rows]),
        "novel_run_mass": max([row["novel_run_mass"] for row in rows]),
        "novel_max": max([row["novel_max"] for row in rows]),
        "fresh_mass": total("fresh_mass"),
        "best": mean("best"),
        "best_pair": mean("best_pair"),
        "worst_best": min([row["best"] for row in rows]),
        "worst_best_pair": min([row["best_pair"] for row in rows]),
        "bigrams": mean("bigrams"),
        "copied": max([row["copied"] for row in rows]),
        "numbers_absent": total("numbers_absent"),
        "numbers_far": total("numbers_far"),
        "numbers_unpaired": total("numbers_unpaired"),
        "units_changed": total("units_changed"),
        "negated": max([row["negated"] for row in rows]),
        "affirmed": max([row["affirmed"] for row in rows]),
        "asked_missing": rows[0]["asked_missing"],
        "bigrams_absent": total("bigrams_absent"),
        "worst_bigrams": min([row["bigrams"] for row in rows]),
        "citation_gap": total("citation_gap"),
        "capitals_absent": total("capitals_absent"),
        "split_pairs": total("split_pairs") / len(rows),
        "question_share": total("question_share") / len(rows),
        "risk_1": worst[0],
        "risk_2": worst[1],
        "risk_3": worst[2],
        "risk_mean": sum(risks) / len(rows),
        "risk_sum": sum(risks),
        "risk_any": -sum(math.log(max(1e-3, 1.0 - risk)) for risk in risks),
    }
