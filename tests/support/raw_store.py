"""A store that a test fills row by row, faster than an app would and with times of its choice."""

import random
import sqlite3
import time

from llmeval_sdk.store import _schema


HOUR = 3_600_000_000_000


class RawStore:
    """An empty store at a path, open for writing, and random numbers that are always the same."""

    def __init__(self, path, *, seed):
        self.path = path
        path.parent.mkdir(parents=True, mode=0o700)
        self.rng = random.Random(seed)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL").fetchall()
        _schema.STORE.migrate(self.connection)
        path.chmod(0o600)
        self.now = time.time_ns() // HOUR * HOUR

    def insert(self, table, **row):
        """Insert one row; columns that are not named keep their defaults."""
        marks = ", ".join("?" * len(row))
        self.connection.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
        )

    def close(self):
        """Close the connection."""
        self.connection.close()
