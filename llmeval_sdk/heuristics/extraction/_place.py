"""Where a value comes from: the rank of its chunk, who found that, and the words on its line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmeval_sdk.heuristics._reading import chunk_number, number, side
from llmeval_sdk.heuristics.extraction._votes import MAX_EXTRACTIONS, agrees
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.text.extraction import Reading
from llmeval_sdk.text.extraction.cues import cues


_QUALIFIERS = """
sub subtotal tax gst vat change cash tendered discount rounding adj adjustment deposit
paid previous former formerly old older deprecated dropped removed until unlike example
sample estimated approx except excluding excl net gross per each unit qty birth
draft amended superseded cancelled void not no never
"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Words beside a value that make it another value, unless the field itself has them."""
_BEFORE = 60
_UNKNOWN_RANK = 0.3
_WORD = re.compile(r"[^\W\d_]+")


def measure(record: Record, reading: Reading) -> dict[str, float]:
    """Look at the chunk that a value comes from, and at its line.

    ``absent``: the value stands in no passage. ``uncited``: it stands in no chunk that its
    extractions cite, or only in what they quote. ``low_rank``: its chunk was ranked low.
    ``one_side``: only one retrieval method found that chunk although two took part. ``low_score``:
    its score beside the best of its method. ``qualified``: a word on its line, such as "subtotal",
    says that it is something else.
    """
    chunks = record.retrieved_context or ()
    cited = {
        place
        for extraction in (record.extractions or ())[:MAX_EXTRACTIONS]
        if (place := chunk_number(extraction.chunk_number)) is not None
        and place <= len(chunks)
        and agrees(extraction, reading)
    }
    standing = {reading.passages.number_at(start) for start, _ in reading.spans}
    first = min(cited or standing - {0}, default=0)
    chunk = chunks[first - 1] if first else None
    return {
        "absent": float(not reading.spans and bool(reading.passages.text)),
        "uncited": float(bool(chunks and standing) and not _meet(cited, standing, chunks)),
        "low_rank": min(1.0, (first - 1) / 10) if first else _UNKNOWN_RANK,
        "one_side": _one_side(chunk, chunks),
        "low_score": _low_score(chunk, chunks),
        "qualified": _qualified(record, reading),
    }


def _meet(cited: set[int], standing: set[int], chunks: Sequence[Chunk]) -> bool:
    """Say whether a cited chunk has the text of one in which the value stands."""
    texts = {chunks[place - 1].content for place in standing if 0 < place <= len(chunks)}
    return bool(texts) and (not cited or any(chunks[at - 1].content in texts for at in cited))


def _one_side(chunk: Chunk | None, chunks: Sequence[Chunk]) -> float:
    if chunk is None:
        return 0.0
    sides = {side(other.retrieval_method) for other in chunks} - {None}
    own = {
        side(other.retrieval_method)
        for other in chunks
        if other.chunk_id == chunk.chunk_id and other.content == chunk.content
    }
    return float(len(sides) > 1 and len(own) == 1)


def _low_score(chunk: Chunk | None, chunks: Sequence[Chunk]) -> float:
    mine = number(chunk.score) if chunk is not None else None
    if chunk is None or mine is None:
        return 0.0
    scores = (number(c.score) for c in chunks if c.retrieval_method == chunk.retrieval_method)
    best = max((score for score in scores if score is not None), default=0.0)
    return 1 - mine / best if 0 <= mine <= best and best > 0 else 0.0


def _qualified(record: Record, reading: Reading) -> float:
    if reading.best is None:
        return 0.0
    start = reading.best[0]
    lowered = reading.passages.lowered
    first = max(lowered.rfind("\n", 0, start) + 1, start - _BEFORE)
    if not lowered[first:start].strip():  # on a line of its own: its label stands above
        first = max(lowered.rfind("\n", 0, max(0, first - 1)) + 1, start - _BEFORE)
    beside = QUALIFIERS.intersection(_WORD.findall(lowered[first:start]))
    own = [stem for stem, _ in cues(record.field_config, record.request)] if beside else []
    return float(any(not any(word.startswith(stem) for stem in own) for word in beside))
