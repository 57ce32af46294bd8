"""What users of the app say: how much of the traffic they speak of, and what they think of it.

It is all feedback that is no label of a judge; see `labels`. Users choose themselves what to speak
of, so it is shown, and corrects nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk._terminal import plural, printable
from llmeval_sdk.store.labels import is_of_user


MOST_WORDS = 5
"""How many different words a report shows of what users said under one name, the commonest."""
LONGEST_WORD = 60
"""Characters of a text that are shown; longer ones count as one if they begin alike."""


@dataclass(frozen=True, slots=True)
class Opinions:
    """What users of the app said under one name."""

    name: str
    count: int
    """Of how many traces they said it."""
    mean: float | None
    """Of all numbers, on the scale on which they were given, with yes as 1 and no as 0; ``None``
    without any number."""
    low: float | None
    high: float | None
    """The smallest and the largest number."""
    words: Mapping[str, int]
    """How often which words were said that are no numbers, the commonest first."""
    other_words: int
    """How often further words were said."""
    share: float
    """The part of the traces, 0..1, whose users said anything; a session's counts as one."""
    unmatched: int = 0
    """How many are about a trace that the store does not have: unknown, or pruned. They are in the
    mean, because somebody said so, and not in the share."""


def opinions(
    connection: sqlite3.Connection, judges: set[str], since_ns: int | None = None
) -> list[Opinions]:
    """Return what users said: all feedback that is no label of a judge, by its name.

    Of what was said of one trace, the latest counts; what was said of a session counts each time.
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
    """Sum up what was said under a name: values, and whether the store has their trace."""
    matched = sum(matches for _, matches in said)
    numbers, words = [], Counter[str]()
    for value, _ in said:
        number = _values.number(value)
        if number is not None:
            numbers.append(number)
        else:
            words[printable(value, LONGEST_WORD)] += 1
    commonest = dict(words.most_common(MOST_WORDS))
    return Opinions(
        name,
        len(said),
        sum(number / len(numbers) for number in numbers) if numbers else None,
        min(numbers, default=None),
        max(numbers, default=None),
        commonest,
        words.total() - sum(commonest.values()),
        matched / max(traces, matched, 1),
        len(said) - matched,
    )


def extent(said: Opinions) -> str:
    """Say of how much of the traffic users said anything: ``3 traces, 1.2% of all``."""
    unknown = f" ({said.unmatched:,} not in this store)" if said.unmatched else ""
    return f"{plural(said.count, 'trace')}{unknown}, {said.share:.1%} of all"


def summary(said: Opinions) -> str:
    """Say what users think: ``mean 3.80 (from 1 to 5)``, ``"polite" 8, "rude" 4``."""
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
