"""Verdicts of earlier offline runs, in a signed file beside the store."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from llmeval_sdk import _private
from llmeval_sdk._process.shield import tell
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.signing import Signer
from llmeval_sdk.evaluation.verdicts import EarlierVerdict, VerdictKey, as_earlier, is_final
from llmeval_sdk.model import Evaluation
from llmeval_sdk.store import files
from llmeval_sdk.store.decode import evaluation_from
from llmeval_sdk.store.encode import dumps, sparse


_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
  key BLOB PRIMARY KEY, made REAL NOT NULL, verdict TEXT NOT NULL, signature BLOB
) WITHOUT ROWID
"""
MOST_BYTES = 1 << 20
"""The longest verdict that is kept. A longer one that stands in the file is not read."""
MOST_WAITING = 1_000
SECONDS_WAITING = 1.0
_DAY = 86_400.0


class VerdictFile:
    """Verdicts by what identifies their judgements. Used by one thread at a time.

    Failures, and chunk judges of which a part failed, are not kept.

    Raises:
        ConfigurationError: the file cannot be opened, or is somebody else's.
    """

    def __init__(self, path: Path, signer: Signer, *, max_days: float = 30.0) -> None:
        self._path = path
        self._signer = signer
        self._waiting: list[tuple[bytes, float, str, bytes]] = []
        try:
            _make(path)
            self._connection = sqlite3.connect(path, timeout=10.0, check_same_thread=False)
            with self._connection:
                self._connection.execute("PRAGMA trusted_schema=OFF")
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute(_TABLE)
                columns = self._connection.execute("PRAGMA table_info(verdicts)")
                if "signature" not in [row[1] for row in columns]:  # a file of an earlier version
                    self._connection.execute("ALTER TABLE verdicts ADD COLUMN signature BLOB")
                old = time.time() - max_days * _DAY
                self._connection.execute("DELETE FROM verdicts WHERE made < ?", (old,))
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(
                f"the cache of verdicts {path} cannot be used: {error}; pass cache=False "
                "(on the command line --no-cache)"
            ) from None

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on a judgement, if there is one that can be trusted."""
        if key is None or not key.lasts:
            return EarlierVerdict()
        query = (
            "SELECT signature, made, verdict FROM verdicts WHERE key = ? AND length(verdict) < ?"
        )
        try:
            with closing(self._connection.execute(query, (key.digest, MOST_BYTES))) as cursor:
                row = cursor.fetchone()
        except sqlite3.Error:  # such as a text that is not UTF-8, or a torn page
            return EarlierVerdict(is_distrusted=True)
        if row is None:
            return EarlierVerdict()
        signature, made, text = row
        if not self._signer.made_this(signature, key.digest, made, text):
            return EarlierVerdict(is_distrusted=True)
        return as_earlier(evaluation_from(json.loads(text)))

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict; failures are not kept."""
        if key is None or not key.lasts or not is_final(verdict):
            return
        now, text = time.time(), dumps(sparse(verdict)) or ""
        if len(text) >= MOST_BYTES:
            return
        signature = self._signer.sign(key.digest, now, text)
        self._waiting.append((key.digest, now, text, signature))
        if len(self._waiting) >= MOST_WAITING or now - self._waiting[0][1] > SECONDS_WAITING:
            self._write()

    def close(self) -> None:
        """Write the verdicts that still wait, and close the file."""
        self._write()
        self._connection.close()

    def _write(self) -> None:
        """Write all waiting verdicts in one transaction: other runs wait for the file meanwhile."""
        rows, self._waiting = self._waiting, []
        try:
            with self._connection:
                self._connection.executemany(
                    "REPLACE INTO verdicts (key, made, verdict, signature) VALUES (?, ?, ?, ?)",
                    rows,
                )
        except sqlite3.Error as error:
            tell("cache of verdicts", f"cannot be written: {error}")


def _make(path: Path) -> None:
    """Make the file for its owner alone; take the rights of others from one made before.

    Raises OSError, also where it is a link or somebody else's.
    """
    files.make_folder(path.parent)
    if not _private.make_file(path) and not path.is_symlink():
        for name in ("", *_private.COMPANIONS):
            with suppress(OSError):
                path.with_name(path.name + name).chmod(0o600)
    _private.check_file(path)
