"""What the fields of one answer say about each other: one place for two fields, another row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from llmeval_sdk.text.extraction import Reading


def siblings(fields: Sequence[tuple[str, Reading]]) -> list[dict[str, float]]:
    """Compare the fields of an answer, given by path and reading; one mapping of features for each.

    ``shared``: more fields have this value than there are places where it stands, so that at least
    one of them took a neighbour's. ``shared_unlabelled``: the same, and it is not this field that
    the place's label names. ``off_row``: the value of an item stands on no line on which most of
    the item's other values stand.
    """
    claims = Counter(reading.form for _, reading in fields)
    lines = [_lines(reading) for _, reading in fields]
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for (path, _), own in zip(fields, lines, strict=True):
        for line in own:
            votes[_item(path)][line] += 1
    made = []
    for (path, reading), own in zip(fields, lines, strict=True):
        shared = bool(reading.spans) and claims[reading.form] > len(reading.spans)
        usual = votes[_item(path)].most_common(1) if own and _item(path) else []
        made.append(
            {
                "shared": float(shared),
                "shared_unlabelled": float(shared and not reading.stands_under_own),
                "off_row": float(bool(usual) and usual[0][1] > 1 and usual[0][0] not in own),
            }
        )
    return made


def _item(path: str) -> str:
    """Return the item of a list that a field belongs to: ``lines[2]`` of ``lines[2].amount``."""
    return path[: path.rfind("]") + 1]


def _lines(reading: Reading) -> set[int]:
    text = reading.passages.text
    return {text.rfind("\n", 0, start) for start, _ in reading.spans}
