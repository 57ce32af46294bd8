"""Delivery accounts for every record: created = delivered + dropped + undelivered + unknown."""

import subprocess
import sys
import threading
import time

import pytest
from doubles import Exporter, Failing, Hanging, Refusing, busy
from otlp_collector import running_collector
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters import otlp
from llmeval_sdk.model import SpanData
from llmeval_sdk.model.protocols import complete_exporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.batch_exporter import MAX_BATCH, Delivery
from llmeval_sdk.pipeline.stats import ExporterStats, Stats
from llmeval_sdk.process.exits import Ending


@llmeval.workflow
def answer(question):
    return question


def trace(count):
    for number in range(count):
        answer(str(number))


def slowly_scored():
    """Configure a heuristic that takes 5 ms for each record; returns the exporter."""

    @llmeval.heuristic
    def slow(record):
        time.sleep(0.005)
        return 1.0

    exporter = Exporter()
    llmeval.configure(exporters=[exporter], evaluators=[slow])
    return exporter


def account(exporter):
    stats = llmeval.stats()
    each = stats.exporters[exporter.name]
    assert each.balanced
    assert each.created == stats.spans + stats.evaluations
    return each


def test_everything_arrives_once_and_in_order():
    """A healthy exporter gets each record exactly once."""
    exporter = Exporter()
    llmeval.configure(exporters=[exporter])
    trace(2_000)
    llmeval.submit_evaluation(label="mine", value=0.5)
    assert llmeval.flush(30).complete
    assert [span.request for span in exporter.spans] == [str(n) for n in range(2_000)]
    each = account(exporter)
    assert each.delivered == exporter.received == each.created
    assert exporter.flushed >= 1


def test_a_burst_loses_nothing():
    """10,000 spans and 5,000 evaluations as fast as they come: all arrive."""
    exporter = Exporter()
    llmeval.configure(exporters=[exporter])
    trace(10_000)
    for number in range(5_000):
        llmeval.submit_evaluation(label="mine", value=number / 5_000)
    assert llmeval.flush(60).complete
    assert (len(exporter.spans), len(exporter.evaluations)) == (10_000, 5_000)


def test_threads_lose_no_count():
    """Eight threads at once: what was made is what arrived."""
    exporter = Exporter()
    llmeval.configure(exporters=[exporter])
    threads = [threading.Thread(target=trace, args=(1_000,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert llmeval.flush(60).complete
    assert account(exporter).delivered == len(exporter.spans) == 8_000


def test_a_hanging_exporter_holds_up_nobody(until):
    """Calls, other exporters, a flush and the shutdown all end while it hangs."""
    hanging, healthy = Hanging(), Exporter()
    llmeval.configure(exporters=[hanging, healthy])
    answer("first")
    assert hanging.entered.wait(10)
    trace(1_000)
    until(lambda: len(healthy.spans) == 1_001, 60)
    assert not llmeval.flush(0.3).complete
    assert not llmeval.shutdown(0.5).complete
    stuck = account(hanging)
    assert stuck.delivered == 0
    assert stuck.undelivered == stuck.created
    hanging.release.set()


def test_a_full_queue_drops_and_counts():
    """With a hanging exporter and a small queue, the rest is dropped by reason, exactly."""
    hanging = Hanging()
    llmeval.configure(exporters=[hanging])
    change_plan(queue_records=100)
    answer("first")
    assert hanging.entered.wait(10)
    trace(2_000)
    llmeval.flush(1)
    each = account(hanging)
    assert sum(each.dropped.values()) >= 1_700
    assert set(each.dropped) <= {"queue_full", "exporter_full"}
    hanging.release.set()
    assert llmeval.flush(30).complete
    each = account(hanging)
    assert each.delivered == hanging.received
    assert each.undelivered == 0


def test_a_dead_exporter_bounds_what_waits_in_bytes():
    """The byte bound holds for large records too."""
    hanging = Hanging()
    llmeval.configure(exporters=[hanging])
    change_plan(queue_bytes=1_000_000)
    answer("first")
    assert hanging.entered.wait(10)
    for _ in range(200):
        answer("x" * 20_000)
    llmeval.flush(1)
    each = account(hanging)
    assert each.undelivered < 130
    assert sum(each.dropped.values()) > 70
    hanging.release.set()


def test_a_transient_failure_is_retried():
    """An exporter that asks for a retry gets the same batch again, and nothing is lost."""
    failing = Failing(busy(), times=2)
    llmeval.configure(exporters=[failing])
    answer("q")
    assert llmeval.flush(30).complete
    assert failing.tries == 3
    assert account(failing).delivered == 1


def test_the_far_end_says_when_to_come_back():
    """Retry-After is honoured."""
    failing = Failing(busy(retry_after=0.6), times=1)
    llmeval.configure(exporters=[failing])
    begun = time.monotonic()
    answer("q")
    assert llmeval.flush(30).complete
    assert time.monotonic() - begun >= 0.6


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ExportError("unauthorized"), "unauthorized"), (ValueError("bug"), "ValueError")],
)
def test_a_permanent_failure_is_counted_by_reason(error, reason):
    """What the far end will never take is dropped under its reason, and said once in the log."""
    failing = Failing(error)
    llmeval.configure(exporters=[failing])
    answer("q")
    assert llmeval.flush(10).complete
    assert account(failing).dropped == {reason: 1}


