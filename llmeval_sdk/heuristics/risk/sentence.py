"""What one sentence of a response says that the context does not: its features.

Everything is linear in the sentence. Masses are sums of inverse document frequencies, so rare
words weigh more; shares are of the sentence's mass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import cues, languages, text, units
from llmeval_sdk.heuristics.risk.context import Context, bigrams
from llmeval_sdk.heuristics.risk.numerals import scaled
from llmeval_sdk.heuristics.risk.words import SCALES, STOP_WORDS, SYMBOLS


NUMBER_WEIGHT = 6.0
NUMBER_WORD_WEIGHT = 3.0
SOFT = 0.3
"""Share of its mass that a word stops being novel by when the context has all its parts."""
SOFT_OTHER = 0.9
"""The same in other languages, whose words inflect and compound."""
GRAM_SIZE = 0.4
"""Words that a pair of signs of a script without spaces counts as."""
_COMMON = 24
"""A word in more sentences than this aligns with all of them: looking would not be linear."""
_SHORT = 8
"""Sentences of a context that is looked at whole."""
_PLACES = 8
"""Sentences of the context in which the unit of a number is looked up."""

NAMES = (
    "novel_mass", "novel_count", "novel_share", "novel_max", "novel_run", "novel_run_mass",
    "fresh_mass", "question_share", "soft_share", "best", "best_pair", "split_pairs", "bigrams",
    "copied", "numbers", "numbers_absent", "numbers_far", "numbers_unpaired", "units_changed",
    "negated", "affirmed", "citation_gap", "asked_missing", "bigrams_absent", "capitals_absent",
    "position", "last", "item", "lead_in", "refusal", "hedge", "meta", "advice",
)  # fmt: skip


class Sentence(NamedTuple):
    """One sentence of a response: where it stands, its features by name, its absent numbers."""

    start: int
    end: int
    features: dict[str, float]
    numbers_absent: list[str]
    """As written."""
    own_words: int
    """Words that neither context nor question have, numbers included."""


class Side(NamedTuple):
    """What a sentence is held against."""

    context: Context
    question: Collection[str]
    """Stems of the question: what it says need not stand in the context too."""
    weigh: Callable[[str], float]
    english: bool
    names_by_capitals: bool = True
    asked: frozenset[int] = frozenset()
    """Sentences of the context that best match the question."""
    asked_missing: float = 0.0
    """Share of the question's mass that the context does not have."""


class Draft(NamedTuple):
    """A sentence as tokens, before it is compared."""

    start: int
    end: int
    raw: str
    item: bool
    tokens: list[str]
    stems: list[str]
    """Of the tokens; a run of a script without spaces has several."""
    cited: list[int]


class _Word(NamedTuple):
    """A content word or number: its place among the tokens, its weight, where it is supported."""

    stem: str
    token: str
    at: int
    weight: float
    posting: Sequence[int] | None
    known: bool
    number: bool


def draft(response: str, start: int, end: int, *, english: bool) -> Draft:
    """Tokenise a sentence without its list mark and the citations it makes."""
    raw = response[start:end]
    item = cues.LIST_ITEM.match(raw)
    claim = raw[item.end() :] if item else raw
    tokens = text.tokens(claim)
    cited: list[int] = []
    if any(token[0].isdecimal() for token in tokens):
        kept, rest = "", 0
        for first, last, numbers in cues.citations(claim):
            kept, rest = kept + claim[rest:first], last
            cited += numbers
        if rest:
            tokens = text.tokens(kept + claim[rest:])
    return Draft(
        start, end, raw, item is not None, tokens, text.stems(tokens, english=english), cited
    )


