"""What is known of a block from before: rows that are finished, and verdicts that are paid for.

A worker may be killed at any moment, and so may the driver. Whoever evaluates the block next finds
its journal, which has each verdict as soon as it was made, or its finished rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.storage import LINE, Seal, read_row
from llmeval_sdk.offline.run.work import InputRow
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse


class BlockJournal:
    """The verdicts on the rows of one block; use it inside `opened`.

    Lines that the key of the run has not signed are not believed. A last line that is torn, because
    its writer was killed, is not either.
    """

    def __init__(self, file: int, seal: Seal, rows_file: Path) -> None:
        self._file = file
        self._seal = seal
        self._rows: dict[int, bytes] = {}
        self._verdicts: dict[tuple[int, str], dict[str, Evaluation]] = {}
        if rows_file.exists():
            self._read_rows(rows_file)
        self._read_verdicts()

    def row(self, item: InputRow) -> Row | None:
        """Return the finished row, unless it is another one now or something failed on it."""
        line = self._rows.pop(item.number, None)
        if line is None or not self._seal.holds(line):
            return None
        row = read_row(line)
        if row.digest != item.digest:
            return None
        if not any(evaluation.error for evaluation in row.evaluations.values()):
            return row
        verdicts = {
            name: evaluation
            for name, evaluation in row.evaluations.items()
            if evaluation.evaluator_kind != "heuristic" and evaluation.error is None
        }
        self._verdicts.setdefault((item.number, item.digest), {}).update(verdicts)
        return None

    def known(self, item: InputRow, /) -> Mapping[str, Evaluation]:
        """Return the verdicts on a row that are there already."""
        return self._verdicts.get((item.number, item.digest), {})

    def keep(self, item: InputRow, verdicts: Mapping[str, Evaluation], /) -> None:
        """Write verdicts at once, but for those that failed: they are asked for again."""
        made = [sparse(verdict) for verdict in verdicts.values() if verdict.error is None]
        line = dumps({"number": item.number, "digest": item.digest, "verdicts": made})
        if made and line is not None:
            text = line.encode("utf-8", "backslashreplace") + b"\n"
            os.write(self._file, self._seal(text))

    def attempts(self, session: str) -> int:
        """Note that the block is begun; return how often it was in this session of the driver."""
        line = b'{"begun":"%s"}\n' % session.encode()
        os.write(self._file, line)
        return self._read().count(line)

    def _read(self) -> bytes:
        return os.pread(self._file, os.fstat(self._file).st_size, 0)

    def _read_verdicts(self) -> None:
        content = self._read()
        if content and not content.endswith(b"\n"):
            os.write(self._file, b"\n")  # ends the torn line
        for line in content.splitlines(keepends=True):
            if not self._seal.holds(line):
                continue
            plain: dict[str, Any] = json.loads(line)
            verdicts = map(evaluation_from, plain.get("verdicts", ()))
            known = self._verdicts.setdefault((plain["number"], plain["digest"]), {})
            known.update({verdict.name: verdict for verdict in verdicts})

    def _read_rows(self, path: Path) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["number", LINE]):
                    numbers, lines = batch.columns
                    self._rows.update(zip(numbers.to_pylist(), lines.to_pylist(), strict=True))
        except (ArrowException, OSError, ValueError) as error:
            tell("resume", f"{path.name} cannot be read and is made anew: {type(error).__name__}")


@contextmanager
def opened(folder: Path, key: str, seal: Seal) -> Iterator[BlockJournal]:
    """Open the journal of a block, which nobody else has open meanwhile; remove it at the end.

    A worker that was believed dead may still write; the lock makes the next one wait for its end.
    Two blocks with the same content have one journal, and the second finds the rows of the first.
    """
    path = folder / f"{key}.verdicts"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        _lock(file)
        yield BlockJournal(file, seal, folder / f"{key}.parquet")
        path.unlink(missing_ok=True)
    finally:
        os.close(file)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows, where Ray runs on one machine, for trying it out
        return
    fcntl.flock(file, fcntl.LOCK_EX)
