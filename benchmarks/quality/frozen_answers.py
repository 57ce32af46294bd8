"""Keeps the demo's own answers in a file, so that later code is measured on the same ones.

The demo reads the distributions of the environment. What they say changes with every upgrade.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from llmeval_sdk.model import Chunk, Extraction, Record


_KEPT = ("request", "response", "value", "confidence", "field_config", "retrieval", "span_name")


class LabelledCase(Protocol):
    """A record whose value is known to be right or wrong."""

    @property
    def record(self) -> Record: ...

    @property
    def label(self) -> int: ...


@dataclass(frozen=True)
class FrozenCase:
    """A record of the file; the label is 1 where its value is wrong."""

    record: Record
    label: int


def freeze(cases: Sequence[LabelledCase], path: Path) -> None:
    """Write cases to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for case in cases:
            record = case.record
            row = {name: getattr(record, name) for name in _KEPT}
            row["retrieved_context"] = [asdict(chunk) for chunk in record.retrieved_context or ()]
            row["extractions"] = [asdict(one) for one in record.extractions or ()]
            file.write(json.dumps({"record": row, "label": case.label}, ensure_ascii=False) + "\n")


def frozen(path: Path) -> list[FrozenCase]:
    """Read the cases of a file."""
    made = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        fields = row["record"]
        fields["retrieved_context"] = tuple(Chunk(**one) for one in fields["retrieved_context"])
        fields["extractions"] = tuple(Extraction(**one) for one in fields["extractions"])
        made.append(FrozenCase(Record(**fields), row["label"]))
    return made
