"""Answers over scanned receipts (ICDAR 2019 SROIE): the labelled value, or an error of a known kind.

The extraction runs of `extraction_sources` have the errors of six simple apps, more than half of
all values. Here a tenth is wrong, as in an app that works.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality.structured_answers import RIGHT, WRONG_SHARE
from llmeval_sdk.model import Chunk, Record


FIELDS = {
    "total": ("Total amount to pay, rounding included", "What is the total of this receipt?"),
    "date": ("Date of the purchase", "On which date was the receipt issued?"),
    "company": ("Name of the company that issued the receipt", "Which company issued it?"),
    "address": ("Postal address of the shop", "What is the address of the shop?"),
}
LINES = 8
_AMOUNT = re.compile(r"(?<![\d.,])\d{1,5}(?:,\d{3})*\.\d{2}(?!\d)")
_DATE = re.compile(r"(?<![\d/.-])\d{1,4}[/.-]\d{1,2}[/.-]\d{2,4}(?!\d)")


@dataclass(frozen=True)
class Labelled:
    """A record of one field, and what became of its value."""

    kind: str
    record: Record


def receipt_records(folder: Path, wrong: float = WRONG_SHARE, seed: int = 34) -> list[Labelled]:
    """Return a record for each field of each receipt, among passages of another one."""
    receipts = json.loads((folder / "sroie.json").read_text(encoding="utf-8"))
    dice = random.Random(f"{seed} receipts")
    return [made for receipt in receipts for made in _records(receipt, receipts, wrong, dice)]


def _records(
    receipt: dict, receipts: Sequence[dict], wrong: float, dice: random.Random
) -> Iterator[Labelled]:
    other = dice.choice(receipts)
    chunks = [*_passages(receipt), *(_passages(other)[:2] if other is not receipt else ())]
    for name, (description, question) in FIELDS.items():
        truth = receipt["key"].get(name)
        if not truth:
            continue
        kind, value = RIGHT, truth
        if dice.random() < wrong:
            kind, value = _error(name, truth, receipt, other, dice)
        record = Record(
            request=f"{question} ({receipt['id']}.txt)",
            value=value,
            retrieved_context=tuple(chunks),
            field_config={"name": name, "description": description},
            span_name="read_receipt",
        )
        yield Labelled(kind, record)


def _passages(receipt: dict) -> list[Chunk]:
    lines, file = receipt["text"].splitlines(), f"{receipt['id']}.txt"
    parts = ["\n".join(lines[at : at + LINES]) for at in range(0, len(lines), LINES)]
    return [Chunk(text, file, f"{file}#{n}") for n, text in enumerate(parts)]


def _error(
    name: str, truth: str, receipt: dict, other: dict, dice: random.Random
) -> tuple[str, str]:
    """Return a kind of error and its value, which is not the truth."""
    near = _alike(name, receipt["text"])
    choices = {
        "neighbour": [value for value in near if _plain(value) not in _plain(truth)],
        "document": [other["key"].get(name) or ""],
        "misread": [_misread(truth, dice)],
    }
    for kind in dice.choices(list(choices), (0.55, 0.25, 0.2), k=12):
        values = [v for v in choices[kind] if v and not _is_same(name, v, truth)]
        if values:
            return kind, dice.choice(values)
    return "misread", f"{truth} 9"


def _alike(name: str, text: str) -> list[str]:
    """Return what in a receipt could be taken for a field."""
    if name == "total":
        return _AMOUNT.findall(text)
    if name == "date":
        return _DATE.findall(text)
    lines = [line for line in text.splitlines() if sum(map(str.isalpha, line)) > 5]
    return lines if name == "company" else [line for line in lines if len(line) > 14]


def _misread(truth: str, dice: random.Random) -> str:
    """Let two neighbouring characters change places."""
    at = dice.randrange(max(1, len(truth) - 1))
    return truth[:at] + truth[at : at + 2][::-1] + truth[at + 2 :]


def _is_same(name: str, value: str, truth: str) -> bool:
    if name == "total":
        numbers = [re.sub(r"[^\d.]", "", text) for text in (value, truth)]
        return numbers[0].lstrip("0") == numbers[1].lstrip("0")
    return _plain(value) == _plain(truth)


def _plain(text: str) -> str:
    return re.sub(r"\W", "", text).lower()
