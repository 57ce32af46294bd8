"""Judgements of a short while ago, so that the same question is not paid for twice."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Record
from llmeval_sdk.policy._lock import Locked
from llmeval_sdk.protocols import Judge


CONTENT = (
    "request",
    "response",
    "retrieved_context",
    "expected_facts",
    "expected_response",
    "expected_retrieved_context",
    "extractions",
    "value",
    "confidence",
    "field_config",
    "retrieval",
    "attributes",
)
"""What a judge may read of a Record and what two identical records share: all but its identity,
usage and latency."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    kind: attrgetter(*(field.name for field in fields(kind))) for kind in (Chunk, Extraction)
}


def judgement_key(
    judge: Judge, model: str, record: Record, *, reads: Sequence[str] = CONTENT
) -> bytes | None:
    """Identify a judgement by judge, version, model and what the judge reads of the record.

    ``reads`` are Record fields (``a|b`` stands for both). ``needs`` would be too few: a judge may
    read more than it needs. ``None`` when a value is no plain data, so that nothing can be said
    about its equality.
    """
    digest = blake2b(digest_size=16)
    names = [name for field in reads for name in field.split("|")]
    known = _feed(digest, (judge.name, judge.version, model))
    for name in names:
        known = known and _feed(digest, (name, getattr(record, name, None)))
    return digest.digest() if known else None


class JudgementCache(Locked):
    """The latest judgements by key, at most ``entries`` of them and none older than ``seconds``."""

    __slots__ = ("_clock", "_entries", "_found", "_seconds")

    def __init__(
        self,
        *,
        entries: int = 1000,
        seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._found: OrderedDict[bytes, tuple[float, Evaluation]] = OrderedDict()

    def get(self, key: bytes | None, *, inclusion_probability: float) -> Evaluation | None:
        """Return an identical judgement, marked ``cached`` in its metadata and without a cost."""
        if key is None:
            return None
        with self._lock:
            made, evaluation = self._found.get(key, (float("-inf"), None))
            if evaluation is None:
                return None
            if self._clock() - made > self._seconds:
                del self._found[key]
                return None
            self._found.move_to_end(key)
        return replace(
            evaluation,
            metadata={**evaluation.metadata, "cached": True},
            usage=None,
            duration=None,
            inclusion_probability=inclusion_probability,
        )

    def put(self, key: bytes | None, evaluation: Evaluation) -> None:
        """Keep a judgement; failures are not kept."""
        if key is None or evaluation.error is not None:
            return
        with self._lock:
            self._found[key] = (self._clock(), evaluation)
            self._found.move_to_end(key)
            while len(self._found) > self._entries:
                self._found.popitem(last=False)


def _feed(digest: blake2b, value: Any) -> bool:
    """Add a value to a digest, unambiguously; False when it holds anything but plain data."""
    kind = type(value)
    if kind in _PLAIN:
        digest.update(repr(value).encode())
        digest.update(b" ")
        return True
    if kind in (list, tuple):
        if _PLAIN.issuperset(map(type, value)):  # the usual case, at once
            digest.update(f"flat {tuple(value)!r}".encode())
            return True
        digest.update(b"list %d " % len(value))
        return all(_feed(digest, item) for item in value)
    if isinstance(value, Mapping) and all(type(key) in _PLAIN for key in value):
        digest.update(b"map %d " % len(value))
        return all(_feed(digest, (key, value[key])) for key in sorted(value, key=repr))
    if kind in _PARTS:
        parts = _PARTS[kind](value)
        digest.update(kind.__name__.encode())
        if _PLAIN.issuperset(map(type, parts)):
            digest.update(repr(parts).encode())
            return True
        return all(_feed(digest, part) for part in parts)
    return False
