"""The store stays within its size and age, whole traces at a time."""

import sqlite3
import time
from contextlib import closing

from llmeval_sdk.model import Batch
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


DAY = 86_400 * 10**9
CHARACTERS = 4_000


def trace(make, *, start_ns=None, spans=3):
    root = make.span(start_ns=start_ns, request=make.text(CHARACTERS))
    rest = [
        make.span(
            "chat",
            trace=root.trace_id,
            parent_id=root.span_id,
            start_ns=start_ns,
            response=make.text(CHARACTERS),
        )
        for _ in range(spans - 1)
    ]
    return Batch((root, *rest), (make.evaluation(root),), (make.not_run(root),))


def pages(path):
    with closing(sqlite3.connect(path)) as raw:
        return tuple(
            raw.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )


def test_the_oldest_traces_go_first_and_go_whole(path, make):
    """Above the size, the first traces are gone with all their records and the last are whole."""
    batches = [trace(make) for _ in range(200)]
    with closing(StoreWriter(path, max_bytes=1_000_000)) as writer:
        for batch in batches:
            writer.write(batch)
    with closing(StoreReader(path)) as reader:
        kept = [batch for batch in batches if reader.trace(batch.spans[0].trace_id)]
        assert 0 < len(kept) < 100
        assert kept == batches[-len(kept) :]
        for batch in batches:
            here = batch in kept
            assert len(reader.trace(batch.spans[0].trace_id)) == 3 * here
            assert len(reader.evaluations_of(batch.spans[0].span_id)) == here
            assert len(reader.not_run_of(batch.spans[0].span_id)) == here


def test_the_file_does_not_grow_without_bound(path, make):
    """However much is written, the file stays near its bound."""
    with closing(StoreWriter(path, max_bytes=2_000_000)) as writer:
        for _ in range(40):
            many = [trace(make) for _ in range(20)]
            spans = tuple(span for batch in many for span in batch.spans)
            writer.write(Batch(spans))
    assert path.stat().st_size < 3_000_000


def test_evaluations_without_a_span_are_bounded_too(path, make):
    """Scores submitted outside any span cannot fill the disk."""
    with closing(StoreWriter(path, max_bytes=400_000)) as writer:
        for part in range(20):
            writer.write(
                Batch(evaluations=tuple(
                    make.evaluation(None, id=f"{part}-{n}", explanation="y" * 500) for n in range(100)
                ))
            )  # fmt: skip
    with closing(StoreReader(path)) as reader:
        kept = reader.evaluations_of("")
    assert 0 < len(kept) < 1_500
    assert kept[-1].id == "19-99"
    assert path.stat().st_size < 700_000


def test_old_traces_go_by_age(path, make):
    """A trace that began before the age is gone after a prune; a younger one stays."""
    old = trace(make, start_ns=time.time_ns() - 8 * DAY)
    young = trace(make, start_ns=time.time_ns() - 6 * DAY)
    with closing(StoreWriter(path, max_days=7)) as writer:
        writer.write(young)
        writer.write(old)
        assert writer.prune() == 5  # three spans, an evaluation and a judge that did not run
        assert writer.prune() == 0
    with closing(StoreReader(path)) as reader:
        assert reader.trace(old.spans[0].trace_id) == ()
        assert len(reader.trace(young.spans[0].trace_id)) == 3


def test_the_first_write_of_a_process_prunes_by_age(path, make):
    """A process that lives for a few requests keeps the store young, too."""
    with closing(StoreWriter(path, max_days=0)) as writer:
        writer.write(trace(make, start_ns=time.time_ns() - 40 * DAY))
    with closing(StoreWriter(path)) as writer:
        writer.write(trace(make))
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 3


def test_zero_means_no_bound(path, make):
    """Size and age of 0 keep everything."""
    with closing(StoreWriter(path, max_bytes=0, max_days=0)) as writer:
        writer.write(trace(make, start_ns=1))
        assert writer.prune() == 0


def test_a_smaller_bound_gives_the_disk_its_space_back(path, make):
    """After the bound was lowered, pruning shrinks the file itself."""
    with closing(StoreWriter(path)) as writer:
        for _ in range(10):
            writer.write(Batch(tuple(s for _ in range(100) for s in trace(make).spans)))
    before = path.stat().st_size
    with closing(StoreWriter(path, max_bytes=1_000_000)) as writer:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            writer.prune()
            count, free, size = pages(path)
            if count * size < 2_000_000:
                break
    assert before > 8_000_000
    assert (count - free) * size <= 1_000_000
    assert path.stat().st_size < 2_000_000
