"""Whether a text supports a value, and how: the text as it is searched, and the alignment."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from llmeval_sdk.text.budget import WorkBudget
from llmeval_sdk.text.grounding.amounts import (
    MEASURES,
    SHARED_SIGNS,
    Amount,
    Date,
    Tokens,
    amounts,
    dates,
    only_amounts,
    only_date,
    same,
    times,
)
from llmeval_sdk.text.grounding.text import fold, is_dense, without_accents, words


How = Literal["verbatim", "normalised", "date", "money", "unit", "number", "aligned", "unsupported"]
WAYS: tuple[How, ...] = get_args(How)
"""The ways in which a text can support a value, from the strictest to the loosest."""

_EXACT = 2.0**53
"""Integers from here on are compared as text."""
_SHORT = 100
"""How many characters a date or an amount may have."""
_SQUASHED = 4
_FIGURES = re.compile(r"\d+")
_IDENTIFIER = re.compile(r"(?=(?:\D*\d){6})[\d\s()/+-]+")
_OCCURRENCES = 1_000
_WINDOW = 4


def support(value: object, evidence: EvidenceText) -> How | None:  # noqa: PLR0911
    """Return how a text supports one value, or ``None`` if there is nothing to check.

    A value in words has to stand in the text as it is, normalised, or nearly; a number, amount or
    date may be written differently there but has to be the same. Booleans, ``None`` and what has no
    letter or figure are not checked.
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (int, float)) and abs(value) < _EXACT:
        amount = Amount((abs(float(value)),), negative=value < 0)
        return "number" if _has_amount(amount, evidence) else "unsupported"
    text = _text_of(value)
    evidence.budget.spend(50 + len(text) / 10 + len(evidence.text) / 100)
    if not any(map(str.isalnum, text)):
        return None
    if _stands_in(evidence.text, text, evidence.budget):
        return "verbatim"
    if len(text) <= _SHORT:
        known = _parsed(text, evidence)
        if known is not None:
            return known
    evidence.budget.spend(len(text) + len(evidence.folded) / 50)
    _spend_growth(text, evidence.budget)
    folded = fold(text)
    if f" {folded} " in evidence.folded or _is_squashed_in(folded.split(), evidence):
        return "normalised"
    evidence.budget.spend(2 * len(text))
    return "aligned" if _is_aligned_in(words(text, folded), evidence) else "unsupported"


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    try:
        return str(value.isoformat() if hasattr(value, "isoformat") else value).strip()
    except Exception:
        return ""


def _parsed(text: str, evidence: EvidenceText) -> How | None:
    """Look for a date, an amount or an identifier. ``None`` if the value is none of these."""
    lowered = plain(text)
    if len(text) <= 8 and text[-1] in "+-#":  # a grade such as BBB+
        return (
            "normalised" if _stands_in(evidence.plain, lowered, evidence.budget) else "unsupported"
        )
    readings, time = only_date(lowered)
    if any(same(value, date) for value in readings for date in evidence.dates):
        return "date" if time is None or time in evidence.times else "unsupported"
    amounts = only_amounts(lowered)
    if amounts and all(_has_amount(amount, evidence) for amount in amounts):
        return "money" if amounts[0].currencies else "unit" if amounts[0].unit else "number"
    if _IDENTIFIER.fullmatch(text) and _is_squashed_in(
        _FIGURES.findall(text), evidence, apart=True
    ):
        return "normalised"
    if readings and f" {fold(text)} " in evidence.folded:
        return "normalised"
    return "unsupported" if readings or amounts else None


def _stands_in(text: str, value: str, budget: WorkBudget) -> bool:
    """Return whether a text has a value character for character, and not inside a word."""
    start = text.find(value)
    for _ in range(_OCCURRENCES):
        if start < 0:
            return False
        budget.spend(5)
        end = start + len(value)
        if not _goes_on(text, start, -1) and not _goes_on(text, end - 1, 1):
            return True
        start = text.find(value, start + 1)
    return False


