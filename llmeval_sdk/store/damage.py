"""Says why a store cannot be read, after a reading of it failed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.reader import StoreReader


def damage_of(path: Path) -> str | None:
    """Say what SQLite finds wrong with a store; ``None`` where the file is whole.

    It reads all of the file, so it takes seconds for a large store.
    """
    try:
        with closing(StoreReader(path)) as reader:
            said: str = reader.read(_integrity)
    except (ConfigurationError, sqlite3.Error) as error:
        return str(error)
    return None if said == "ok" else said


def why_unreadable(path: Path, error: Exception) -> str:
    """Say in a sentence why a reading of a store ended in an error, and what to do."""
    damage = damage_of(path)
    why = (
        f"{path} is damaged: {damage}"
        if damage
        else f"{path} holds what cannot be read ({type(error).__name__}), in a file that is whole"
    )
    return (
        f"{why}\nMend it with the `sqlite3` tool, or move the file away: the app then creates a new"
        " one."
    )


def _integrity(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
