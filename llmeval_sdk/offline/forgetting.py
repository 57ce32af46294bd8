"""Deletes a user's requests from golden sets and from experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmeval_sdk.offline.golden import Versions, golden_sets
from llmeval_sdk.offline.run.experiment import store_of_experiments
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


def _belongs_to_person(row: Mapping[str, object], theirs: Belongings) -> bool:
    return row.get("trace_id") in theirs.traces or row.get("span_id") in theirs.spans
