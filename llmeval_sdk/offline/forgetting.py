"""Deletes a user's requests from golden sets and from experiments, and names reports with them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from llmeval_sdk.offline.golden import Versions, golden_sets
from llmeval_sdk.offline.report.storage import MAX_LINE_BYTES
from llmeval_sdk.offline.run.experiment import store_of_experiments
from llmeval_sdk.offline.saved import SavedReports
from llmeval_sdk.process.reading import BadLine, numbered_lines
from llmeval_sdk.store.forgetting import belongings_of, forget
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import Belongings


def forget_rows(store: Path, theirs: Belongings, *, really: bool) -> int:
    """Delete the rows of a user's traces from all versions of the golden sets beside the store.

    It is the one change of a version that is written: people's right to be forgotten is above it.
    Returns how many rows there are.
    """
    count = 0
    for golden in golden_sets(store.with_name("datasets")):
        files = Versions(golden.path.parent)
        for number in files.numbers():
            rows = files.read(number)
            kept = [row for row in rows if not _belongs_to_person(row, theirs)]
            count += len(rows) - len(kept)
            if really and len(kept) < len(rows):
                files.rewrite(number, kept)
    return count


def forget_experiments(store: Path, theirs: Belongings, *, really: bool) -> int:
    """Delete a user's requests from the store of experiments; return how many traces there are.

    A row that was made of a request links to it. Judges that read these rows go as well.
    """
    path = store_of_experiments(store)
    if not path.exists():
        return 0
    with StoreReader(path) as reader:
        copies = reader.read(lambda runs: belongings_of(runs, theirs.users, theirs.spans))
    if really and copies.traces:
        forget(path, copies)
    return len(copies.traces)


class LeftReports(NamedTuple):
    """The saved reports beside a store, which stay as they are: a report is what a run found."""

    holding: tuple[str, ...] = ()
    """Those with rows of a user's requests."""
    others: tuple[str, ...] = ()
    """Those whose rows name no request of the user; they may hold copies that nothing ties."""


def reports_left(store: Path, theirs: Belongings) -> LeftReports:
    """Say which of the saved reports beside a store hold rows of a user's requests, or may."""
    folder = store.with_name("reports")
    forms = (
        json.dumps(form, ensure_ascii=plain) for form in theirs.users for plain in (True, False)
    )
    users = [form[1:-1] for form in forms]
    ids = {each.encode() for each in (*theirs.traces, *theirs.spans, *users)}
    holding: list[str] = []
    others: list[str] = []
    for name in SavedReports(folder).names():
        (holding if _names_any(folder / name, ids) else others).append(name)
    return LeftReports(tuple(holding), tuple(others))


def _names_any(report: Path, ids: Collection[bytes]) -> bool:
    """Say whether a row of a report names one of some traces, spans and users."""
    if not report.is_file():  # a folder of a run on Ray, whose rows are in Parquet
        return False
    try:
        with report.open("rb") as file:
            return any(
                id_[1] in ids
                for _, line in numbered_lines(file, most=MAX_LINE_BYTES)
                if not isinstance(line, BadLine)
                for id_ in _ID.finditer(line)
            )
    except OSError:
        return False


_ID = re.compile(rb'"(?:trace|span|request|user)_id":"((?:[^"\\]|\\.)*)"')
"""What a row goes by; that of a stored request has the id of its span as ``request_id``."""


def _belongs_to_person(row: Mapping[str, object], theirs: Belongings) -> bool:
    return row.get("trace_id") in theirs.traces or row.get("span_id") in theirs.spans
