"""What was imported is history: pruning knows its times, and no alarm takes it for late verdicts."""

import sqlite3
import time
from contextlib import closing

import pytest

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import HOUR_NS, Batch
from llmeval_sdk.store import history
from llmeval_sdk.store.history import arrival, imported, take_in
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.verdicts_by_hour import LATE_NS, Wanted, arrived, hours, late
from llmeval_sdk.store.writer import StoreWriter


DAY = 86_400 * 10**9


def judged(make, start_ns, value=0.5):
    """Return a span with a score and a judge that did not run, as an import has them."""
    span = make.span(start_ns=start_ns, end_ns=start_ns)
    return arrival("line 1", span, (make.evaluation(span, value=value), make.not_run(span)))


def live(make, start_ns):
    span = make.span(start_ns=start_ns, end_ns=start_ns, request=make.text(4_000))
    return Batch((span,), (make.evaluation(span),), (make.not_run(span),))


@pytest.fixture
def importer(path):
    with closing(StoreWriter(path, 0, 0, busy_timeout=history.WAIT_SECONDS)) as writer:
        yield writer


def test_history_goes_by_age_although_it_came_last(path, make, writer, importer):
    """What began before the age is deleted, in front of newer spans that came before it."""
    now = time.time_ns()
    for number in range(150):
        writer.write(live(make, now - number))
    take_in(importer, [judged(make, now - 40 * DAY), judged(make, now - 20 * DAY)])
    while writer.prune():
        pass
    with closing(StoreReader(path)) as reader:
        counts = reader.counts()
        assert (counts.spans, counts.evaluations) == (151, 151)


def test_imported_evaluations_stay_as_long_as_their_spans(path, make, importer):
    """Pruning by size deletes what came first; it does not take old scores for leftovers."""
    now = time.time_ns()
    with closing(StoreWriter(path, max_bytes=1_000_000, max_days=0)) as writer:
        for number in range(190):
            writer.write(Batch(live(make, now + number).spans))
        take_in(importer, [judged(make, now - number * DAY) for number in range(1, 50)])
        for number in range(100):
            writer.write(Batch(live(make, now + number).spans))
    with closing(sqlite3.connect(path)) as file:
        left = file.execute("SELECT count(*) FROM spans WHERE request IS NULL").fetchone()[0]
        scored = file.execute("SELECT count(*) FROM evaluations").fetchone()[0]
        total = file.execute("SELECT count(*) FROM spans").fetchone()[0]
    assert total < 339, "something was pruned"
    assert scored == left > 0


def test_an_alarm_counts_imported_hours_only_before_it_has_looked(path, make, writer, importer):
    """Hours to come are history like any; in those it has counted, the import is not late news."""
    start = time.time_ns() // HOUR_NS * HOUR_NS - 5 * HOUR_NS
    wanted = Wanted("context_precision")
    writer.write(live(make, start))
    with closing(StoreReader(path)) as reader:
        looked = reader.read(arrived)
        take_in(importer, [judged(make, start + 1, 0.0), judged(make, start + 2 * HOUR_NS, 0.0)])
        writer.write(live(make, start + 2))
        take_in(importer, [judged(make, start + 3, 0.0)])
        ((hour, dropped),) = reader.read(
            lambda store: late(store, wanted, start + HOUR_NS, looked, left_out=lambda _: ())
        ).values()
        assert (hour.judged, dropped) == (1, 0), "what the app wrote late is late"
        after = reader.read(lambda store: list(hours(store, wanted, start, start + LATE_NS)))
        assert [hour.judged for _, hour in after] == [4, 1]


def test_the_rows_of_an_import_are_known_again(make, writer, importer, path):
    """In as few ranges as there were others between them."""
    now = time.time_ns()
    for number in range(3):
        take_in(importer, [judged(make, now + number)])
    writer.write(live(make, now))
    take_in(importer, [judged(make, now), judged(make, now)])
    take_in(importer, [])
    with closing(StoreReader(path)) as reader:
        known = reader.read(imported)
        assert known == {"evaluations": [(1, 3), (5, 6)], "not_run": [(1, 3), (5, 6)]}


@pytest.mark.parametrize("text", ["", "[", "5", '{"evaluations": [5], "not_run": []}', b"\xff"])
def test_a_store_made_by_hand_has_no_ranges_that_harm(make, path, importer, text):
    """What cannot be read counts as none, and the next import replaces it."""
    take_in(importer, [judged(make, 5)])
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE meta SET value = ? WHERE key = 'imported'", (text,))
        file.commit()
    take_in(importer, [judged(make, 6)])
    with closing(StoreReader(path)) as reader:
        assert reader.read(imported)["evaluations"] == [(2, 2)]


def test_a_batch_is_written_whole_or_not_at_all(path, make, importer, monkeypatch):
    """If one table cannot be written, nothing of the batch is there."""
    take_in(importer, [judged(make, 5)])
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE UNIQUE INDEX one ON not_run (reason)")
        file.execute(
            "CREATE TRIGGER no BEFORE INSERT ON not_run BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        file.commit()
    with pytest.raises(ConfigurationError, match="run the import again"):
        take_in(importer, [judged(make, 6)])
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM spans").fetchone() == (1,)
        file.execute("DROP TRIGGER no")
        file.execute("DROP INDEX one")
        file.commit()
    assert take_in(importer, [judged(make, 6)]).new["spans"] == 1


def test_an_import_waits_for_an_app_that_writes(path, make, importer):
    """And says so when that takes too long."""
    take_in(importer, [])
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(StoreWriter(path, 0, 0, busy_timeout=0.05)) as hasty,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigurationError, match="locked"):
            take_in(hasty, [judged(make, 5)])
        other.execute("ROLLBACK")
    assert take_in(importer, [judged(make, 5)]).new["spans"] == 1


def test_an_app_may_write_between_two_batches(path, make, writer, importer):
    """Both find what the other wrote."""
    batch = live(make, time.time_ns())
    writer.write(batch)
    again = arrival("line 1", batch.spans[0], (*batch.evaluations, *batch.not_run))
    taken = take_in(importer, [again])
    assert not taken.new
    assert taken.known == {"spans": 1, "evaluations": 1, "not_run": 1}
    new = judged(make, time.time_ns())
    take_in(importer, [new])
    writer.write(batch)
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 2
