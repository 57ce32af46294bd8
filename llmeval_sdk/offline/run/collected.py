"""Rows on their way out: into memory or a file, and into the aggregate."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from llmeval_sdk._process.shield import tell
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.signing import Signer, signer_of
from llmeval_sdk.offline.results import journal
from llmeval_sdk.offline.results.aggregate import Aggregate
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.offline.results.table import Rows
from llmeval_sdk.offline.run.engine import Item


class RowSeal:
    """Signs the rows of a saved run: a run is resumed from rows of this key alone.

    Args:
        signer: of this machine or CI.
        header: of the run; rows of other evaluators or another judge have another signature.
    """

    def __init__(self, signer: Signer, header: Mapping[str, Any]) -> None:
        self._signer = signer
        kind = json.dumps([header.get("evaluators"), header.get("judge")], default=str)
        self._name = b"saved row " + sha256(kind.encode()).digest()

    def __call__(self, line: bytes, /) -> bytes:
        """Return a line of JSON with its signature as the last field."""
        return b'%s,"signed":"%s"}\n' % (line[:-2], self._signature(line))

    def holds(self, line: bytes, /) -> bool:
        """Say whether a line ends with the signature that belongs to the rest of it."""
        rest, _, end = line.rpartition(b',"signed":"')
        return hmac.compare_digest(end, b'%s"}\n' % self._signature(rest + b"}\n"))

    def _signature(self, line: bytes) -> bytes:
        return self._signer.sign(self._name, 0.0, line.decode()).hex().encode()


class Collected:
    """The rows that are done, in memory or in a file, and their aggregate."""

    def __init__(
        self, save: Any, header: dict[str, Any], settings: Settings, *, resume: bool
    ) -> None:
        self.aggregate = Aggregate()
        self._path = None if save is None else Path(save)
        self._header = header
        self._resumed: journal.Resumed | None = None
        self._seal = None if save is None else RowSeal(signer_of(settings), header)
        if self._path is None or self._seal is None:
            if resume:
                raise ConfigurationError("resume needs the file that was saved to: pass save=")
            self.rows = Rows()
        elif resume and self._path.exists():
            self._resumed = journal.Resumed(self._path, header, self._seal)
            self.rows = self._resumed.rows
        else:
            self.rows = journal.begin(self._path, header, self._seal)

    def add(self, row: Row) -> None:
        """Take a row that is done."""
        self.rows.append(row)
        self.aggregate.add(row)

    def undone(self, items: Iterable[Item], tick: Callable[[int], None]) -> Iterator[Item]:
        """Yield the rows that an interrupted run has not done, and take the others as they are."""
        for item in items:
            done = self._resumed.take(item.number, item.digest) if self._resumed else None
            if done is None:
                yield item
            else:
                self.aggregate.add(done)
                tick(1)
        if self._resumed is not None and self._resumed.distrusted:
            tell(
                "resume",
                f"{self._resumed.distrusted:,} saved rows were evaluated anew: the key of this "
                "machine has not signed them (in CI, LLMEVAL_VERDICT_KEY is the key)",
            )

    def finish(self, about: dict[str, Any]) -> None:
        """Complete the file."""
        if self._path is None:
            return
        self.rows.flush()
        if self._resumed is not None or about["skipped"]:
            journal.copy(
                self._path, {**self._header, **about}, iter(self.rows), self.aggregate, self._seal
            )
        else:
            journal.finish(self.rows, self.aggregate, about)
