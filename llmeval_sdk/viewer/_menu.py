"""Which pages have something to show, so that the menu leads to no empty ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from llmeval_sdk.store.reader import contents_of
from llmeval_sdk.viewer._readers import NoStoreError, Readers


_NEEDS = {
    "/sessions": "sessions", "/scores": "scores", "/versions": "versions", "/label": "verdicts",
}  # fmt: skip


class Menu:
    """Knows the pages that have something to show. What was there once is not looked for again."""

    def __init__(self, readers: Readers, reports: Any, *, labels: bool) -> None:
        self._readers = readers
        self._reports = reports
        self._needs = {path: need for path, need in _NEEDS.items() if labels or path != "/label"}
        self._held: set[str] = set()

    def pages(self) -> set[str]:
        """Return the paths of the pages beside traces and overview that have something to show."""
        missing = set(self._needs.values()) - self._held
        with suppress(NoStoreError):
            if missing:
                with self._readers.lend() as reader:
                    self._held |= reader.read(lambda store: contents_of(store, missing))
        there = {path for path, need in self._needs.items() if need in self._held}
        has_reports = self._reports is not None and self._reports.now().has_any()
        return there | ({"/experiments"} if has_reports else set())
