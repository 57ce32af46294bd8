"""What escalation reads of earlier processes when it begins."""

import sqlite3
import time
from contextlib import closing

from llmeval_sdk.model import Batch
from llmeval_sdk.store.reader import recent_scores


def test_a_store_that_another_process_is_just_making_has_no_scores(path):
    """Two workers start on an empty disk: the file of the other is there and holds nothing yet."""
    assert recent_scores(path, "groundedness_risk") == []
    path.parent.mkdir()
    with closing(sqlite3.connect(path)):
        path.touch(mode=0o600)
        assert recent_scores(path, "groundedness_risk") == []


def test_earlier_scores_are_read_oldest_first(path, writer, make):
    """With the name of the span they were given."""
    spans, begin = [make.span() for _ in range(3)], time.time_ns()
    events = [make.evaluation(s, "risk", n / 10, time_ns=begin + n) for n, s in enumerate(spans)]
    writer.write(Batch(tuple(spans), tuple(events)))
    assert recent_scores(path, "risk") == [("extract_field", n / 10) for n in range(3)]
