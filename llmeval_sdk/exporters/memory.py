"""Keeps what was exported in memory, for notebooks and tests: ``memory.spans()`` and the like."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from llmeval_sdk.config import Settings
from llmeval_sdk.model import Batch, EvaluationEvent, NotRun, SpanData
from llmeval_sdk.model.protocols import BaseExporter


MAX_RECORDS = 20_000
"""How many records of each kind are kept; the oldest go first."""

_T = TypeVar("_T")

_spans: deque[SpanData] = deque(maxlen=MAX_RECORDS)
_evaluations: deque[EvaluationEvent] = deque(maxlen=MAX_RECORDS)
_not_run: deque[NotRun] = deque(maxlen=MAX_RECORDS)


class MemoryExporter(BaseExporter):
    """Keeps records for the functions of this module; all exporters of a process share them."""

    name = "memory"

    def __init__(self, settings: Settings | None = None) -> None:
        pass

    def export(self, batch: Batch, /) -> None:
        """Keep a batch."""
        _spans.extend(batch.spans)
        _evaluations.extend(batch.evaluations)
        _not_run.extend(batch.not_run)

    def flush(self, timeout: float, /) -> None:
        """Do nothing: a batch is there when `export` returns."""

    def close(self, timeout: float, /) -> None:
        """Keep what was received; `clear` forgets it."""

    def after_fork(self) -> None:
        """Forget in a child what its parent received."""
        clear()


def spans() -> tuple[SpanData, ...]:
    """Return the spans received so far, oldest first."""
    return _copy(_spans)


def evaluations() -> tuple[EvaluationEvent, ...]:
    """Return the evaluations received so far, oldest first."""
    return _copy(_evaluations)


def not_run() -> tuple[NotRun, ...]:
    """Return the judges that did not run, oldest first."""
    return _copy(_not_run)


def clear() -> None:
    """Forget everything received so far."""
    _spans.clear()
    _evaluations.clear()
    _not_run.clear()


def _copy(records: deque[_T]) -> tuple[_T, ...]:
    while True:
        try:
            return tuple(records)
        except RuntimeError:
            continue
