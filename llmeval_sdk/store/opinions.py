"""What users of the app say: how much of the traffic they speak of, and what they think of it.

Their feedback is all that is not a label of a judge; see `labels`. Users decide which answers they
rate, so reports show their feedback but correct no mean with it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.model import values
from llmeval_sdk.store.labels import is_of_user
from llmeval_sdk.store.said import mean
from llmeval_sdk.text.terminal import plural, printable


MOST_WORDS = 5
"""The most different words or texts that a report shows under one name."""
LONGEST_WORD = 60
"""Characters of a text that are shown. Longer texts that begin alike are counted as one."""


@dataclass(frozen=True, slots=True)
class Opinions:
    """The feedback that users of the app gave under one name."""

    name: str
    count: int
    """The number of traces that have such feedback."""
    mean: float | None
    """The mean of its numbers, on the scale on which they were given. Yes counts as 1 and no as 0.
    It is ``None`` if there are only words."""
    low: float | None
    """The smallest of the numbers; ``None`` if there are only words."""
    high: float | None
    """The largest of the numbers; ``None`` if there are only words."""
    words: Mapping[str, int]
    """The most frequent words and texts, with how often each was given."""
    other_words: int
    """How often words and texts were given that are not among `words`."""
    share: float
    """The part of all traces that have such feedback, from 0 to 1. Feedback about a session counts
    as one trace."""
    unmatched: int = 0
    """How many traces with such feedback are not in the store, because their ids are unknown or
    they were pruned. They count in the mean and not in the share."""


def opinions(
    connection: sqlite3.Connection, judges: set[str], since_ns: int | None = None
) -> list[Opinions]:
    """Return the feedback of users by its name: all that is not a label of one of the judges.

    Only the latest feedback on a trace counts. Feedback about a session counts each time.
    """
    said: dict[str, dict[str | int, tuple[Any, bool]]] = {}
    for seq, name, span_id, trace_id, value, metadata, matches in connection.execute(
        _ALL, (since_ns or 0,)
    ):
        if value is not None and (name not in judges or is_of_user(metadata)):
            said.setdefault(name, {})[trace_id or span_id or seq] = value, bool(matches)
    if not said:
        return []
    (traces,) = connection.execute(_TRACES, (since_ns or 0,)).fetchone()
    return [
        _summed(name, list(by_trace.values()), traces) for name, by_trace in sorted(said.items())
    ]


def _summed(name: str, said: Sequence[tuple[Any, bool]], traces: int) -> Opinions:
    """Sum up the feedback under one name, given as values and whether the store has their trace."""
    matched = sum(matches for _, matches in said)
    numbers, words = [], Counter[str]()
    for value, _ in said:
        number = values.number(value)
        if number is not None:
            numbers.append(number)
        else:
            words[printable(value, LONGEST_WORD)] += 1
    commonest = dict(words.most_common(MOST_WORDS))
    return Opinions(
        name,
        len(said),
        mean(numbers),
        min(numbers, default=None),
        max(numbers, default=None),
        commonest,
        words.total() - sum(commonest.values()),
        matched / max(traces, matched, 1),
        len(said) - matched,
    )


def extent(said: Opinions) -> str:
    """Say how much of the traffic has such feedback: ``3 traces, 1.2% of all``."""
    unknown = f" ({said.unmatched:,} not in this store)" if said.unmatched else ""
    return f"{plural(said.count, 'trace')}{unknown}, {said.share:.1%} of all"


def described(said: Opinions) -> str:
    """Describe what users think: ``mean 3.80 (from 1 to 5)`` or ``"polite" 8, "rude" 4``."""
    parts = []
    if said.mean is not None and said.low is not None and said.high is not None:
        is_share = said.low >= 0 and said.high <= 1
        scale = "" if is_share else f" (from {said.low:g} to {said.high:g})"
        parts.append(f"mean {said.mean:.2f}{scale}")
    parts += [f"{json.dumps(word, ensure_ascii=False)} {n:,}" for word, n in said.words.items()]
    if said.other_words:
        parts.append(f"{said.other_words:,} others")
    return ", ".join(parts)


_ALL = """
SELECT seq, name, span_id, trace_id, value, metadata, ifnull(trace_id, '') = '' AND span_id = ''
    OR EXISTS (SELECT 1 FROM spans WHERE spans.span_id = feedback.span_id)
    OR EXISTS (SELECT 1 FROM spans WHERE spans.trace_id = feedback.trace_id)
FROM feedback WHERE time_ns >= ? AND error_type IS NULL ORDER BY time_ns, seq
"""

_TRACES = "SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns >= ?"