def _goes_on(text: str, edge: int, step: int) -> bool:
    """Return whether the word or number at an edge goes on beyond it."""
    beside = text[max(edge + step, 0) : edge + step + 1]
    if not beside:
        return False
    if text[edge].isdigit():
        beyond = text[max(edge + 2 * step, 0) : edge + 2 * step + 1]
        return beside.isdigit() or (beside in ".," and beyond.isdigit())
    if not text[edge].isalpha() or is_dense(text[edge]):
        return False
    return unicodedata.category(beside)[0] in "LM"


def _is_squashed_in(value: list[str], evidence: EvidenceText, *, apart: bool = False) -> bool:
    """Return whether a text has words with other spaces; ``apart`` allows split figures too."""
    joined = "".join(value)
    if len(joined) < _SQUASHED:
        return False
    squashed, found, starts = evidence.squashed
    start = squashed.find(joined)
    for _ in range(_OCCURRENCES):
        if start < 0:
            return False
        evidence.budget.spend(20)
        first, last = bisect_left(starts, start), bisect_left(starts, start + len(joined))
        if starts[first] == start and starts[last] == start + len(joined):
            there = found[first:last]
            if apart or _FIGURES.findall(" ".join(value)) == _FIGURES.findall(" ".join(there)):
                return True
        start = squashed.find(joined, start + 1)
    return False


def _is_aligned_in(value: list[str], evidence: EvidenceText) -> bool:
    """Return whether a text nearly has some words. The last word of a name may come first."""
    if len(value) > MAX_WORDS:
        return False
    if aligned(value, evidence.words, evidence.budget):
        return True
    if not 2 <= len(value) <= 4 or not "".join(value).isalpha():
        return False
    turned = ([value[-1], *value[:-1]], [*value[1:], value[0]])
    return any(f" {' '.join(words)} " in evidence.folded for words in turned)


def _has_amount(value: Amount, evidence: EvidenceText) -> bool:
    """Return whether a text has an amount, in any spelling or in a unit that converts exactly."""
    if value.unit:
        return any(_same_measure(value, reading, evidence) for reading in value.readings)
    return any(
        _agree(value, found)
        for reading in value.readings
        for found in evidence.amounts.get(rounded(reading), ())
    )


def _agree(value: Amount, candidate: Amount) -> bool:
    """Return whether two equal numbers agree in sign and currency, if both have them."""
    if value.negative and not candidate.negative:
        return False
    if not value.currencies:
        return True
    if candidate.unit and MEASURES[candidate.unit][0] == "percent":
        return False
    return not candidate.currencies or any(
        one == other or other in SHARED_SIGNS.get(one, ()) or one in SHARED_SIGNS.get(other, ())
        for one in value.currencies
        for other in candidate.currencies
    )


def _same_measure(value: Amount, reading: float, evidence: EvidenceText) -> bool:
    what, size = MEASURES[value.unit or ""]
    for candidate in evidence.amounts.get(rounded(reading), ()):
        if candidate.unit is None and _unit_is_near(candidate, what, size, evidence):
            return True
    amount = reading * size
    return any(
        math.isclose(amount, known, rel_tol=1e-9) for known in evidence.measured.get(what, ())
    )


def _unit_is_near(number: Amount, what: str, size: float, evidence: EvidenceText) -> bool:
    """Return whether the unit of a bare number stands a few words off, as in a heading."""
    near = evidence.tokens.words[max(number.place - _WINDOW, 0) : number.place + _WINDOW + 1]
    return any(MEASURES.get(word) == (what, size) for word in near)


# A text in which values are looked for. Each view of it is made when it is first needed.


