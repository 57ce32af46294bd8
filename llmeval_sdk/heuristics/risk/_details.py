"""Details that make a sentence wrong although the context has its words.

These are a number in another place or unit, a negation, and a citation of the wrong passage.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice

from llmeval_sdk.heuristics.risk import _languages, _numerals, _text
from llmeval_sdk.heuristics.risk._context import Context
from llmeval_sdk.heuristics.risk._draft import Draft, Reference, Word
from llmeval_sdk.heuristics.risk._passage import bigrams


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
    for word in words:
        if not word.number:
            continue
        count += 1
        if not word.known:
            continue
        at = word.at
        far += word.posting is not None and not any(map(word.posting.__contains__, aligned))
        around = _text.stems(sentence.tokens[max(0, at - 1) : at + 2], english=context.english)
        unpaired += not any(map(context.bigrams.__contains__, bigrams(around)))
    features["numbers"] = count
    features["numbers_far"] = far
    features["numbers_unpaired"] = unpaired


def units_changed(
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
        here = _numerals.behind(sentence.tokens, word.at)
        if here is not None:
            written = (digits, *_text.SPELLED[english].get(digits, ()))
            places = chain.from_iterable(postings.get(form, ()) for form in written)
            changed += _numerals.changed(here, context.units(digits, islice(places, _PLACES)))
    return changed


def polarity(
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
    may = not (reference.english and _languages.NEGATIONS.isdisjoint(lower))
    here = may and _languages.negates(tokens, english=reference.english)
    places = {sentence for sentence in aligned if sentence >= 0} | reference.asked
    if not places and len(context.chunks) <= _SHORT:
        places = set(range(len(context.chunks)))
    negated = here and bool(places) and not any(map(context.negates, places))
    first = reference.asked or {aligned[0]}
    affirmed = not here and any(s >= 0 and context.negates(s) for s in first)
    features["negated"], features["affirmed"] = negated, affirmed


def citation_gap(words: list[Word], cited: list[int], context: Context, total: float) -> float:
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
