"""Aligns a value with a text word by word, to find names and addresses that are nearly there.

In scanned and typed texts letters are misread, words are split or joined, and other words stand in
between. A wrong value, in contrast, has another word. So every word of the value must stand in its
place with every figure right, and only few letters may differ, in each word and in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import add

from llmeval_sdk.text.budget import WorkBudget


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
_FIGURES = str.maketrans("oqdilsbzg", "000115826")


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
        alike = len(word) >= 3 and word.translate(_FIGURES) == other.translate(_FIGURES)
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
