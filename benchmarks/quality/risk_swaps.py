"""Made-up negatives: clean answers in which one number, or one name, was swapped for another.

Human labels hold few of them, so that a model fitted on those alone shrugs at a wrong figure, which
is what users of figures care about most. A tenth of the clean answers each is enough.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from risk_data import Row

from llmeval_sdk.heuristics.risk import text


SHARE = 0.1
_NUMBER = re.compile(r"(?<![\w.])(?<!assage )(?<!assages )\d[\d,]*(?:\.\d+)?(?!\d*[.)] )")
_NAME = re.compile(r"(?<=[a-z,] )(?!Passage)[A-Z][a-z]{3,}")


def swapped(rows: Sequence[Row], *, seed: int = 0, share: float = SHARE) -> list[Row]:
    """Return new bad rows: of each clean row a number with one chance, a name with another."""
    dice = random.Random(seed)
    names = sorted({name for row in rows for name in _NAME.findall(row.context)})
    made = []
    for row in rows:
        if row.label == 0:
            for pattern in (_NUMBER, _NAME):
                if dice.random() < share:
                    made += _swap(row, pattern, names, dice)
    return made


def _swap(
    row: Row, pattern: re.Pattern[str], names: list[str], dice: random.Random
) -> Iterator[Row]:
    places = [m for m in pattern.finditer(row.answer) if m.group() in row.context]
    if not places:
        return
    place = dice.choice(places)
    other = dice.choice(names) if pattern is _NAME else _other_number(place.group(), dice)
    if other in row.context:
        return
    answer = row.answer[: place.start()] + other + row.answer[place.end() :]
    spans = tuple((a, b) for a, b in text.sentences(answer) if a <= place.start() < b)
    yield replace(row, answer=answer, label=1, spans=spans)


def _other_number(digits: str, dice: random.Random) -> str:
    if len(digits) == 1:
        return str(dice.randint(11, 99))
    return "".join(str(dice.randint(1, 9)) if c.isdigit() else c for c in digits)
