"""The local exporter: batches of an app end up in the file that the settings name."""

import sqlite3
from contextlib import closing

import pytest
from doubles import Failing
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.local import LocalExporter
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.process import shield
from llmeval_sdk.registry import exporter_factory
from llmeval_sdk.store.losses import losses, missing
from llmeval_sdk.store.reader import StoreReader


SPAN = SpanData("ab" * 16, "cd" * 8, None, "answer", "workflow", 10**18, 10**18 + 5)
SCORE = EvaluationEvent(
    "x", Target(SPAN.trace_id, SPAN.span_id, "answer", "workflow"), Evaluation("p", 0.5), 10**18
)


@pytest.fixture
def settings(tmp_path):
    return Settings(store=str(tmp_path / "own" / "llmeval.db"), store_max_days=0)


def test_a_batch_is_in_the_file_when_export_returns(settings):
    """Another process reads it at once; nothing waits for a flush."""
    exporter = exporter_factory("local")(settings)
    assert exporter.export(Batch((SPAN,), (SCORE,))) is None
    with closing(StoreReader(settings.store)) as reader:
        assert reader.span(SPAN.span_id) == SPAN
        assert reader.evaluations_of(SPAN.span_id) == (SCORE,)
    exporter.flush(1.0)
    exporter.close(1.0)


def test_a_limit_below_one_trace_is_said(tmp_path, monkeypatch):
    """All is delivered and nothing is there: a line names the setting that is too small."""
    monkeypatch.setattr(shield, "_last_told", {})
    shield.notices.clear()
    path = str(tmp_path / "llmeval.db")
    exporter = LocalExporter(Settings(store=path, store_max_days=0, store_max_bytes=1_000))
    assert exporter.export(Batch((SPAN,), (SCORE,))) is None
    exporter.close(1.0)
    (notice,) = shield.notices
    assert notice.what == (
        "LLMEVAL_STORE_MAX_BYTES=1000 is less than one trace takes: none stays."
        " Raise it: a gigabyte is the default."
    )


def test_nothing_is_opened_before_the_first_batch(settings, tmp_path):
    """Configuring an exporter touches no disk."""
    LocalExporter(settings).close(1.0)
    assert list(tmp_path.glob("own*")) == []


def test_a_closed_exporter_can_go_on(settings):
    """A batch after close is written: configure() may be called again while one is under way."""
    exporter = LocalExporter(settings)
    exporter.export(Batch((SPAN,)))
    exporter.close(1.0)
    exporter.export(Batch((), (SCORE,)))
    exporter.close(1.0)
    with closing(StoreReader(settings.store)) as reader:
        assert reader.counts().evaluations == 1


def test_a_locked_file_asks_delivery_to_try_again(settings):
    """The batch is not lost: the error says that it may be sent again."""
    exporter = LocalExporter(settings)
    exporter.store._busy_timeout = 0.05
    exporter.export(Batch((SPAN,)))
    with closing(sqlite3.connect(settings.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ExportError) as caught:
            exporter.export(Batch((), (SCORE,)))
        other.execute("ROLLBACK")
    assert caught.value.retryable
    assert exporter.export(Batch((), (SCORE,))) is None
    exporter.close(1.0)


def test_the_bounds_of_the_settings_hold(settings, tmp_path):
    """Size and age come from the settings."""
    exporter = LocalExporter(settings.changed(store_max_days=1.0))
    exporter.export(Batch((SPAN,)))
    exporter.close(1.0)
    with closing(StoreReader(settings.store)) as reader:
        assert reader.counts().spans == 0  # it is of the year 2001


def test_the_store_tells_what_another_exporter_lost(tmp_path):
    """Whoever has only the store learns what never arrived elsewhere, and why."""
    store = str(tmp_path / "app.db")
    llmeval.configure(store=store, exporters=["local", Failing(ExportError("unauthorized"))])
    for _ in range(2):  # the second batch notes what became of the first
        with llmeval.workflow("answer", request="a question"):
            pass
        llmeval.flush(10)
    llmeval.shutdown(5)
    lost = dict(llmeval.stats().exporters["failing"].dropped)
    with closing(StoreReader(store)) as reader:
        found = reader.read(losses)
    assert set(found) == {"failing"}
    assert 0 < found["failing"]["unauthorized"] <= lost["unauthorized"]


def test_the_store_tells_how_many_traces_it_lacks(tmp_path):
    """Of what was lost while another program held the file, the first spans are counted apart."""
    store = str(tmp_path / "app.db")
    llmeval.configure(store=store, exporters=["local"])
    change_plan(queue_records=20)

    def answer(times):
        for _ in range(times):
            with llmeval.workflow("answer", request="a question"), llmeval.task("step"):
                pass

    answer(1)
    llmeval.flush(10)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer(300)
        llmeval.flush(0.1)
        other.execute("ROLLBACK")
    llmeval.flush(10)
    answer(1)
    llmeval.flush(10)
    account = llmeval.stats().exporters["local"]
    llmeval.shutdown(5)
    with closing(StoreReader(store)) as reader:
        roots = "SELECT count(*) FROM spans WHERE parent_id IS NULL"
        (stored,) = reader.read(lambda connection: connection.execute(roots).fetchone())
        lacking = reader.read(missing)
    assert lacking.traces == account.lost_traces == 302 - stored > 0
    assert lacking.records == sum(account.lost.values())
