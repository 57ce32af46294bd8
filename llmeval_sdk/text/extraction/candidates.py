"""What a field's value could be, for a record that has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.model import Record
from llmeval_sdk.text.extraction.cues import cues
from llmeval_sdk.text.extraction.reading import Marks, candidates, passages_of


def best_candidate(
    record: Record, kinds: Sequence[str] = ()
) -> tuple[dict[str, Any] | None, float]:
    """Find the value of one of ``kinds`` that the field's cue words speak for most.

    Returns it as `rivals` describes values, and how much the cues speak for it. Without a kind, or
    where there is no such value, it is ``None`` with the share of the cues' worth that the passages
    hold.
    """
    passages = passages_of(record)
    words = cues(record.field_config, record.request)
    marks = Marks.of(passages.lowered, words)
    best: tuple[float, int, int] | None = None
    for kind in kinds:
        if kind in ("line", "text"):  # anything is one
            continue
        for start, end in candidates(kind, passages):
            cue = marks.near(start, end)
            if cue > 0 and (best is None or cue > best[0]):
                best = cue, start, end
    if best is None:
        worth = sum(weight for _, weight in words)
        return None, sum(marks.weights) / worth if worth else 0.0
    cue, start, end = best
    return passages.shown(passages.text[start:end], start, end), cue
