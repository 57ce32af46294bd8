"""Details that make a sentence wrong although its words stand in the context.

A number in another place or unit, a negation, a passage cited for what another says.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice

from llmeval_sdk.heuristics.risk import languages, numerals, text
from llmeval_sdk.heuristics.risk.context import Context
from llmeval_sdk.heuristics.risk.draft import Draft, Side, Word
from llmeval_sdk.heuristics.risk.passage import bigrams


COMMON = 24
"""A word in more sentences than this aligns with all of them: looking would not be linear."""
_SHORT = 8
"""Sentences of a context that is looked at whole."""
_PLACES = 8
"""Sentences of the context in which the unit of a number is looked up."""


def numbers(
    words: list[Word],
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


def units_changed(
    words: list[Word], sentence: Draft, context: Context, postings: Mapping[str, list[int]]
) -> int:
    """Count numbers that the context has in other units of the same dimension only."""
    english = context.english
    spelled = text.SPELLED_OUT_NUMBERS[english]
    changed = 0
    for word in words:
        digits = word.stem if word.number else spelled.get(word.stem)
        if digits is None or not word.known:
            continue
        here = numerals.behind(sentence.tokens, word.at)
        if here is not None:
            written = (digits, *text.SPELLED[english].get(digits, ()))
            places = chain.from_iterable(postings.get(form, ()) for form in written)
            changed += numerals.changed(here, context.units(digits, islice(places, _PLACES)))
    return changed


def polarity(
    tokens: list[str],
    lower: set[str],
    side: Side,
    aligned: tuple[int, int],
    features: dict[str, float],
) -> None:
    """Compare whether the sentence negates with whether the context does where it matches.

    The places are the aligned sentences and those that the question asks about; a short context
    is looked at whole where there is none.
    """
    context = side.context
    may = not (side.english and languages.NEGATIONS.isdisjoint(lower))
    here = may and languages.negates(tokens, english=side.english)
    places = {sentence for sentence in aligned if sentence >= 0} | side.asked
    if not places and len(context.chunks) <= _SHORT:
        places = set(range(len(context.chunks)))
    negated = here and bool(places) and not any(map(context.negates, places))
    first = side.asked or {aligned[0]}
    affirmed = not here and any(s >= 0 and context.negates(s) for s in first)
    features["negated"], features["affirmed"] = negated, affirmed


def citation_gap(words: list[Word], cited: list[int], context: Context, total: float) -> float:
    """Share of the mass that the context has, but not in the passages that are cited for it."""
    if not cited:
        return 0.0
    gap = 0.0
    cited_as = context.cited
    for word in words:
        posting = word.posting
        if posting is not None and len(posting) <= COMMON:
            gap += word.weight * all(cited_as[sentence] not in cited for sentence in posting)
    return gap / total
