"""The features of one sentence: how much of what it says the context does not say.

A mass is a sum of inverse document frequencies, so rare words weigh more. A share is a part of the
sentence's mass. The time for all of it is linear in the length of the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmeval_sdk.heuristics.risk import _cues, _details
from llmeval_sdk.heuristics.risk._context import Context
from llmeval_sdk.heuristics.risk._details import COMMON
from llmeval_sdk.heuristics.risk._draft import Draft, Reference, Sentence, Word, words_of
from llmeval_sdk.heuristics.risk._passage import bigrams


SOFT = 0.3
"""The part of its mass that a word loses when the context has all of its parts."""
SOFT_OTHER = 0.9
"""The same for other languages, where words inflect and form compounds."""
GRAM_SIZE = 0.4
"""How many words a pair of signs counts as, in a script without spaces."""


NAMES = (
    "novel_mass", "novel_count", "novel_share", "novel_max", "novel_run", "novel_run_mass",
    "fresh_mass", "question_share", "soft_share", "best", "best_pair", "split_pairs", "bigrams",
    "copied", "numbers", "numbers_absent", "numbers_far", "numbers_unpaired", "units_changed",
    "negated", "affirmed", "citation_gap", "asked_missing", "bigrams_absent", "capitals_absent",
    "position", "last", "item", "lead_in", "refusal", "hedge", "meta", "advice",
)  # fmt: skip


def measure(
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
        "refusal": _cues.declines(raw, lower, english=english),
        "hedge": english and not _cues.HEDGES.isdisjoint(lower),
        "meta": english and not _cues.META.isdisjoint(lower),
        "advice": english and not _cues.ADVICE.isdisjoint(lower),
    }
    aligned = _align(words, total, features)
    _novelty(words, reference, seen, total, features)
    _copying(sentence.stems, reference.context, features)
    _details.numbers(words, sentence, reference.context, aligned, features)
    features["units_changed"] = _details.units_changed(words, sentence, reference.context, postings)
    _details.polarity(sentence.tokens, lower, reference, aligned, features)
    features["asked_missing"] = reference.asked_missing
    features["citation_gap"] = _details.citation_gap(
        words, sentence.cited, reference.context, total
    )
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
    for known in map(context.bigrams.__contains__, bigrams(stems)):
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
