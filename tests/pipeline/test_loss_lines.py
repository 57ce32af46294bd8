"""Whoever reads the log hears of what is lost: how much, why, and what helps."""

import pytest
from doubles import Hanging
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.loss_lines import LossLines, advice
from llmeval_sdk.pipeline.stats import ExporterStats, Stats
from llmeval_sdk.process import shield


@pytest.fixture
def told():
    """Return what gives the lines that losses have left."""
    shield._last_told.pop("lost records", None)
    shield.notices.clear()
    yield lambda: [each.what for each in shield.notices if each.site == "lost records"]
    shield._last_told.pop("lost records", None)


def lost(**exporters):
    return Stats(exporters={name: ExporterStats(dropped=each) for name, each in exporters.items()})


def test_one_line_has_the_numbers_the_reasons_and_what_to_set(told):
    """For all exporters together, most records first; what another process delivers is not lost."""
    stats = lost(local={"queue_full": 1_200}, otlp={"queue_full": 1_200, "exporter_full": 31, "spooled": 9})  # fmt: skip
    LossLines().look(lambda: stats)
    (line,) = told()
    assert line.startswith("queue_full 1,200 (local, otlp); exporter_full 31 (otlp) so far. ")
    assert "`llmeval agent`" in line
    assert "LLMEVAL_BACKGROUND_SHARE" in line


def test_nothing_lost_leaves_no_line_and_much_leaves_one(told):
    """However often it is looked, a minute has at most one."""
    lines = LossLines()
    lines.look(lambda: lost(local={"spooled": 3}, otlp={"http_302": 3}))  # which otlp has told
    assert told() == []
    for times in range(1, 200):
        lines._due = 0.0
        reason = ("queue_full", "exporter_full", "disk_full")[times % 3]
        lines.look(lambda reason=reason, times=times: lost(local={reason: times}))
    assert len(told()) == 1


def test_a_slow_exporter_s_losses_are_told(told, caplog):
    """They were counted and nobody heard of them."""
    hanging = Hanging()
    with runtime.isolated():
        llmeval.configure(exporters=[hanging])
        change_plan(queue_records=50)
        for number in range(500):
            with llmeval.workflow("request", request=number):
                pass
            if not number % 20:
                llmeval.flush(0.01)
        stats = llmeval.stats()
        assert sum(stats.exporters["hanging"].lost.values()) > 100
        LossLines().look(llmeval.stats)
        hanging.release.set()
    assert "exporter_full" in f"{told()} {caplog.text}"  # the worker may have looked before


def test_advice_is_about_most_of_the_losses():
    """And about judgements where all records have arrived."""
    assert "LLMEVAL_SHUTDOWN_TIMEOUT" in advice({"local": {"shutdown": 5, "queue_full": 4}})
    assert "far end" not in advice({"local": {"queue_full": 5}})
    assert "flush" in advice({})
