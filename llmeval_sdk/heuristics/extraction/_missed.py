"""A field of an answer that has no value although the passages state one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from llmeval_sdk.heuristics.extraction._answer import item_of, rows_of
from llmeval_sdk.model.structure import Field, general_path
from llmeval_sdk.text.extraction import Passages, Reading
from llmeval_sdk.text.labels import end_of_line
from llmeval_sdk.text.stated import Stated, stated, stated_in_column
from llmeval_sdk.text.support import Span
from llmeval_sdk.text.values import kind_of, normal


CHANCE = 0.9
"""How probably a value was missed where the passages state one. Of generated answers of 18 locales,
it was so 22 times in 23; real documents are less regular."""


class Missed(NamedTuple):
    """What the passages state for a field that has no value."""

    passages: Passages
    stated: Stated
    where: Literal["under its label", "in its column"] = "under its label"
    chance: float = CHANCE

    @property
    def reason(self) -> str:
        """Why the answer is doubtful, in a sentence."""
        return f"{self.stated.value[:60]!r} stands {self.where}, and the answer has no value"

    def described(self) -> dict[str, Any]:
        """Return kind, reasons and rivals, as the metadata of a score have them."""
        rival = self.passages.shown(*self.stated)
        kind = kind_of(self.stated.value)
        return {"kind": kind, "reasons": ["missed"], "rival": rival, "rivals": [rival]}

    def entry(self, path: str, *, short: bool = False) -> dict[str, Any]:
        """Return what the metadata of a score say about the field."""
        entry: dict[str, Any] = {
            "path": path,
            "value": "",
            "chance": self.chance,
            "checked": True,
            "reason": self.reason,
            "kind": kind_of(self.stated.value),
        }
        return entry if short else entry | {"rival": self.passages.located(*self.stated)}


class _Row(NamedTuple):
    """The line of a text on which the values of an item stand."""

    passages: Passages
    start: int
    places: list[Span]
    """Of the item's values."""


class Items:
    """The items of an answer's lists, each on a row of its own, as in a table."""

    def __init__(self, fields: Sequence[tuple[str, Reading]]) -> None:
        self.rows: dict[str, _Row] = {}
        self._columns: dict[str, list[Span]] = defaultdict(list)
        starts = rows_of(fields)
        for path, reading in fields:
            item, passages = item_of(path), reading.passages
            start = starts.get(item)
            if start is None:
                continue
            stop = end_of_line(passages.text, start)
            places = [span for span in reading.spans if start <= span[0] < stop]
            row = self.rows.setdefault(item, _Row(passages, start, [])) if places else None
            if row is not None and row.passages is passages:
                row.places.extend(places)
                self._columns[general_path(path)].extend(places)

    def missed(self, field: Field) -> Missed | None:
        """Return what the row of a field's item states for it, by its label or by its column."""
        row = self.rows.get(item_of(field.path))
        if row is None:
            return None
        if value := stated(row.passages, field.config, line=row.start):
            return Missed(row.passages, value)
        column = self._columns[general_path(field.path)]
        value = stated_in_column(row.passages, row.start, column, row.places)
        return None if value is None else Missed(row.passages, value, "in its column")


def missed(
    field: Field, passages: Passages, claimed: Collection[str], items: Items
) -> Missed | None:
    """Return what the passages state for a field without a value; ``None`` if they state nothing.

    Args:
        field: the field.
        passages: where its value may stand.
        claimed: the normal forms of the answer's values. What another field has was not missed.
        items: where the other values of items stand. A field of an item is looked for on its row
            alone, where many rows may share a value.
    """
    if item_of(field.path):
        return items.missed(field)
    value = stated(passages, field.config)
    if value is None or normal(value.value) in claimed:
        return None
    return Missed(passages, value)
