"""A text in which values are looked for. Each view of it is made when it is first needed."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

from llmeval_sdk.text.budget import WorkBudget
from llmeval_sdk.text.grounding.align import Words
from llmeval_sdk.text.grounding.amounts import MEASURES, Amount, Tokens, amounts
from llmeval_sdk.text.grounding.dates import Date, dates, times
from llmeval_sdk.text.grounding.text import fold, without_accents, words


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


def spend_growth(text: str, budget: WorkBudget) -> None:
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
            spend_growth(self.text, self.budget)
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
