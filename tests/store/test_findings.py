"""What a person should know of a store: losses, a full disk, judges and scores that never come."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from cli_fixtures import Store

from llmeval_sdk.model import DAY_NS, HOUR_NS, Failure
from llmeval_sdk.statistics.reasons import LOSSES
from llmeval_sdk.store.findings import findings_of
from llmeval_sdk.store.losses import Process
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


NOW = time.time_ns()


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "llmeval.db")
    with closing(store.writer):
        store.span("01" * 8, start_ns=NOW)
        yield store


def read(store, max_bytes=0):
    with closing(StoreReader(store.path)) as reader:
        return findings_of(reader, max_bytes, NOW + 1)


def lose(store, reason, times, *, at=NOW, started=NOW, exporter="local"):
    store.writer.note_losses(Process(started, 1), {exporter: {reason: times} if reason else {}}, at)


def test_a_store_that_nothing_happened_to_has_no_finding(store):
    """A start without a loss is nothing to tell."""
    lose(store, "", 0)
    store.evaluation(store.span("02" * 8, start_ns=NOW), "recall", 0.5)
    assert read(store) == []


def test_losses_are_told_with_their_number_reason_and_what_helps(store):
    """The advice is what was measured to help: neither memory nor a longer queue does."""
    lose(store, "queue_full", 31_656)
    lose(store, "unauthorized", 5, exporter="otlp")
    full, refused = read(store)
    assert (full.is_problem, full.kind, full.about, full.number) == (
        True, "loss", "local: queue_full", 31_656,
    )  # fmt: skip
    assert str(full).startswith("31,656 records never reached the store since 20")
    for word in ("`llmeval agent`", "LLMEVAL_BACKGROUND_SHARE", "LLMEVAL_TRACE_SAMPLE_RATE"):
        assert word in full.advice
    assert (refused.about, refused.number) == ("otlp: unauthorized", 5)


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("http_401", "Set the key again"),
        ("http_403", "Set the key again"),
        ("http_404", "Correct the address"),
        ("http_301", "Correct the address"),
        ("not_a_backend", "Correct the address"),
        ("http_503", "See whether it runs"),
        ("http_429", "See whether it runs"),
        ("unreachable", "See whether it runs"),
    ],
)
def test_what_a_far_end_said_is_told_with_what_helps(store, reason, helps):
    """An exporter that fails: the key, the address or the server, and not "see the log"."""
    lose(store, reason, 5, exporter="otlp")
    (finding,) = read(store)
    assert finding.about == f"otlp: {reason}"
    assert finding.advice.startswith(helps)


@pytest.mark.parametrize(
    ("started", "at"),
    [(NOW - HOUR_NS, NOW - HOUR_NS), (NOW, NOW - 2 * DAY_NS)],
    ids=["by a process before the last start", "longer ago than a day"],
)
def test_losses_that_are_over_are_a_note(store, started, at):
    """Whoever mended the set-up and started the app again is told that it is mended."""
    lose(store, "queue_full", 7, started=started, at=at)
    lose(store, "", 0)
    (finding,) = read(store)
    assert (finding.is_problem, finding.number) == (False, 7)
    assert "before that" in finding.words


def test_losses_of_long_ago_are_not_told(store):
    """What happened more than a week ago helps nobody."""
    lose(store, "queue_full", 7, started=NOW - 9 * DAY_NS, at=NOW - 9 * DAY_NS)
    assert read(store) == []


@pytest.mark.parametrize(
    ("reason", "is_problem"), [("circuit_open", True), ("no_judge_model", False)]
)
def test_a_judge_that_never_ran_is_told_with_the_reason(store, reason, is_problem):
    """It was to run, and gave no verdict at all; what may be meant so is a note."""
    for number in range(3, 6):
        store.not_run(store.span(f"{number:02}" * 8, start_ns=NOW), "groundedness", reason)
    (finding,) = read(store)
    assert (finding.is_problem, finding.kind, finding.about) == (
        is_problem,
        "judge",
        "groundedness",
    )
    assert finding.number == 3
    store.evaluation(store.span("07" * 8, start_ns=NOW), "groundedness", "yes")
    assert read(store) == []


def test_a_judge_that_was_not_wanted_is_nothing_to_tell(store):
    """Sampling and escalation are there to leave judgements out."""
    for number, reason in enumerate(("not_sampled", "not_escalated", "cached")):
        store.not_run(store.span(f"{number:02}" * 8, start_ns=NOW), f"judge{number}", reason)
    assert read(store) == []


def test_scores_that_gave_way_are_a_note(store):
    """They are weighted, so that their means hold; whoever wants all of them learns what to do."""
    for number in range(3, 6):
        span = store.span(f"{number:02}" * 8, start_ns=NOW)
        for name in ("heuristics", "groundedness")[: number - 3]:
            store.not_run(span, name, "busy")
    (finding,) = read(store)
    assert (finding.is_problem, finding.about, finding.number) == (False, "busy", 2)
    assert "`llmeval agent`" in finding.advice


def test_a_score_that_nobody_could_compute_is_told(store):
    """An evaluator that failed on all of its latest records has one finding, with its error."""
    for number in range(3):
        span = store.span(f"{number:02}" * 8, start_ns=NOW)
        store.evaluation(span, "mine", None, error=Failure("KeyError", "x"))
        store.evaluation(span, "recall", 0.5)
    (finding,) = read(store)
    assert (finding.is_problem, finding.kind, finding.about, finding.number) == (
        True, "score", "mine", 3,
    )  # fmt: skip
    assert "KeyError" in finding.words


def test_a_score_that_failed_once_is_a_note(store):
    """One record that could not be scored breaks nothing."""
    span = store.span("03" * 8, start_ns=NOW)
    store.evaluation(span, "mine", None, error=Failure("KeyError", "x"))
    (finding,) = read(store)
    assert not finding.is_problem


def test_a_disk_that_is_smaller_than_the_limit_of_the_store_is_told(store):
    """The limit would delete nothing before the disk is full."""
    (finding,) = read(store, max_bytes=1 << 60)
    assert (finding.is_problem, finding.kind) == (False, "disk")
    assert "LLMEVAL_STORE_MAX_BYTES" in finding.advice


def test_a_limit_below_one_trace_is_a_problem(store):
    """Each trace goes as soon as it is written, so the store is empty and nothing else says why."""
    writer = StoreWriter(store.path, max_bytes=1_000)
    with closing(writer):
        writer.prune()
        assert writer.keeps_nothing
    (finding,) = read(store, max_bytes=1_000)
    assert (finding.is_problem, finding.about, finding.number) == (True, "limit", 1_000)
    assert str(finding) == (
        "LLMEVAL_STORE_MAX_BYTES=1000 is less than one trace takes: none stays."
        " Raise it: a gigabyte is the default."
    )


def test_a_limit_that_leaves_a_trace_is_none(store):
    """A store that is beyond its limit until the next write prunes is as it should be."""
    assert read(store, max_bytes=1_000) == []


_ON_A_SMALL_DISK = """
import sys
sys.path[:0] = sys.argv[2:]
from test_findings import NOW, Store, read
store = Store(sys.argv[1] + "/own/llmeval.db")
store.span("01" * 8, start_ns=NOW)
print([(f.is_problem, f.kind, f.advice) for f in read(store, 1 << 30)])
"""


def test_a_full_disk_is_a_problem(tmp_path):
    """A real file system of two megabytes has no room for what the log of a store may take."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=2m,mode=700 tmpfs "$0" && exec "$@"'
    small = ("unshare", "-rm", "sh", "-c", mount, str(disk))
    if subprocess.run([*small, "true"], capture_output=True).returncode:
        pytest.skip("this user may mount nothing")
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [*small, sys.executable, "-c", _ON_A_SMALL_DISK, str(disk), *paths],
        capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.stdout.strip() == repr([(True, "disk", LOSSES["disk_full"].advice)]), done.stderr
