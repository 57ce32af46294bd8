"""Reads files of which nobody knows how long they and their lines are, within bounds."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple


MAX_FILE = 64 << 20
"""Bytes of a file that is read as a whole."""
MAX_SKIPPED = 1 << 30
"""Bytes of a line that is too long after which the rest of the file is not looked at either."""
MAX_EMPTY_LINES = 1_000_000
"""Empty lines after each other, after which the rest of the file is not looked at."""
_BLOCK = 1 << 20


class BadLine(NamedTuple):
    """Stands in the place of a line that cannot be had; ``why`` ends a sentence that says so."""

    why: str
    is_end: bool = False
    """Whether the rest of the file is not read either."""


def read_file(path: str | os.PathLike[str], *, most: int = MAX_FILE) -> bytes:
    """Return what a file holds.

    Raises:
        OSError: it cannot be read, or has more than ``most`` bytes.
    """
    with open(path, "rb") as file:  # noqa: PTH123
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MB", os.fspath(path))
    return content


def numbered_lines(file: BinaryIO, *, most: int) -> Iterator[tuple[int, bytes | BadLine]]:
    """Yield the lines of a file that hold something, each with its number.

    A byte order mark is no part of the first. In the place of a line of more than ``most`` bytes
    there is a `BadLine`, and so there is where nothing more of the file can or need be read. Files
    of gzip, too, may be damaged, and may hold a thousand times as much as their size says.
    """
    number = empty = 0
    while True:
        number += 1
        try:
            line = file.readline(most + 1)
            if len(line) > most:
                bad = _skipped(file, line, most)
                yield number, bad
                if bad.is_end:
                    return
                continue
        except (OSError, EOFError, ValueError, zlib.error) as error:  # gzip raises any of them
            yield number, BadLine(f"cannot be read, nor can what follows: {error}", is_end=True)
            return
        if not line:
            return
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.isspace():
            empty += 1
            if empty > MAX_EMPTY_LINES:
                why = f"is as empty as the {MAX_EMPTY_LINES:,} before: what follows is not read"
                yield number, BadLine(why, is_end=True)
                return
        elif line:
            empty = 0
            yield number, line


def _skipped(file: BinaryIO, line: bytes, most: int) -> BadLine:
    """Go on to the end of a line that is too long."""
    size = len(line)
    while line and not line.endswith(b"\n"):
        line = file.readline(_BLOCK)
        size += len(line)
        if size > MAX_SKIPPED:
            why = f"is longer than {MAX_SKIPPED >> 30} GB, so what follows is not read"
            return BadLine(why, is_end=True)
    return BadLine(f"is longer than {most >> 20} MB")
