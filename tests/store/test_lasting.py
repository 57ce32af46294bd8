"""How long the limit of the store lasts is said from what the store holds."""

import time
from contextlib import closing

import pytest

from llmeval_sdk.model import Batch
from llmeval_sdk.store.lasting import lasting
from llmeval_sdk.store.reader import StoreReader


HOUR = 3_600 * 10**9


def read(path, limit, now):
    with closing(StoreReader(path)) as reader:
        return reader.read(lambda connection: lasting(connection, limit, now))


def fill(writer, make, now, count, over):
    """Write traces of two spans that began one after the other until now."""
    for number in range(count):
        root = make.span(start_ns=now - over + number * (over // count))
        below = make.span(
            trace=root.trace_id, parent_id=root.span_id, start_ns=root.start_ns,
            request=make.text(3_000),
        )  # fmt: skip
        writer.write(Batch((root, below)))


def test_the_limit_lasts_as_long_as_its_traces_at_the_pace_of_the_last_hour(writer, path, make):
    """An older half of the store says how much a trace takes, and not how many come."""
    now = time.time_ns()
    fill(writer, make, now - 2 * HOUR, 360, HOUR)
    fill(writer, make, now, 180, HOUR)
    found = read(path, 1 << 30, now)
    assert found.traces_a_second == 0.05
    assert 2_000 < found.bytes_a_trace < 8_000
    assert found.seconds * found.bytes_a_trace * 0.05 == pytest.approx(1 << 30)
    assert found.sentence.endswith(" days at the pace of the last hour: 0.05 traces a second")
    assert found.sentence.startswith("1,073.7 MB last about ")


def test_a_store_that_keeps_ten_minutes_tells_their_pace(writer, path, make):
    """The hour before was deleted, and must not make the pace look small."""
    now = time.time_ns()
    fill(writer, make, now, 300, HOUR // 6)
    found = read(path, 2_000_000, now)
    assert found.traces_a_second == 0.5
    assert "at the pace of the last 10 minutes: 0.50 traces a second" in found.sentence
    assert "minutes at" in found.sentence


def test_without_a_limit_or_recent_traces_nothing_is_said(writer, path, make):
    """Neither a store of old traces, nor one that began a moment ago, has a pace."""
    now = time.time_ns()
    fill(writer, make, now, 5, HOUR // 120)
    assert read(path, 1 << 30, now) is None
    assert read(path, 0, now + HOUR // 2) is None
    assert read(path, 1 << 30, now + HOUR // 2) is not None
    assert read(path, 1 << 30, now + 3 * HOUR) is None