# A property that is computed once and takes no lock.

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - reads as a decorator
    """`functools.cached_property` without the lock that all objects of a class share until 3.12.

    A thread of the parent holds that lock when it forks, and the child waits for it for ever.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """Compute the value and leave it on the object, where it is read from then on."""
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._compute(owner)
        return value


_PIECE = 1_000


def plain(text: str) -> str:
    """Return a text in lower case, without accents and compatibility forms, to be parsed."""
    return (text if text.isascii() else without_accents(text)).lower()


def rounded(value: float) -> float:
    """Round away what floating point adds to a number, so that equal numbers compare as equal."""
    return float(f"{value:.12g}")


def _spend_growth(text: str, budget: WorkBudget) -> None:
    """Spend the work that a text takes because its characters become several when it is folded."""
    if not text.isascii():
        for at in range(0, len(text), _PIECE):
            grown = len(unicodedata.normalize("NFKD", text[at : at + _PIECE]))
            budget.spend(4 * max(grown - _PIECE, 0))


class EvidenceText:
    """A text and its views: folded, without spaces, as words, dates and amounts.

    Each view spends work of the budget, and raises `TooLargeError` when none is left.
    """

    def __init__(self, text: str, budget: WorkBudget | None = None) -> None:
        self.budget = budget or WorkBudget()
        self.budget.admit(len(text))
        self.text = text
        self._spent = False

    def _spend(self, units_per_character: float) -> None:
        """Spend by the length after expansion, because one character can become eighteen."""
        self.budget.spend(units_per_character * len(self.text))
        if not self._spent:
            _spend_growth(self.text, self.budget)
        self._spent = True

    @lazy
    def plain(self) -> str:
        """The text, ready to be parsed."""
        self._spend(0.5)
        return plain(self.text)

    @lazy
    def folded(self) -> str:
        """The folded words, with a space before and after each."""
        self._spend(1)
        return f" {fold(self.text)} "

    @lazy
    def squashed(self) -> tuple[str, list[str], list[int]]:
        """The folded words joined, the words, and where each begins, followed by the end."""
        self._spend(1)
        found = self.folded.split()
        return "".join(found), found, [0, *accumulate(map(len, found))]

    @lazy
    def words(self) -> Words:
        """The words, for alignment."""
        self._spend(2)
        return Words(words(self.text))

    @lazy
    def dates(self) -> list[Date]:
        """Every reading of every date."""
        self._spend(4)
        return [reading for found in dates(self.plain) for reading in found.readings]

    @lazy
    def times(self) -> set[int]:
        """The times of day, in minutes."""
        self._spend(2)
        return times(self.plain)

    @lazy
    def tokens(self) -> Tokens:
        """The text split as amounts are read."""
        self._spend(3)
        return Tokens(self.plain)

    @lazy
    def amounts(self) -> dict[float, list[Amount]]:
        """The amounts in the text by their number; 6 % stands under 0.06 too."""
        self._spend(6)
        found: dict[float, list[Amount]] = {}
        for amount in amounts(self.tokens):
            for reading in amount.readings:
                found.setdefault(rounded(reading), []).append(amount)
                if amount.unit and MEASURES[amount.unit][0] == "percent":
                    share = amount._replace(unit=None)
                    found.setdefault(rounded(reading / 100), []).append(share)
        return found

    @lazy
    def measured(self) -> dict[str, list[float]]:
        """What is measured (mass, months ...) -> every amount of it; a year is also 365 days."""
        found: dict[str, list[float]] = {}
        for amount in {id(one): one for many in self.amounts.values() for one in many}.values():
            if amount.unit:
                what, size = MEASURES[amount.unit]
                found.setdefault(what, []).extend(size * one for one in amount.readings)
        return found


# The alignment of a value with a text word by word finds names and addresses that are nearly there.
#
# In scanned and typed texts letters are misread, words are split or joined, and other words stand
# in between. A wrong value, in contrast, has another word. So every word of the value must stand in
# its place with every figure right, and only few letters may differ, in each word and in all of
# them.


MAX_WORDS = 200
"""Values of more words than this are only looked for as they stand."""

MAX_LETTERS = 64
"""Longer words must be equal, because no name and no misread word has so many letters."""

_SHARE_OFF = 0.1
"""The part of a value's letters that may differ in all. From 7 letters on, one always may."""
_GAP_COST = 0.5
"""How many differing letters a word in between counts as."""
_PLACES = 40
"""A word that stands more often than this in a text says nothing about where to look."""
_WINDOWS = 3
_UNITS_OF_STATE = 10
"""Work of looking where the next word of a value is, for each place where it may be."""
_JOINED = 3
"""Into how many words a text may split one word of the value, and the other way round."""
_LINKS = frozenset(("the", "of", "and", "an"))
"""Words that may be missing."""
_LABELS = frozenset(("version", "ver", "v", "no", "nr", "number", "license", "licence"))
"""Words that only name what follows. Any number of them may stand in between, as in ``Apache
License, Version 2.0`` for ``Apache-2.0``."""
_LOOKALIKES = str.maketrans("oqdciltjsbzgxvh", "000011115826kun")
"""For each letter that scanners confuse with others or with a figure, one of its family."""
_LIKE_FIGURES = str.maketrans("oqdilsbzg", "000115826")


