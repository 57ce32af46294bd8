"""What people said, and how far evaluators said the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.store.names import Known
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer._cells import cell_of


@dataclass(frozen=True, slots=True)
class Label:
    """One name under which people label."""

    name: str
    counts: Mapping[str, int]
    """By what they said, most frequent first; of each span the latest counts."""
    evaluator: bool
    """An evaluator has that name, so that the two can be compared."""


def said(reader: StoreReader, known: Known) -> list[Label]:
    """Count the labels by name."""
    found = []
    for name in known.labels:
        latest = {event.target: event.evaluation for event in reader.feedback(name)}
        counts = Counter(cell_of(each).text for each in latest.values())
        found.append(Label(name, dict(counts.most_common()), name in known.evaluators))
    return found
