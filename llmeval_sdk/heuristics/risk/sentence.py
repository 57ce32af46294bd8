"""What one sentence of a response says that the context does not: its features.

Everything is linear in the sentence. Masses are sums of inverse document frequencies, so rare
words weigh more; shares are of the sentence's mass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from llmeval_sdk.heuristics.risk import cues, text
from llmeval_sdk.heuristics.risk.context import PREFIX, Context, bigrams
from llmeval_sdk.heuristics.risk.text import Token
from llmeval_sdk.heuristics.risk.words import SCALES, STOP_WORDS


NUMBER_WEIGHT = 6.0
NUMBER_WORD_WEIGHT = 3.0
SOFT = 0.7
"""Share of its mass that a word keeps as novel when the context knows its first letters."""
_COMMON = 24
"""A word in more sentences than this aligns with all of them: looking would not be linear."""

NAMES = (
    "content", "mass", "novel_mass", "novel_count", "novel_share", "novel_max", "novel_run",
    "novel_run_mass", "fresh_mass", "question_share", "soft_share", "best", "best_pair",
    "split_pairs", "bigrams", "copied", "numbers", "numbers_absent", "numbers_far",
    "numbers_unpaired", "capitals_absent", "position", "last", "item", "lead_in", "refusal",
    "hedge", "meta", "advice", "tokens",
)  # fmt: skip


class Sentence(NamedTuple):
    """One sentence of a response: where it stands, its features by name, its absent numbers."""

    start: int
    end: int
    features: dict[str, float]
    numbers_absent: list[Token]
    novel: list[Token]


class Side(NamedTuple):
    """What a sentence is held against."""

    context: Context
    question: Collection[str]
    """Stems of the question: what it says need not stand in the context too."""
    weigh: Callable[[str], float]
    english: bool


class _Word(NamedTuple):
    """A content word or number: its place among the tokens, its weight, where it is supported."""

    token: Token
    at: int
    weight: float
    posting: Sequence[int] | None
    known: bool


def measure(
    response: str, span: tuple[int, int], side: Side, seen: set[str], *, position: float
) -> Sentence:
    """Compute the features of ``response[start:end]``; ``seen`` collects novel words so far."""
    start, end = span
    raw = response[start:end].lower()
    item = cues.LIST_ITEM.match(raw)
    tokens = _tokens(response, start + (item.end() if item else 0), end, english=side.english)
    stems = [token.stem for token in tokens]
    words = _words(tokens, stems, side)
    mass = sum(word.weight for word in words)
    total = mass or 1.0
    absent = [w.token for w in words if w.token.kind == text.NUMBER and not w.known]
    features = {
        "content": len(words),
        "mass": mass,
        "tokens": len(tokens),
        "position": position,
        "last": position == 1.0,
        "item": item is not None,
        "lead_in": raw.endswith((":", "?")),
        "question_share": sum(w.weight for w in words if w.known and w.posting is None) / total,
        "numbers_absent": len(absent),
    }
    for name, cue in _CUES:
        features[name] = side.english and cue.search(raw) is not None
    aligned = _align(words, total, features)
    _novelty(words, side, seen, total, features)
    _copying(stems, side.context, features)
    _numbers(words, stems, side.context, aligned, features)
    novel = [word.token for word in words if not word.known]
    return Sentence(start, end, features, absent, novel)


_CUES = (
    ("refusal", cues.REFUSAL),
    ("hedge", cues.HEDGE),
    ("meta", cues.META),
    ("advice", cues.ADVICE),
)


def _tokens(response: str, start: int, end: int, *, english: bool) -> list[Token]:
    """Tokenise a sentence without the citations it makes ("passage 2", "[3]")."""
    tokens = text.tokens(response, start, end, english=english)
    cited = [match.span() for match in cues.CITATION.finditer(response, start, end)]
    for first, last in cited[:20]:
        tokens = [token for token in tokens if not first <= token.start < last]
    return tokens


def _words(tokens: list[Token], stems: list[str], side: Side) -> list[_Word]:
    words = []
    postings, numbers = side.context.postings, side.context.numbers
    for at, token in enumerate(tokens):
        stem = token.stem
        if token.kind == text.SYMBOL or (
            token.kind == text.WORD
            and (stem in STOP_WORDS if side.english else len(stem) <= 3 and stem.isascii())
        ):
            continue
        posting = postings.get(stem)
        if token.kind == text.NUMBER:
            known = _number_known(stem, stems[at + 1 : at + 2], side)
            words.append(_Word(token, at, NUMBER_WEIGHT, posting if known else None, known))
            continue
        weight = side.weigh(stem)
        known = posting is not None or stem in side.question
        digits = text.number_word(stem)
        if digits is not None:
            weight, known = min(weight, NUMBER_WORD_WEIGHT), known or digits in numbers
        words.append(_Word(token, at, weight, posting, known))
    return words


def _number_known(digits: str, following: list[str], side: Side) -> bool:
    """Look a number up with the scale word behind it: "2 million" is not "2 billion"."""
    numbers = side.context.numbers
    plain = digits in numbers or digits in side.question
    whole = text.scaled(digits, following[0]) if following and following[0] in SCALES else None
    if whole is None:
        return plain
    return whole in numbers or (plain and len(following[0]) < 3)


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
            for sentence in posting:
                votes[sentence] = votes.get(sentence, 0.0) + word.weight
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
    mass = largest = fresh = soft = run_mass = longest_mass = 0.0
    count = run = longest = capitals = 0
    for word in words:
        if word.known:
            run, run_mass = 0, 0.0
            continue
        weight, stem = word.weight, word.token.stem
        if stem[:PREFIX] in side.context.prefixes and len(stem) >= PREFIX:
            soft += weight
            weight *= SOFT
        count += 1
        mass += weight
        largest = max(largest, weight)
        run += 1
        run_mass += weight
        longest, longest_mass = max(longest, run), max(longest_mass, run_mass)
        capitals += word.token.capital and word.at > 0
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
        current = current + 1 if known else 0
        two += known
        longest = max(longest, current)
    features["bigrams"] = two / (len(stems) - 1) if len(stems) > 1 else 1.0
    features["copied"] = (longest + 1) / len(stems) if longest else 0.0


def _numbers(
    words: list[_Word],
    stems: list[str],
    context: Context,
    aligned: tuple[int, int],
    features: dict[str, float],
) -> None:
    """Count numbers the context has, but not in an aligned sentence or by the same neighbour."""
    count = far = unpaired = 0
    for word in words:
        if word.token.kind != text.NUMBER:
            continue
        count += 1
        if not word.known:
            continue
        at = word.at
        far += word.posting is not None and not any(map(word.posting.__contains__, aligned))
        around = bigrams(stems[max(0, at - 1) : at + 2])
        unpaired += not any(map(context.bigrams.__contains__, around))
    features["numbers"] = count
    features["numbers_far"] = far
    features["numbers_unpaired"] = unpaired
