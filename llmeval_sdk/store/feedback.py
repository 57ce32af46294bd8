"""The one thing that a reader of the store may write: what a person said."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from contextlib import closing
from typing import Any

from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.process import private
from llmeval_sdk.store import _rows, _schema
from llmeval_sdk.store.files import path_of


WAIT_SECONDS = 2.0


def add_feedback(store: str | os.PathLike[str], event: EvaluationEvent) -> None:
    """Store what a person said, as `submit_feedback` would have it stored.

    The connection may add rows to the table of feedback and do nothing else: SQLite itself refuses
    any other statement.

    Raises:
        ExportError: the store cannot be written now.
    """
    path = path_of(store)
    row = _rows.evaluation_row(event)
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
    return sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)


def _only_feedback(action: int, table: str | None, *_: str | None) -> int:
    allowed = action == sqlite3.SQLITE_INSERT and table == "feedback"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


_COLUMNS = _rows.COLUMNS["feedback"]
_INSERT = f"INSERT INTO feedback ({','.join(_COLUMNS)}) VALUES ({','.join('?' * len(_COLUMNS))})"  # noqa: S608
