"""What processes could not deliver is known by the hour, by exporter and by reason."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.store.losses import (
    LossNotes,
    Process,
    last_start,
    losses,
    losses_of_start,
    missing,
)
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


NOON = 1_767_225_600_000_000_000 // HOUR_NS * HOUR_NS


@pytest.fixture
def writer(tmp_path):
    with closing(StoreWriter(tmp_path / "llmeval.db", max_days=1)) as writer:
        yield writer


def read(writer, reading, *args):
    with closing(StoreReader(writer.location)) as reader:
        return reader.read(lambda store: reading(store, *args))


def test_losses_are_known_by_window(writer):
    """A window has the losses of its hours, of all processes, and none of the hours beside it."""
    for process, hours, times in (((1, 1), 0, 5), ((1, 1), 2, 7), ((2, 2), 2, 3)):
        lost = {"local": {"queue_full": times}}
        writer.note_losses(Process(*process), lost, NOON + hours * HOUR_NS + 5)
    assert read(writer, losses) == {"local": {"queue_full": 15}}
    assert read(writer, losses, NOON + 2 * HOUR_NS) == {"local": {"queue_full": 10}}
    assert read(writer, losses, NOON, NOON + HOUR_NS) == {"local": {"queue_full": 5}}
    assert read(writer, losses, NOON + HOUR_NS, NOON + 2 * HOUR_NS) == {}
    assert read(writer, losses, NOON + 2 * HOUR_NS + 59, NOON + 2 * HOUR_NS + 60) != {}


def test_counters_that_only_rise_become_what_was_lost_since_the_last_note(writer):
    """A counter's whole value is noted once, and from then on only how far it rose."""
    notes, written = LossNotes(), []
    for times in (0, 5, 5, 9):
        lost = {"local": {"queue_full": times}} if times else {}
        notes.note(lost, lambda _, lost: written.append(lost))
    assert written == [{}, {"local": {"queue_full": 5}}, {"local": {"queue_full": 4}}]


def test_a_note_that_could_not_be_written_is_made_up_for(writer):
    """Nothing is forgotten over a full disk: the next note has it as well."""

    def fail(*_):
        raise OSError

    notes, written = LossNotes(), []
    with pytest.raises(OSError):
        notes.note({"local": {"disk_full": 5}}, fail)
    notes.note({"local": {"disk_full": 6}}, lambda _, lost: written.append(lost))
    assert written == [{"local": {"disk_full": 6}}]


def test_losses_of_the_last_start_are_told_from_earlier_ones(writer):
    """A process notes its start even where nothing is lost, so that a mended set-up looks mended."""
    writer.note_losses(Process(NOON + 1, 1), {"local": {"queue_full": 5}}, NOON + 2)
    writer.note_losses(Process(NOON + 9, 2), {}, NOON + 9)
    assert read(writer, last_start) == NOON + 9
    since, before = read(writer, losses_of_start, NOON + 9, NOON + 9, NOON)
    assert (since, before) == ({}, {"local": {"queue_full": 5}})
    late = NOON + 2 * HOUR_NS
    assert read(writer, losses_of_start, NOON + 1, late, NOON) == ({}, before)
    assert read(writer, losses_of_start, NOON + 1, late, late) == ({}, {})


def test_notes_of_earlier_releases_are_read(writer):
    """They have no hour: they count in the hour in which their process began."""
    writer.note_losses(Process(1, 1), {}, NOON)
    with closing(sqlite3.connect(writer.path)) as file, file:
        file.execute(
            "INSERT INTO meta VALUES (?, ?)",
            (f"lost:{NOON + 7:020d}:12", json.dumps({"otlp": {"exporter_full": 331}})),
        )
        for key, value in (("lost:", "{"), ("lost:x:y", "[5]"), ("lost:7", b"\xff"), ("lost:8", 8)):
            file.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
    assert read(writer, losses, NOON, NOON + HOUR_NS) == {"otlp": {"exporter_full": 331}}
    assert read(writer, last_start) == NOON + 7


def test_notes_go_with_the_traces_of_their_time(writer):
    """What is older than a store keeps traces is forgotten."""
    now = time.time_ns()
    for at, times in ((now, 5), (now - 2 * 24 * HOUR_NS, 100)):
        writer.note_losses(Process(1, 1), {"otlp": {"exporter_full": times}}, at)
    writer.prune()
    assert read(writer, losses) == {"otlp": {"exporter_full": 5}}


def test_what_a_store_lacks_of_a_window_has_its_records_and_its_traces(writer):
    """Only what was to go into the store counts; where traces were counted, they are told."""
    lost = {"local": {"queue_full": 9, "disk_full": 20}, "otlp": {"http_413": 7}}
    writer.note_losses(Process(1, 1), {**lost, "traces": {"local": 4, "otlp": 1}}, NOON)
    assert read(writer, losses) == lost
    lacking = read(writer, missing, NOON, NOON + 1)
    assert (lacking.records, lacking.traces) == (29, 4)
    assert list(lacking.reasons) == ["disk_full", "queue_full"]
    assert read(writer, missing, NOON + HOUR_NS) is None
