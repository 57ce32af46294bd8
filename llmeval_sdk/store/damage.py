"""Finds what a store holds that no release of ours has written, after a reading of it failed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, EvaluationEvent, EvaluatorKind, NotRun, SpanData, SpanKind
from llmeval_sdk.model.span_fields import STORED_FIELDS, Form
from llmeval_sdk.store import encode
from llmeval_sdk.store.encode import COLUMNS
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.texts import columns_of


_KINDS = {"INTEGER": "'integer'", "REAL": "'real','integer'", "TEXT": "'text'"}
"""The types of values, as SQLite names them, by the type that a column is declared with."""
_ANY = "'integer','real','text'"
_SAID = {"blob": "bytes", "text": "text", "integer": "a whole number", "real": "a number"}
_MAPPINGS = tuple(field.name for field in STORED_FIELDS if field.form is Form.MAPPING)
_METADATA = ("metadata",)
_READERS: dict[str, Callable[[Any], Any]] = {
    "spans": encode.span_of,
    "evaluations": encode.evaluation_of,
    "feedback": encode.evaluation_of,
    "not_run": encode.not_run_of,
}


def damage_of(path: Path) -> str | None:
    """Say which column of a store holds what it cannot hold; ``None`` if there is no such column.

    It looks at the types of all values first and then reads every row, so it takes seconds for a
    large store.
    """
    try:
        with closing(StoreReader(path)) as reader:
            return reader.read(_wrong_types) or reader.read(_unreadable)
    except ConfigurationError as error:
        return str(error)
    except sqlite3.Error as error:
        return f"SQLite says: {error}"


def _wrong_types(connection: sqlite3.Connection) -> str | None:
    for table in COLUMNS:
        about = connection.execute(f"PRAGMA table_info({table})").fetchall()
        columns = {name: _KINDS.get(declared, _ANY) for _, name, declared, *_ in about}
        wrong = ", ".join(
            f"max(CASE WHEN typeof({name}) NOT IN ({kinds},'null') THEN typeof({name}) END),"
            f" sum(typeof({name}) NOT IN ({kinds},'null'))"
            for name, kinds in columns.items()
        )
        kinds_and_counts = connection.execute(f"SELECT {wrong} FROM {table}").fetchone()  # noqa: S608
        for place, name in enumerate(columns):
            kind, count = kinds_and_counts[2 * place : 2 * place + 2]
            if kind is not None:
                rows = "1 row" if count == 1 else f"{count:,} rows"
                return f"the column {name} of {table} holds {_SAID.get(kind, kind)} in {rows}"
    return None


def _unreadable(connection: sqlite3.Connection) -> str | None:
    for table, read in _READERS.items():
        columns = columns_of(table)
        for seq, *row in connection.execute(f"SELECT seq, {columns} FROM {table}"):  # noqa: S608
            try:
                field = _odd_field(read(tuple(row)))
            except Exception as error:
                return f"row {seq} of {table} cannot be read: {type(error).__name__}"
            if field is not None:
                return f"row {seq} of {table} has a strange {field}"
    return None


def _odd_field(noun: SpanData | EvaluationEvent | NotRun) -> str | None:
    """Name a field that could be read but holds what this release does not know."""
    if isinstance(noun, NotRun):
        return None
    kinds: tuple[str, ...]
    kind: str
    holder: SpanData | Evaluation
    if isinstance(noun, SpanData):
        kinds, kind, holder, mappings = get_args(SpanKind), noun.kind, noun, _MAPPINGS
    else:
        holder, mappings = noun.evaluation, _METADATA
        kinds, kind = get_args(EvaluatorKind), holder.evaluator_kind
    usage = holder.usage
    if kind not in kinds:
        return "kind"
    if usage is not None and None in (usage.output_tokens, usage.total_tokens):
        return "usage"
    for name in mappings:
        if not isinstance(getattr(holder, name), (Mapping, type(None))):
            return name
    return None