def test_a_record_that_may_have_arrived_is_unknown():
    """Sent without an answer is neither delivered nor dropped."""
    failing = Failing(ExportError("no answer", answered=False))
    llmeval.configure(exporters=[failing])
    answer("q")
    assert llmeval.flush(10).complete
    assert account(failing).unknown == 1


def test_records_that_the_far_end_refused_are_counted():
    """A partial success is read: refused records are not delivered ones."""
    refusing = Refusing()
    llmeval.configure(exporters=[refusing])
    trace(10)
    assert llmeval.flush(10).complete
    each = account(refusing)
    assert each.dropped["rejected"] == refusing.batches
    assert each.delivered == 10 - refusing.batches


def test_configuring_again_loses_nothing_in_flight():
    """The later call wins; what came before goes to the earlier exporter."""
    before, after = Exporter(), Exporter()
    after.name = "after"
    llmeval.configure(exporters=[before])
    trace(500)
    llmeval.configure(exporters=[after])
    trace(300)
    result = llmeval.flush(30)
    assert result.complete
    assert (len(before.spans), len(after.spans)) == (500, 300)
    assert result.spans == 800


def test_a_flush_ends_although_the_load_does_not():
    """More comes in than can be scored: a flush waits for what came before it, not for an end."""
    exporter = slowly_scored()
    over = threading.Event()

    def load():
        while not over.wait(0.001):
            answer("more")

    loading = threading.Thread(target=load)
    trace(20)
    loading.start()
    try:
        assert llmeval.flush(20).complete
        assert loading.is_alive()
        assert len(exporter.spans) >= 20
    finally:
        over.set()
        loading.join()


@pytest.mark.timeout(60)
def test_several_configurations_share_one_deadline(until):
    """However many exporters of earlier set-ups hang, and the latest still delivers.

    With a deadline for each, the twenty-five would take longer than a test may.
    """
    hanging = [Hanging() for _ in range(25)]
    for each in hanging:
        llmeval.configure(exporters=[each])
        answer("q")
        assert each.entered.wait(10)
    healthy = Exporter()
    llmeval.configure(exporters=[healthy])
    answer("q")
    until(lambda: healthy.spans, 60)
    for end in (llmeval.flush, llmeval.shutdown):
        assert not end(1.5).complete
    assert len(healthy.spans) == 1
    for each in hanging:
        each.release.set()


def test_after_shutdown_records_are_dropped_and_counted():
    """Late spans raise nothing and are counted."""
    exporter = Exporter()
    llmeval.configure(exporters=[exporter])
    answer("in time")
    assert llmeval.shutdown(10).complete
    answer("late")
    assert exporter.closed
    assert llmeval.stats().exporters["double"].delivered == 1
    assert runtime.pipeline().stats().dropped == {"shutdown": 1}


def test_the_account_of_the_end_covers_what_the_worker_had_not_reached():
    """With a backlog at the deadline, every record is in the account that shutdown returns."""
    slowly_scored()
    trace(200)
    llmeval.shutdown(0.1)
    stats = runtime.pipeline().stats()
    assert stats.dropped["shutdown"] > 50
    assert stats.spans == 200
    assert stats.exporters["double"].created == 200 + stats.evaluations


def test_repeated_failures_are_one_log_line(caplog):
    """A dead backend is said once a minute, not once a batch."""
    failing = Failing(ExportError("unauthorized"))
    llmeval.configure(exporters=[failing])
    for _ in range(20):
        answer("q")
        llmeval.flush(10)
    lines = [record for record in caplog.records if record.name == "llmeval_sdk"]
    assert len(lines) == 1
    assert "unauthorized" in lines[0].getMessage()


IDLE = """
import threading
import llmeval_sdk as llmeval
from llmeval_sdk.exporters.memory import MemoryExporter
llmeval.configure(exporters=[MemoryExporter()])
print(threading.active_count())
llmeval.workflow(str)("a record")
print(threading.active_count())
"""


