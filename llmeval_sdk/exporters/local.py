"""Exports to the embedded store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import Batch
from llmeval_sdk.model.protocols import BaseExporter, Services
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.losses import Losses, notes_of
from llmeval_sdk.store.writer import RAISE_LIMIT, StoreWriter, too_small


_log = logging.getLogger("llmeval_sdk")


class LocalExporter(BaseExporter):
    """Writes to the SQLite file that the settings name, which is opened with the first batch.

    If the file cannot be written, a store in memory takes its place, and one line in the log says
    so. Before a fork the store closes its connection by itself.
    """

    name = "local"
    is_local = True
    keeps_foreign = True
    """Spans of other libraries are stored as well, so that their evaluations have a span to belong
    to."""

    def __init__(self, settings: Settings) -> None:
        self.store = StoreWriter(settings.store, settings.store_max_bytes, settings.store_max_days)
        self._losses: Callable[[], Losses] = dict
        self._warned = False

    def connect(self, services: Services) -> None:
        """Take the counter of undelivered records, of which the store keeps a note."""
        self._losses = services.losses

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Write a batch; raises `ExportError` when the disk is full or the file stays locked."""
        refused = self.store.write(batch)
        if self.store.fallback_reason:
            gone = sum(refused.values()) if refused else 0
            self.in_memory += len(batch.spans) + len(batch.evaluations) - gone
            if not self._warned:
                self._warned = True
                _log.warning("llmeval: %s", self.store.fallback_reason)
        if self.store.keeps_nothing:
            tell("store", f"{too_small(self.store.max_bytes)} {RAISE_LIMIT}")
        self._note(self._losses())
        return refused

    def note(self, lost: Losses, /) -> None:
        """Note in the store what this process could not deliver."""
        self._note({name: reasons for name, reasons in lost.items() if reasons})
        self.store.close()

    def _note(self, lost: Losses) -> None:
        with suppress(ExportError):  # the next batch tries again
            notes_of(str(self.store.path)).note(lost, self.store.note_losses)

    def after_fork(self) -> None:
        """Begin to count anew in a forked child."""
        self.in_memory = 0

    def flush(self, timeout: float, /) -> None:
        """Do nothing: a batch is in the file when `export` returns."""

    def close(self, timeout: float, /) -> None:
        """Close the file."""
        if lost := self._losses():
            self._note(lost)
        self.store.close()
