"""Verdicts of earlier runs, in a file beside the store: the same question is not paid for twice."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from llmeval_sdk._shield import tell
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.offline.results.lines import evaluation_from, evaluation_to
from llmeval_sdk.policy.cache import judgement_key
from llmeval_sdk.protocols import Judge
from llmeval_sdk.store.encode import dumps


_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
  key BLOB PRIMARY KEY, made REAL NOT NULL, verdict TEXT NOT NULL
) WITHOUT ROWID
"""
MOST_WAITING = 1_000
SECONDS_WAITING = 1.0
_DAY = 86_400.0


class Verdicts:
    """What judges said, by judge, model and what they were shown. Used by one thread at a time.

    Failures, and chunk judges of which a part failed, are not kept.

    Raises:
        ConfigurationError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, max_days: float = 30.0) -> None:
        self._path = path
        self._waiting: list[tuple[bytes, float, str | None]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=10.0, check_same_thread=False)
            with self._connection:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute(_TABLE)
                old = time.time() - max_days * _DAY
                self._connection.execute("DELETE FROM verdicts WHERE made < ?", (old,))
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(
                f"the cache of verdicts {path} cannot be used: {error}; pass cache=False "
                "(on the command line --no-cache)"
            ) from None

    def get(self, key: bytes | None) -> Evaluation | None:
        """Return a verdict, marked ``cached`` and without a cost, or ``None``."""
        if key is None:
            return None
        query = "SELECT verdict FROM verdicts WHERE key = ?"
        with closing(self._connection.execute(query, (key,))) as cursor:
            found = cursor.fetchone()
        if found is None:
            return None
        verdict = evaluation_from(json.loads(found[0]))
        metadata = {**verdict.metadata, "cached": True}
        return replace(verdict, metadata=metadata, usage=None, duration=None)

    def put(self, key: bytes | None, verdict: Evaluation) -> None:
        """Keep a verdict."""
        if key is None or verdict.value is None or verdict.metadata.get("failed"):
            return
        now = time.time()
        self._waiting.append((key, now, dumps(evaluation_to(verdict))))
        if len(self._waiting) >= MOST_WAITING or now - self._waiting[0][1] > SECONDS_WAITING:
            self._write()

    def close(self) -> None:
        """Write what is there and close the file."""
        self._write()
        self._connection.close()

    def _write(self) -> None:
        """Write what waits at once: runs beside this one wait no longer than that."""
        rows, self._waiting = self._waiting, []
        try:
            with self._connection:
                self._connection.executemany("REPLACE INTO verdicts VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            tell("cache of verdicts", f"cannot be written: {error}")


def key_of(judge: Judge, model: str, record: Record) -> bytes | None:
    """Identify a judgement; ``None`` where the record holds what is no plain data."""
    return judgement_key(judge, f"{model} {_fingerprint(judge)}", record)


def _fingerprint(judge: Any) -> str:
    """Identify what a judge of the app's own asks, which changes without a new version."""
    template = getattr(judge, "_template", None)
    if template is not None:
        said = f"{template.rubric}|{judge._form!r}|{judge._examples!r}"
        return blake2b(said.encode(), digest_size=12).hexdigest()
    code = getattr(getattr(judge, "function", None), "__code__", None)
    return "" if code is None else blake2b(_code(code), digest_size=12).hexdigest()


def _code(code: Any) -> bytes:
    inner = [_code(each) for each in code.co_consts if hasattr(each, "co_code")]
    plain = [each for each in code.co_consts if not hasattr(each, "co_code")]
    return repr((code.co_code, code.co_names, plain, inner)).encode()