def measure(
    sentence: Draft, side: Side, postings: Mapping[str, list[int]], seen: set[str], position: float
) -> Sentence:
    """Compute the features of a sentence.

    ``postings`` are the sentences of the context in which its stems stand, ``seen`` collects novel
    words so far.
    """
    words = _words(sentence, side, postings)
    mass = sum([word.weight for word in words])
    total = mass or 1.0
    lower = {token.lower() for token in sentence.tokens}
    raw = sentence.raw.lower()
    english = side.english
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
        "refusal": cues.declines(raw, lower, english=english),
        "hedge": english and not cues.HEDGES.isdisjoint(lower),
        "meta": english and not cues.META.isdisjoint(lower),
        "advice": english and not cues.ADVICE.isdisjoint(lower),
    }
    aligned = _align(words, total, features)
    _novelty(words, side, seen, total, features)
    _copying(sentence.stems, side.context, features)
    _numbers(words, sentence, side.context, aligned, features)
    features["units_changed"] = _units_changed(words, sentence, side.context, postings)
    _polarity(sentence.tokens, side, aligned, features)
    features["asked_missing"] = side.asked_missing
    features["citation_gap"] = _citation_gap(words, sentence.cited, side.context, total)
    own = sum([not word.known for word in words])
    return Sentence(sentence.start, sentence.end, features, absent, own)


def _words(sentence: Draft, side: Side, postings: Mapping[str, list[int]]) -> list[_Word]:
    words = []
    english, question, weigh = side.english, side.question, side.weigh
    numbers = side.context.numbers
    tokens = sentence.tokens
    stop = STOP_WORDS if english else languages.STOP_WORDS
    spelled = text.SPELLED_OUT_NUMBERS[english]
    for at, token in enumerate(tokens):
        stem = text.stem_of(token, english=english)
        if stem in stop or token in SYMBOLS:
            continue
        if not stem:
            for gram in text.grams(token):
                posting = postings.get(gram)
                known = posting is not None or gram in question
                words.append(_Word(gram, gram, at, weigh(gram), posting, known, False))
            continue
        posting = postings.get(stem)
        if stem < ":":
            known = _number_known(stem, tokens[at + 1 : at + 2], side)
            words.append(
                _Word(stem, token, at, NUMBER_WEIGHT, posting if known else None, known, True)
            )
            continue
        weight = weigh(stem)
        known = posting is not None or stem in question
        digits = spelled.get(stem)
        if digits is not None:
            weight, known = min(weight, NUMBER_WORD_WEIGHT), known or digits in numbers
        words.append(_Word(stem, token, at, weight, posting, known, False))
    return words


def _number_known(digits: str, following: list[str], side: Side) -> bool:
    """Look a number up with the scale word behind it: "2 million" is not "2 billion"."""
    numbers = side.context.numbers
    plain = digits in numbers or digits in side.question
    scale = following[0].lower() if following else ""
    whole = scaled(digits, scale) if scale in SCALES else None
    if whole is None:
        return plain
    return whole in numbers or (plain and len(scale) < 3)


def _align(words: list[_Word], total: float, features: dict[str, float]) -> tuple[int, int]:
    """Find the context sentence that covers most mass, and the one that adds most to it."""
    votes: dict[int, float] = {}
    everywhere = 0.0
    pairs = split = 0
    previous: Sequence[int] | None = None
    for word in words:
        posting = word.posting
        if posting is None:
            previous = previous if word.known else None
        elif len(posting) > _COMMON:
            everywhere += word.weight
        else:
            weight = word.weight
            for sentence in posting:
                votes[sentence] = votes.get(sentence, 0.0) + weight
            if previous is not None:
                pairs += 1
                split += set(previous).isdisjoint(posting)
            previous = posting
    best = max(votes, key=votes.__getitem__, default=-1)
    added: dict[int, float] = {}
    for word in words:
        posting = word.posting
        if posting is not None and len(posting) <= _COMMON and best not in posting:
            for sentence in posting:
                added[sentence] = added.get(sentence, 0.0) + word.weight
    second = max(added, key=added.__getitem__, default=-1)
    covered = everywhere + votes.get(best, 0.0)
    features["best"] = covered / total if words else 1.0
    features["best_pair"] = (covered + added.get(second, 0.0)) / total if words else 1.0
    features["split_pairs"] = split / pairs if pairs else 0.0
    return best, second


