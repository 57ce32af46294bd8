"""What the extractions say together: how many agree on the value, how surely, from where."""

from __future__ import annotations

from math import log2

from llmeval_sdk.heuristics._reading import chunk_number, number
from llmeval_sdk.heuristics.aggregated_confidence import WORDS
from llmeval_sdk.model import Extraction, Record
from llmeval_sdk.text.extraction import Reading, abstained, items, normal


MAX_EXTRACTIONS = 200
_UNKNOWN = 0.7
"""Confidence of an extraction that does not say how sure it is."""
_ONE_VOTE = {"against": 0.0, "split": 0.5, "lone": 1.0, "few_sources": 0.5, "outvoted": 0.0}


def measure(record: Record, reading: Reading, confidence: float) -> dict[str, float]:
    """Compare the extractions with the value that was settled on.

    ``confidence`` is the aggregated one. What is returned:
    ``against``: weighted share of the extractions that have another value. ``split``: how little
    the value leads the next one. ``lone``: there is one extraction, or none. ``few_sources``: the
    value comes from few chunks. ``outvoted``: another value has more weight. ``unsure``: 1 - the
    aggregated confidence. ``unsure_self``: 1 - the highest confidence of one with this value.
    """
    weights: dict[str, float] = {}
    sources: set[int] = set()
    mine, surest, count = 0.0, 0.0, 0
    for extraction in (record.extractions or ())[:MAX_EXTRACTIONS]:
        if abstained(extraction.value):
            continue
        count += 1
        sure = _confidence(extraction)
        if agrees(extraction, reading):
            mine += sure
            surest = max(surest, sure)
            cited = chunk_number(extraction.chunk_number)
            if cited is not None:
                sources.add(cited)
        else:
            other = normal(extraction.value)
            weights[other] = weights.get(other, 0.0) + sure
    features = {
        "unsure": 1 - confidence,
        "unsure_self": 1 - surest if count else 1 - _UNKNOWN,
    }
    if count <= 1:
        return {**features, **_ONE_VOTE}
    rest = sum(weights.values())
    total = mine + rest
    most = max(weights.values(), default=0.0)
    return {
        **features,
        "against": rest / total if total else 0.5,
        "split": 1 - max(0.0, mine - most) / total if total else 1.0,
        "lone": 0.0,
        "few_sources": 1 - min(1.0, log2(1 + len(sources)) / 2),
        "outvoted": float(most > mine),
    }


def agrees(extraction: Extraction, reading: Reading) -> bool:
    """Say whether an extraction has this value, alone or among the items of a list."""
    value = extraction.value
    if normal(value) == reading.form:
        return True
    is_single = value is None or isinstance(value, (str, int, float))
    return not is_single and any(normal(item) == reading.form for item in items(value))


def _confidence(extraction: Extraction) -> float:
    sure = number(extraction.confidence)
    if sure is not None:
        return min(max(sure, 0.0), 1.0)
    if isinstance(extraction.confidence, str):
        return WORDS.get(extraction.confidence.strip().upper(), _UNKNOWN)
    return _UNKNOWN
