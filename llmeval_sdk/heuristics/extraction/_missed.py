"""A field of an answer that has no value although the passages state one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from llmeval_sdk.heuristics.extraction._answer import item_of
from llmeval_sdk.model.structure import Field
from llmeval_sdk.text.extraction import Passages
from llmeval_sdk.text.stated import Stated, stated
from llmeval_sdk.text.values import kind_of, normal


CHANCE = 0.9
"""How probably a value was missed where the passages state one. Of generated answers of 18 locales,
it was so 17 times in 18; real documents are less regular."""


class Missed(NamedTuple):
    """What the passages state for a field that has no value."""

    passages: Passages
    stated: Stated
    chance: float = CHANCE

    @property
    def reason(self) -> str:
        """Why the answer is doubtful, in a sentence."""
        return f"{self.stated.value[:60]!r} stands under its label, and the answer has no value"

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


def missed(
    field: Field, passages: Passages, claimed: Collection[str], rows: Mapping[str, int]
) -> Missed | None:
    """Return what the passages state for a field without a value; ``None`` if they state nothing.

    Args:
        field: the field.
        passages: where its value may stand.
        claimed: the normal forms of the answer's values. What another field has was not missed.
        rows: the line of each item, as `rows_of` returns them. A field of an item is looked for on
            that line alone, among figures, which many rows may share.
    """
    item = item_of(field.path)
    if item and item not in rows:
        return None
    value = stated(passages, field.config, line=rows.get(item))
    if value is None or (not item and normal(value.value) in claimed):
        return None
    return Missed(passages, value)
