"""Units of measure in many languages: one name per unit, so that a changed one shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmeval_sdk.heuristics.risk import resources


_FORMS: dict[str, tuple[str, str]] = {
    form: (dimension, unit)
    for line in resources.lines("units")
    for head, forms in [line.split(": ")]
    for dimension, unit in [head.split()]
    for form in forms.split()
}
_LONGEST = max(map(len, _FORMS))
_SUFFIXES = {
    form: found
    for form, found in _FORMS.items()
    if form in {"tag", "tage", "woche", "wochen", "stund", "minut", "monat", "jahr", "dagen"}
}
_ENDING = 4
"""Letters that may follow the listed form of a word: its inflection."""
_REACH = 3
"""Words behind a number among which its unit stands: "two working days"."""

Unit = tuple[str, str]


def unit(word: str) -> Unit | None:
    """Return the dimension and the unit that a lower-case word, or a run of signs, starts with."""
    exact = _FORMS.get(word)
    if exact is not None:
        return exact
    dense = word > "\u0dff"
    if dense and word[0] in "个個" and word[1:2] not in ("月", ""):
        word = word[1:]
    least = 1 if dense else max(3, len(word) - _ENDING)
    for length in range(min(len(word) - 1, _LONGEST), least - 1, -1):
        found = _FORMS.get(word[:length])
        if found is not None:
            return found
    if not dense and 7 <= len(word) <= 24:  # a compound, such as "Werktagen"
        for ending in (0, 1, 2):
            tail = word[: len(word) - ending]
            for size in (3, 4, 5, 6):
                found = _SUFFIXES.get(tail[-size:])
                if found is not None:
                    return found
    return None


def behind(words: Sequence[str], at: int) -> Unit | None:
    """Return the unit of the number at a place among words, or a sign before it."""
    for word in words[at + 1 : at + 1 + _REACH]:
        if word[0].isdecimal():
            break
        found = unit(word.lower())
        if found is not None:
            return found
    return unit(words[at - 1]) if at and words[at - 1] in ("€", "$", "£", "¥") else None


def changed(here: Unit, there: Iterable[Unit | None]) -> bool:
    """Say whether the context gives a number in other units of the same dimension only."""
    alike = {other[1] for other in there if other is not None and other[0] == here[0]}
    return bool(alike) and here[1] not in alike
