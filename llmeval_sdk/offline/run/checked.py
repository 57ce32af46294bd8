"""Rows on their way in: the bad ones told, and all of them read before the first is paid for."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from llmeval_sdk.errors import DataError
from llmeval_sdk.offline.data.exported import is_exported, is_failed, is_part, record_of_row
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.data.source import Data
from llmeval_sdk.offline.results.row import digest_of
from llmeval_sdk.offline.run.chosen import Chosen
from llmeval_sdk.offline.run.engine import Item


SPOOLED_BYTES = 64 << 20
"""Rows that wait for a judge are in memory up to this size, and in a temporary file above."""
TOLD = 20
"""Problems of skipped rows that a report keeps."""


class Bad:
    """Rows that cannot be read: the first ends everything, unless they are to be skipped."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.told: list[str] = []

    def add(self, error: DataError, *, leave_out: bool = False) -> None:
        """Count one, or raise it; requests on which the live app raised are left out."""
        if not (self.skip or leave_out):
            raise error
        self.count += 1
        if len(self.told) < TOLD:
            self.told.append(str(error))


def good_rows(
    data: Data,
    chosen: Chosen,
    bad: Bad,
    *,
    answered: bool,
    digests: bool,
    prices: Mapping[str, tuple[float, float]] | None = None,
) -> Iterator[Item]:
    """Yield the rows that can be evaluated."""
    seen: set[int] = set()
    for number, place, row in data.rows:
        try:
            if isinstance(row, DataError):
                raise DataError(f"{place}: {row}")
            if is_exported(row):
                if is_part(row):
                    continue
                record = record_of_row(row, place)
            else:
                record = record_from(row, number=number, place=place, prices=prices)
            chosen.check(record, place, answered=answered)
            if record.request_id is not None:
                mark = hash(record.request_id)  # of all ids together, 60 MB a million
                if mark in seen:
                    raise DataError(
                        f"{place}, column 'request_id': {record.request_id!r} was there before"
                    )
                seen.add(mark)
        except DataError as error:
            bad.add(error, leave_out=is_exported(row) and is_failed(row))
            continue
        yield Item(number, record, digest_of(record) if digests else "")


class Checked:
    """All rows, read to their end and put aside, so that none is bad once the first is paid for."""

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
        self.count = 0

    def fill(self, items: Iterable[Item], tick: Callable[[int], None]) -> None:
        """Put rows aside; raises `DataError` for one that is bad."""
        for item in items:
            tick(1)
            try:
                pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                raise DataError(
                    f"row {item.number} holds what cannot be put aside: {error}"
                ) from None
            self.count += 1

    def __enter__(self) -> Checked:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Item]:
        self._file.seek(0)
        for _ in range(self.count):
            yield pickle.load(self._file)  # noqa: S301 - written above