class Words:
    """The folded words of a text, with where each stands."""

    __slots__ = ("places", "words")

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.places: dict[str, list[int]] = {}
        for place, word in enumerate(words):
            self.places.setdefault(word, []).append(place)


_Alignment = tuple[float, int, int]
"""The cheapest alignment up to a word: its cost, differing letters, and words in between."""


def aligned(value: Sequence[str], text: Words, budget: WorkBudget) -> bool:
    """Return whether a text has the folded words of a value in order, each nearly as it is."""
    if not value or len(value) > MAX_WORDS:
        return False
    letters = sum(map(len, value))
    allowed = max(int(letters * _SHARE_OFF), 1 if letters >= 7 else 0)
    least = len(value) - allowed - len(value) // 3 - 1
    return any(
        _fits(value, window, allowed, least, budget) for window in _windows(value, text, budget)
    )


def _windows(value: Sequence[str], text: Words, budget: WorkBudget) -> Iterator[Sequence[str]]:
    """Yield the stretches of a text that have most words of a value in their places."""
    slack = len(value) // 2 + 2
    votes: Counter[int] = Counter()
    for index, word in enumerate(value):
        places = text.places.get(word, ())
        if len(places) <= _PLACES:
            votes.update((place - index) // slack for place in places)
    if not votes:
        votes.update(place // slack for place in _nearly(value, text, budget))
    for bucket, _ in votes.most_common(_WINDOWS):
        start = max((bucket - 1) * slack, 0)
        yield text.words[start : (bucket + 3) * slack + len(value)]


def _nearly(value: Sequence[str], text: Words, budget: WorkBudget) -> Iterator[int]:
    """Find where a value may begin in a text that has none of its words exactly."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    index = max(range(len(value)), key=lambda place: len(value[place]))
    if len(value[index]) > MAX_LETTERS:
        return
    budget.spend(len(text.places))
    close = process.extract(
        value[index],
        list(text.places),
        scorer=OSA.distance,
        score_cutoff=_may_be_off(value[index]),
        limit=_WINDOWS,
    )
    for word, _, _ in close:
        yield from (place - index for place in text.places[word][:_PLACES])


def _fits(  # noqa: C901 - one loop, and the hot one
    value: Sequence[str], window: Sequence[str], allowed: int, least: int, budget: WorkBudget
) -> bool:
    """Return whether a stretch of a text has every word of a value, in order.

    ``rows[i][j]`` is the cheapest way to find the first ``i`` words before place ``j``.
    """
    from rapidfuzz.distance import LCSseq

    budget.spend(100 + 5 * len(value) + len(window))
    if least > 0 and LCSseq.similarity(value, window) < least:
        return False  # misread and joined words cannot explain so many missing ones
    rows: list[dict[int, _Alignment]] = [{} for _ in range(len(value) + 1)]
    rows[0] = dict.fromkeys(range(len(window)), (0.0, 0, 0))
    most_between = len(value) // 2
    sizes = [*map(len, window), 0, 0]
    twos = list(map(add, sizes, sizes[1:]))
    threes = list(map(add, twos, sizes[2:]))
    for index, word in enumerate(value):
        states = rows[index]
        if not states and not rows[index + 1]:
            return False
        if word in _LINKS and 0 < index < len(value) - 1:
            _leave_out(states, rows[index + 2], value[index + 1], window)
        if index:
            _skip_words(states, window, most_between)
        budget.spend(_UNITS_OF_STATE * len(states))  # with those of words in between
        letters_off: dict[str, int | None] = {}
        size = len(word)
        pair = size + len(value[index + 1]) if index + 1 < len(value) else 0
        for place, (cost, off_before, between) in states.items():
            if place >= len(window):
                continue
            there = window[place]
            if there not in letters_off:
                letters_off[there] = _letters_off(word, there)
            if not (
                letters_off[there] is not None
                or -1 <= twos[place] - size <= 1
                or -1 <= threes[place] - size <= 1
                or -1 <= sizes[place] - pair <= 1
            ):
                continue
            for used, taken, off in _steps(value, index, window, place, letters_off):
                if off_before + off <= allowed:
                    after = (cost + off, off_before + off, between)
                    _keep(rows[index + used], place + taken, after)
    return bool(rows[-1])


def _leave_out(
    states: dict[int, _Alignment], row: dict[int, _Alignment], following: str, window: Sequence[str]
) -> None:
    """Let a linking word be missing where the words around it stand side by side."""
    for place, state in states.items():
        if place < len(window) and window[place] == following:
            _keep(row, place + 1, state)


def _skip_words(states: dict[int, _Alignment], window: Sequence[str], most: int) -> None:
    """Let words of the text stand between two of the value."""
    end = len(window)
    for place in range(min(states, default=end), end):
        state = states.get(place)
        if state is None:
            continue
        cost, off, between = state
        between += window[place] not in _LABELS
        if between <= most:
            _keep(states, place + 1, (cost + _GAP_COST, off, between))


def _keep(row: dict[int, _Alignment], place: int, state: _Alignment) -> None:
    known = row.get(place)
    if known is None or state[0] < known[0]:
        row[place] = state


def _steps(
    value: Sequence[str],
    index: int,
    window: Sequence[str],
    place: int,
    letters_off: Mapping[str, int | None],
) -> Iterator[tuple[int, int, int]]:
    """Yield how many words of value and text match together, and how many letters differ.

    ``letters_off`` holds how the word of the text at this place differs from that of the value.
    """
    if place >= len(window):
        return
    word, word_there = value[index], window[place]
    off = letters_off[word_there]
    if off is not None:
        yield 1, 1, off
        if off == 0:
            return
    size = len(word_there)
    for end in range(place + 2, min(place + _JOINED, len(window)) + 1):
        size += len(window[end - 1])
        if size - len(word) > 1:
            break
        off = _joined_off(word, window[place:end])
        if off is not None:
            yield 1, end - place, off
    if index + 1 < len(value) and abs(len(word) + len(value[index + 1]) - len(word_there)) <= 1:
        off = _joined_off(word_there, value[index : index + 2])
        if off is not None:
            yield 2, 1, off


def _letters_off(word: str, other: str) -> int | None:  # noqa: PLR0911
    """Count the letters in which two words differ, or return ``None`` for different words.

    Figures must be right; words of up to 3 letters may differ by letters that look alike.
    """
    if word == other:
        return 0
    if abs(len(word) - len(other)) > 3 or len(word) > MAX_LETTERS:
        return None
    if _has_figure(word) or _has_figure(other):
        alike = len(word) >= 3 and word.translate(_LIKE_FIGURES) == other.translate(_LIKE_FIGURES)
        return 1 if alike else None
    if len(word) < 4:
        alike = len(word) >= 2 and word.translate(_LOOKALIKES) == other.translate(_LOOKALIKES)
        return 1 if alike else None
    if word == other + "s" or other == word + "s":
        return 0
    from rapidfuzz.distance import OSA

    most = _may_be_off(word)
    off = OSA.distance(word, other, score_cutoff=most)
    if off > 1 and word[0].translate(_LOOKALIKES) != other[0].translate(_LOOKALIKES):
        return None  # northern and southern are two words, whatever their length
    return off if off <= most else None


def _joined_off(word: str, parts: Sequence[str]) -> int | None:
    """Count the letters in which a word differs from several that are joined; one may."""
    joined = "".join(parts)
    if not 4 <= len(word) <= MAX_LETTERS or abs(len(word) - len(joined)) > 1:
        return None
    if word == joined:
        return 0
    if len(min(parts, key=len)) < 2 or _has_figure(word) or _has_figure(joined):
        return None
    from rapidfuzz.distance import OSA

    return 1 if OSA.distance(word, joined, score_cutoff=1) == 1 else None


def _has_figure(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def _may_be_off(word: str) -> int:
    return 1 if len(word) < 7 else 2 if len(word) < 10 else 3
