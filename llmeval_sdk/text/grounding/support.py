"""Whether a text supports a value, and how."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from typing import Any, Literal, get_args

from llmeval_sdk.text.budget import WorkBudget
from llmeval_sdk.text.grounding.align import MAX_WORDS, aligned
from llmeval_sdk.text.grounding.amounts import MEASURES, SHARED_SIGNS, Amount, only_amounts
from llmeval_sdk.text.grounding.dates import only_date, same
from llmeval_sdk.text.grounding.evidence import EvidenceText, plain, rounded, spend_growth
from llmeval_sdk.text.grounding.text import fold, is_dense, words


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


def support(value: Any, evidence: EvidenceText) -> How | None:  # noqa: PLR0911
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
    spend_growth(text, evidence.budget)
    folded = fold(text)
    if f" {folded} " in evidence.folded or _is_squashed_in(folded.split(), evidence):
        return "normalised"
    evidence.budget.spend(2 * len(text))
    return "aligned" if _is_aligned_in(words(text, folded), evidence) else "unsupported"


def _text_of(value: Any) -> str:
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
