"""Made-up negatives: clean answers in which one detail was swapped for another.

A number, a name, a unit, a cited passage, or whether a sentence says yes or no. Human labels hold
few of them, so that a model fitted on those alone shrugs at a wrong figure, which is what users of
figures care about most.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from risk_data import Row

from llmeval_sdk.heuristics.risk import _text


SHARES = {
    "number": 0.1, "name": 0.1, "unit": 0.5, "citation": 0.3, "negation": 0.05,
    "negation lost": 0.05,
}  # fmt: skip
"""Of the clean answers that get a copy; what few answers have takes more."""
SHARES_OTHER = {
    "number": 0.2, "name": 0.2, "unit": 1.0, "citation": 0.3, "negation": 0.3,
    "negation lost": 0.3,
}  # fmt: skip
"""For the models of other languages, where words that differ say less and details say more."""
_NUMBER = re.compile(r"(?<![\w.])(?<!assage )(?<!assages )\d[\d,]*(?:\.\d+)?(?!\d*[.)] )")
_NAME = re.compile(r"(?<=[a-z,] )(?!Passage)[A-Z][a-z]{3,}")
_CITED = re.compile(r"(?<=[Pp]assage )\d(?!\d)")
_VERB = re.compile(
    r"\b(?:is|are|was|were|can|will|should|may|must|could|does|do|has|have) (?!not\b)"
)
_NOT = re.compile(r"(?<=\w)(?: not|n't)\b(?! only)")
_SAME = (
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years"),
    ("second", "minute", "hour", "day", "week", "month", "year"),
    ("mm", "cm", "inches", "feet", "meters", "miles", "kilometers"),
    ("inch", "foot", "meter", "mile"),
    ("mcg", "mg", "grams", "kg", "ounces", "pounds"),
    ("milliliters", "ml", "liters", "cups", "gallons", "teaspoons", "tablespoons"),
    ("dollars", "euros", "cents"),
    ("thousand", "million", "billion"),
)
_KIN = {unit: kin for kin in _SAME for unit in kin}
_UNIT = re.compile(rf"(?<=\d[ -])(?:{'|'.join(sorted(_KIN, key=len, reverse=True))})\b")

Other = Callable[[re.Match[str], Row, random.Random], "str | None"]


def swapped(
    rows: Sequence[Row], shares: Mapping[str, float] = SHARES, *, seed: int = 0
) -> list[Row]:
    """Return new bad rows: each kind of swap is made in each clean row with the same chance."""
    dice = random.Random(seed)
    names = sorted({name for row in rows for name in _NAME.findall(row.context)})
    ways: dict[str, tuple[re.Pattern[str], Other]] = {
        "number": (_NUMBER, _other_number),
        "name": (_NAME, lambda match, row, dice: _elsewhere(dice.choice(names), match, row)),
        "unit": (_UNIT, lambda match, _, dice: dice.choice(_without(_KIN[match[0]], match[0]))),
        "citation": (_CITED, lambda match, _, dice: dice.choice(_without("123", match[0]))),
        "negation": (_VERB, lambda match, *_: match[0] + "not "),
        "negation lost": (_NOT, lambda *_: ""),
    }
    made = []
    for row in rows:
        if row.label == 0:
            for kind, share in shares.items():
                if dice.random() < share:
                    made += _swap(row, *ways[kind], dice)
    return made


def _swap(row: Row, pattern: re.Pattern[str], other: Other, dice: random.Random) -> list[Row]:
    places = list(pattern.finditer(row.answer))
    if not places:
        return []
    place = dice.choice(places)
    written = other(place, row, dice)
    if written is None:
        return []
    answer = row.answer[: place.start()] + written + row.answer[place.end() :]
    spans = tuple((a, b) for a, b in _text.sentences(answer) if a <= place.start() < b)
    return [replace(row, answer=answer, label=1, spans=spans)]


def _elsewhere(written: str, match: re.Match[str], row: Row) -> str | None:
    """Take what the context does not have, in place of what it has."""
    return written if match[0] in row.context and written not in row.context else None


def _other_number(match: re.Match[str], row: Row, dice: random.Random) -> str | None:
    digits = match[0]
    if len(digits) == 1:
        return _elsewhere(str(dice.randint(11, 99)), match, row)
    other = "".join(str(dice.randint(1, 9)) if c.isdigit() else c for c in digits)
    return _elsewhere(other, match, row)


def _without(choices: Sequence[str], taken: str) -> list[str]:
    return [choice for choice in choices if choice != taken]
