"""Deletes what was learned from a user's requests."""

from __future__ import annotations

from pathlib import Path

from llmeval_sdk.store.forgetting import Belongings, file_beside


def forget(store: Path, theirs: Belongings, *, really: bool) -> int:
    """Delete the verdicts on a user's spans that scores learn from; return how many there are."""
    count = 0
    with file_beside(store.with_suffix(".outcomes")) as database:
        if database is None:
            return 0
        for span in theirs.spans:
            (here,) = database.execute(
                "SELECT count(*) FROM outcomes WHERE span_id=?", (span,)
            ).fetchone()
            count += here
            if really and here:
                database.execute("DELETE FROM outcomes WHERE span_id=?", (span,))
    return count