def test_no_thread_is_started_before_the_first_record():
    """configure() alone starts nothing; it would be seen, as what a record starts is."""
    command = [sys.executable, "-c", IDLE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    configured, traced = map(int, done.stdout.split())
    assert configured == 1 < traced


def test_without_a_thread_nothing_is_begun_after_the_deadline():
    """At exit a far end that hangs in one batch is not asked to take the next ones too."""

    class Slow(Exporter):
        def export(self, batch):
            late.set()
            deadline = time.monotonic() + 60
            while time.monotonic() < until and time.monotonic() < deadline:
                time.sleep(0.01)
            return super().export(batch)

    late, slow, flushed = threading.Event(), Slow(), []
    slow.flush = flushed.append
    delivery = Delivery(complete_exporter(slow), max_records=5_000, max_bytes=1 << 30)
    delivery._thread.start = lambda: False
    for number in range(3 * MAX_BATCH):
        delivery.offer(SpanData("t", str(number), None, "n", "task", 1, 2), 100)
    until = time.monotonic() + 0.2
    delivery.work(Ending(until), 0.0)
    assert late.is_set()
    assert slow.received == MAX_BATCH
    assert flushed == []
    delivery.work(Ending.within(10), 0.0)
    assert slow.received == 3 * MAX_BATCH
    assert len(flushed) == 1


def test_a_flush_beside_the_end_does_not_wait_for_a_thread_that_is_gone():
    """Its barrier came after the thread had looked for the last time."""
    delivery = Delivery(complete_exporter(Exporter()), max_records=10, max_bytes=10_000)
    delivery.start()
    delivery.stop()
    assert delivery.join(time.monotonic() + 10)
    assert delivery.barrier().done.is_set()


def test_a_send_in_the_main_thread_ends_with_the_exit():
    """Where no thread can start, a far end that hangs holds up the exit until its deadline only.

    The time-out of a request is far beyond what a test may take.
    """
    with running_collector() as collector:
        collector.hang.set()
        exporter = otlp.make(Settings(otlp_endpoint=collector.url, otlp_timeout=600.0))
        delivery = Delivery(exporter, max_records=10, max_bytes=10_000)
        delivery._thread.start = lambda: False  # as at exit from Python 3.12 on
        delivery.offer(SpanData("1" * 32, "1" * 16, None, "w", "workflow", 0, 1), 100)
        delivery.work(Ending.within(0.3), 0.0)
        collector.hang.clear()
    account = delivery.stats(1, {})
    assert (account.delivered, account.unknown) == (0, 1)


def test_the_losses_name_each_kind_with_its_number():
    """Over all exporters and judges; what another process delivers is not lost."""
    stats = Stats(
        exporters={
            "local": ExporterStats(dropped={"queue_full": 3, "spooled": 9}, in_memory=2),
            "otlp": ExporterStats(
                dropped={"queue_full": 4, "refused": 1}, undelivered=5, unknown=6, in_memory=1
            ),
        },
        not_run={"safety": {"shutdown": 7, "timeout": 1}, "polite": {"shutdown": 1}},
    )
    assert stats.losses == (
        "5 records not delivered in time, 8 dropped (queue_full 7, refused 1),"
        " 6 records that may not have arrived,"
        " 3 records kept in memory only, which end with this process, 8 judgements not made in time"
    )


def test_where_nothing_was_lost_nothing_is_told():
    """Neither what was delivered, nor what the spool keeps for another process."""
    fine = ExporterStats(created=9, delivered=4, dropped={"spooled": 5})
    assert Stats(exporters={"otlp": fine}, not_run={"safety": {"not_sampled": 3}}).losses == ""


def test_the_counters_of_two_configurations_add_up():
    """Key by key and exporter by exporter; both have to be complete, and problems are the same."""
    otlp = ExporterStats(created=3, delivered=1, dropped={"refused": 2})
    one = Stats(spans=1, exporters={"otlp": otlp}, judged={"safety": 2}, problems={"judge": 1})
    two = Stats(
        spans=2,
        exporters={
            "otlp": ExporterStats(created=5, dropped={"refused": 1, "shutdown": 2}, unknown=2),
            "local": ExporterStats(created=1, undelivered=1),
        },
        judged={"safety": 3, "polite": 1},
        problems={"judge": 1},
        complete=False,
    )
    both = one + two
    assert (both.spans, both.complete) == (3, False)
    assert both.exporters["otlp"] == ExporterStats(
        created=8, delivered=1, dropped={"refused": 3, "shutdown": 2}, unknown=2
    )
    assert both.exporters["local"] == two.exporters["local"]
    assert all(account.balanced for account in both.exporters.values())
    assert both.judged == {"safety": 5, "polite": 1}
    assert both.problems == {"judge": 1}
    assert (both.delivered, both.undelivered) == (1, 1)
