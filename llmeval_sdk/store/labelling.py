"""What people say of records: which to label next, and the one thing that a reader may write."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import Chunk, Evaluation, EvaluationEvent, Extraction, SpanData, Target
from llmeval_sdk.model.documents import sources_of
from llmeval_sdk.model.records import evidence_of, record_of, rolled_up
from llmeval_sdk.process import private
from llmeval_sdk.statistics.labels import Candidate, Choice, choose, doubt_about, side_of
from llmeval_sdk.store import _schema, encode
from llmeval_sdk.store.connection import connect
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.frames import Frame
from llmeval_sdk.store.labels import labels_of
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.populations import usable, verdicts
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, scores_by_span
from llmeval_sdk.store.selection import frame_of


WAIT_SECONDS = 2.0


def add_feedback(store: str | os.PathLike[str], event: EvaluationEvent) -> None:
    """Store what a person said, as `submit_feedback` would have it stored.

    The connection may add rows to the table of feedback and do nothing else: SQLite itself refuses
    any other statement.

    Raises:
        ExportError: the store cannot be written now.
    """
    path = path_of(store)
    row = encode.evaluation_row(event)
    try:
        private.check_file(path)
        with closing(_connect(f"{path.as_uri()}?mode=rw")) as connection:
            _schema.STORE.version_of(connection)
            connection.set_authorizer(_only_feedback)
            connection.execute(_INSERT, row)
    except OSError as error:
        raise ExportError("store_untrusted", f"{path}: {error.strerror}") from error
    except (sqlite3.Error, _schema.SchemaError) as error:
        raise ExportError("store_failed", f"{path}: {error}") from error


def human_label(
    span: SpanData,
    name: str,
    value: float | str,
    *,
    explanation: str | None = None,
    **metadata: Any,
) -> EvaluationEvent:
    """Return what a person says of a span now, as an event with an id of its own."""
    evaluation = Evaluation(
        name, value, explanation=explanation, metadata=metadata, evaluator_kind="human"
    )
    target = Target(span.trace_id, span.span_id, span.name, span.kind)
    serial = f"{span.span_id}-{name}-{secrets.token_hex(8)}"
    return EvaluationEvent(serial, target, evaluation, time.time_ns())


def _connect(uri: str) -> sqlite3.Connection:
    return connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)


def _only_feedback(action: int, table: str | None, *_: str | None) -> int:
    allowed = action == sqlite3.SQLITE_INSERT and table == "feedback"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


_COLUMNS = encode.COLUMNS["feedback"]
_INSERT = f"INSERT INTO feedback ({','.join(_COLUMNS)}) VALUES ({','.join('?' * len(_COLUMNS))})"  # noqa: S608


# Which judged records of a store to label next, and how a label is stored.

PLANNED = 100
"""How many records are chosen by default."""
MOST = 100_000
"""How many records are chosen at most."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The records that were chosen to be labelled for one judge."""

    judge: str
    chosen: tuple[Choice, ...]
    """In the order in which to show them; the ids are those of spans."""
    labelled: frozenset[str]
    """The spans of them that have a label which counts in the frame."""
    frame: Frame
    """What they were chosen from."""

    @property
    def waiting(self) -> tuple[Choice, ...]:
        """Those without a label."""
        return tuple(choice for choice in self.chosen if choice.id not in self.labelled)


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as it is shown to be labelled, without the verdict, which would lead people."""

    span: SpanData
    chunks: tuple[Chunk, ...]
    """What the answer can go by: retrieved passages, and what tools returned."""
    sources: tuple[Chunk, ...]
    """The passages that values may have been taken from, as scores number them from 1."""
    unsupported: tuple[tuple[int, int], ...]
    """Characters of the response, [start, end), that the context seems not to support."""

    @property
    def answer(self) -> Any:
        """What is to be judged: the value where there is one, else the response."""
        return self.span.response if self.span.value is None else self.span.value

    @property
    def evidence(self) -> tuple[Extraction, ...]:
        """The extractions that quote something for their value."""
        return tuple(each for each in self.span.extractions or () if each.evidence)


def queue(
    reader: StoreReader, judge: str, count: int = PLANNED, since_ns: int | None = None
) -> Queue:
    """Choose records of a judge to label, the same ones as long as the judged traffic is the same.

    A record whose label was drawn from a part of the traffic waits again where all are chosen from.

    Raises `ConfigurationError` where there is nothing of that judge to label.
    """
    predictor = registry.predictor_of(judge)
    scores = reader.read(lambda c: scores_by_span(c, predictor)) if predictor else {}
    candidates: dict[str, Candidate] = {}
    outside = False
    for verdict in reader.read(
        lambda c: list(verdicts(c, EvaluationScope(since_ns, evaluator=judge)))
    ):
        outside |= not 0 <= verdict.value <= 1
        if (span_id := verdict.span_id) and verdict.chance:
            score = scores.get(span_id)
            candidates[span_id] = Candidate(span_id, verdict.value, verdict.chance, score)
    if outside:
        raise ConfigurationError(f"scores of {judge} leave 0..1, so labels cannot correct them")
    if not candidates:
        raise ConfigurationError(
            f"there is no verdict of {judge!r} with an inclusion probability in the store, so there"
            " is nothing that labels could correct"
        )
    labelled = reader.read(lambda connection: labels_of(connection, judge))
    chosen = choose(list(candidates.values()), min(max(count, 1), MOST), key=judge)
    frame = frame_of(reader.selection, since_ns)
    counted = {span_id for span_id, label in labelled.items() if label.frame.covers(frame)}
    done = frozenset(choice.id for choice in chosen if choice.id in counted)
    return Queue(judge, tuple(chosen), done, frame)


def judges_of(reader: StoreReader) -> list[str]:
    """Return the judges whose verdicts can be labelled, those with the most verdicts first."""
    counts = reader.read(usable)
    return sorted(counts, key=lambda name: (-counts[name], name))


def shown(reader: StoreReader, span_id: str) -> Shown | None:
    """Read a record for somebody to label; ``None`` where its span was pruned."""
    span = reader.span(span_id)
    if span is None:
        return None
    below = rolled_up(span, reader.trace(span.trace_id))
    record = record_of(span, below)
    chunks = evidence_of(record)
    unsupported: set[tuple[int, int]] = set()
    for event in latest_of_span(reader.evaluations_of(span_id)):
        unsupported.update(_ranges(event.evaluation.metadata.get("unsupported_spans")))
    sources = sources_of(record) or ()
    return Shown(span, tuple(chunks or ()), sources, tuple(sorted(unsupported)))


def doubt(reader: StoreReader, judge: str) -> str:
    """Say what is odd about all labels of a judge; empty where nothing is."""
    labels = reader.read(lambda connection: labels_of(connection, judge))
    if not labels:
        return ""
    scope = EvaluationScope(evaluator=judge)
    judged = reader.read(lambda c: {row.span_id: row.value for row in verdicts(c, scope)})
    return doubt_about(
        (side_of(label.value), side_of(judged[span_id]))
        for span_id, label in labels.items()
        if span_id in judged
    )


def pruned_sentence(count: int) -> str:
    """Say that the records that wait for a label cannot be shown any more."""
    return (
        f"none of the {count:,} records that wait for a label is in the store any more: their spans"
        " were pruned. `llmeval label --since` chooses among newer ones"
    )


def _ranges(spans: object) -> Iterator[tuple[int, int]]:
    """Yield what is a range of characters: the spans come from stored metadata."""
    for pair in spans if isinstance(spans, (list, tuple)) else ():
        if isinstance(pair, (list, tuple)) and len(pair) == 2:
            start, end = pair
            if type(start) is int and type(end) is int:
                yield start, end


def add_label(
    store: str | os.PathLike[str],
    judge: str,
    span: SpanData,
    *,
    value: str,
    chance: float,
    frame: Frame,
    by: str,
) -> None:
    """Store a label with the chance that its record was chosen with, and what it was chosen from.

    Raises `ExportError` where the store cannot be written now.
    """
    label = human_label(
        span, judge, value, submitter={"id": by}, inclusion_probability=chance,
        **frame.as_metadata(),
    )  # fmt: skip
    add_feedback(store, label)