def _novelty(
    words: list[_Word], side: Side, seen: set[str], total: float, features: dict[str, float]
) -> None:
    mass = largest = fresh = soft = run_mass = longest_mass = count = run = longest = 0.0
    capitals = 0
    softness = SOFT if side.english else SOFT_OTHER
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
            alike = side.context.resembles(stem, word.token)
            soft += alike * weight
            weight *= 1 - softness * alike
            if not side.english:
                size = 1 - softness * alike
            capitals += side.names_by_capitals and word.at > 0 and word.token[0].isupper()
        count += size
        mass += weight
        largest = max(largest, weight)
        run += size
        run_mass += weight
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
    """Measure how many neighbours stand side by side in the context too, and how many in a row."""
    two = longest = current = 0
    for known in map(context.bigrams.__contains__, bigrams(stems)):
        if known:
            current += 1
            two += 1
            longest = max(longest, current)
        else:
            current = 0
    features["bigrams"] = two / (len(stems) - 1) if len(stems) > 1 else 1.0
    features["bigrams_absent"] = max(0, len(stems) - 1 - two)
    features["copied"] = (longest + 1) / len(stems) if longest else 0.0


def _numbers(
    words: list[_Word],
    sentence: Draft,
    context: Context,
    aligned: tuple[int, int],
    features: dict[str, float],
) -> None:
    """Count numbers the context has, but not in an aligned sentence or by the same neighbour."""
    count = far = unpaired = 0
    for word in words:
        if not word.number:
            continue
        count += 1
        if not word.known:
            continue
        at = word.at
        far += word.posting is not None and not any(map(word.posting.__contains__, aligned))
        around = text.stems(sentence.tokens[max(0, at - 1) : at + 2], english=context.english)
        unpaired += not any(map(context.bigrams.__contains__, bigrams(around)))
    features["numbers"] = count
    features["numbers_far"] = far
    features["numbers_unpaired"] = unpaired


def _units_changed(
    words: list[_Word], sentence: Draft, context: Context, postings: Mapping[str, list[int]]
) -> int:
    """Count numbers that the context has in other units of the same dimension only."""
    english = context.english
    spelled = text.SPELLED_OUT_NUMBERS[english]
    lower: list[str] = []
    changed = 0
    for word in words:
        digits = word.stem if word.number else spelled.get(word.stem)
        if digits is None or not word.known:
            continue
        lower = lower or [token.lower() for token in sentence.tokens]
        here = units.behind(lower, word.at)
        if here is not None:
            written = (digits, *text.SPELLED[english].get(digits, ()))
            places = chain.from_iterable(postings.get(form, ()) for form in written)
            changed += units.changed(here, context.units(digits, islice(places, _PLACES)))
    return changed


def _polarity(
    tokens: list[str], side: Side, aligned: tuple[int, int], features: dict[str, float]
) -> None:
    """Compare whether the sentence negates with whether the context does where it matches.

    The places are the aligned sentences and those that the question asks about; a short context
    is looked at whole where there is none.
    """
    context = side.context
    here = languages.negates(tokens, english=side.english)
    places = {sentence for sentence in aligned if sentence >= 0} | side.asked
    if not places and len(context.sentences) <= _SHORT:
        places = set(range(len(context.sentences)))
    negated = here and bool(places) and not any(map(context.negates, places))
    first = side.asked or {aligned[0]}
    affirmed = not here and any(s >= 0 and context.negates(s) for s in first)
    features["negated"], features["affirmed"] = negated, affirmed


def _citation_gap(words: list[_Word], cited: list[int], context: Context, total: float) -> float:
    """Share of the mass that the context has, but not in the passages that are cited for it."""
    if not cited:
        return 0.0
    gap = 0.0
    numbers = context.cited
    for word in words:
        posting = word.posting
        if posting is not None and len(posting) <= _COMMON:
            gap += word.weight * all(numbers[sentence] not in cited for sentence in posting)
    return gap / total
