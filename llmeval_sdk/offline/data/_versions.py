"""Numbered files of rows, in a folder of their own: written whole, and never changed again."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmeval_sdk import _private
from llmeval_sdk._atomic import replace_text
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.store.encode import dumps


MOST_BYTES = 64 << 20
"""Of one version."""
MOST_BYTES_IN_ALL = 1 << 30
_FILE = re.compile(r"v(\d{4,6})\.jsonl")


class Versions:
    """The files ``v0001.jsonl``, ``v0002.jsonl`` … of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the versions that there are, the newest last.

        Raises:
            ConfigurationError: The folder is a symbolic link.
        """
        _refuse_link(self.folder)
        if not self.folder.is_dir():
            return ()
        names = (_FILE.fullmatch(file.name) for file in self.folder.iterdir())
        return tuple(sorted(int(match[1]) for match in names if match))

    def file(self, number: int) -> Path:
        """Return the file of a version; raises `ConfigurationError` where it is a symbolic link."""
        path = self.folder / f"v{number:04}.jsonl"
        _refuse_link(self.folder)
        _refuse_link(path)
        return path

    def read(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of a version.

        Raises:
            DataError: A line cannot be read, or the file is too large.
        """
        path = self.file(number)
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is larger than {_megabytes(MOST_BYTES)}")
        rows = []
        for _, place, row in open_data(path).rows:
            if not isinstance(row, dict):
                why = row if isinstance(row, DataError) else "expected a mapping"
                raise DataError(f"{place}: {why}")
            rows.append(row)
        return rows

    def rewrite(self, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a version anew, without rows that have to be deleted.

        Raises:
            ConfigurationError: The folder cannot be written.
        """
        try:
            replace_text(self.file(number), _lines(rows).decode("utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error}") from None

    def write(self, number: int, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Write a version; returns False, and writes nothing, if it is there already.

        Raises:
            ConfigurationError: It would be too large, or the folder cannot be written.
        """
        lines = _lines(rows)
        earlier = sum(self.file(each).stat().st_size for each in self.numbers())
        for size, most in ((len(lines), MOST_BYTES), (earlier + len(lines), MOST_BYTES_IN_ALL)):
            if size > most:
                raise ConfigurationError(
                    f"{self.folder}: this would be {_megabytes(size)} of rows, and at most "
                    f"{_megabytes(most)} are kept: remove rows, or delete old versions"
                )
        beside = self.folder / f".{secrets.token_hex(8)}.tmp"
        try:
            _private.make_folder(self.folder)
            _private.make_file(beside)
            with beside.open("wb") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, self.file(number))  # fails where somebody was quicker
        except FileExistsError:
            return False
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        return True


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{dumps(row)}\n" for row in rows).encode("utf-8", "backslashreplace")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a symbolic link: a golden set is a folder of files")


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
