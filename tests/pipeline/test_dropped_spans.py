"""Exporters with a live span of their own hear of every span that will not be exported."""

import threading

from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk.model.protocols import BaseExporter, LiveSpans
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.intake import IntakePlan
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.process.exits import Ending
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing.internals import state


class Live(BaseExporter, LiveSpans):
    """Opens something with each span, and must close it."""

    name = "live"

    def __init__(self):
        self.open, self.exported, self.dropped = set(), set(), set()
        self.release = threading.Event()
        self.live = self

    def on_start(self, span):
        self.open.add(span.span_number)

    def on_end(self, span):
        span.context = {**(span.context or {}), "live": span.span_number}

    def on_drop(self, span):
        self.dropped.add(span.context["live"])

    def export(self, batch):
        self.release.wait(10)
        self.exported |= {span.context["live"] for span in batch.spans}


@llmeval.workflow
def call(text):
    return text


def test_every_span_is_exported_or_dropped_and_never_both():
    """Whether the app's queue was full, the exporter's, or the pipeline had ended."""
    live = Live()
    with runtime.isolated():
        llmeval.configure(exporters=[live])
        change_plan(queue_records=20)
        for number in range(500):
            call(str(number))
        pipeline = runtime.pipeline()
        live.release.set()
        llmeval.flush(10)
        assert pipeline is not None
        pipeline.shutdown(Ending.within(5))
        call("after the end")
    assert len(live.open) == 501
    assert live.dropped
    assert live.exported | live.dropped == live.open
    assert not live.exported & live.dropped


def test_what_comes_too_late_counts_as_if_it_had_come_in_time():
    """The score of a retrieval that the app has read is counted once, with its workflow."""
    with capture():
        plan = runtime.pipeline().plan
        span_processor = SpanProcessor(IntakePlan.of(plan), lambda: True, plan.find)
        state.recorder = span_processor
        with llmeval.workflow("w", request="roof?") as span:
            with llmeval.retrieval("find") as found:
                found.retrieved_context = [{"content": "slate roof", "score": 0.5}]
        scores = len(span.evaluations)
        span_processor.close()
        span_processor.sweep()
    assert scores > 0
    assert span_processor.spans.value == 2
    assert span_processor.evaluations.snapshot() == {"inline": scores}
    assert span_processor.dropped.snapshot() == {"shutdown": 2 + scores}
