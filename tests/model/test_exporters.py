"""An exporter has the parts it derives from; those of the old shape work with a warning."""

import threading

import pytest
from doubles import Exporter as Smallest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import protocols
from llmeval_sdk.model.protocols import BaseExporter, ContextBridge, LiveSpans, complete_exporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process.exits import Ending
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import extract, inject


def request(text="q"):
    with llmeval.workflow("w", request=text) as span:
        span.response = "answer"
    return span


class Whole(BaseExporter, LiveSpans, ContextBridge):
    """Uses every part, and writes down what is called."""

    name = "whole"
    keeps_foreign = True

    def __init__(self):
        self.calls, self.spans, self.services = [], [], None
        self.live = self.bridge = self

    def connect(self, services):
        self.calls.append("connect")
        self.services = services

    def export(self, batch):
        self.spans += batch.spans

    def flush(self, timeout):
        self.calls.append("flush")

    def close(self, timeout):
        self.calls.append("close")

    def on_start(self, span):
        self.calls.append("on_start")

    def on_end(self, span):
        self.calls.append("on_end")

    def ids_of(self, span):
        return {"trace_id": "theirs", "span_id": span.span_id}

    def read_ids(self, trace_id, span_id):
        return ("ours" if trace_id == "theirs" else trace_id), span_id

    def inject(self, headers):
        headers["x-theirs"] = "1"

    def extract(self, headers):
        self.calls.append("extract")
        return "before"

    def put(self, context):
        self.calls.append(("put", context))


def test_the_smallest_exporter_needs_four_members_and_no_base():
    """It gets everything, and nobody warns about it."""
    smallest = Smallest()
    with capture(exporters=[smallest]) as seen:
        request()
        seen.drain()
    assert [span.name for span in smallest.spans] == ["w"]
    assert smallest.closed


def test_every_part_of_an_exporter_is_called():
    """Live spans, the bridge, the services and the end."""
    whole = Whole()
    with capture(exporters=[whole]) as seen:
        with llmeval.workflow("w", request="q") as span:
            assert llmeval.export_span() == {"trace_id": "theirs", "span_id": span.span_id}
            headers = {}
            inject(headers)
        with extract({"baggage": "a=1"}):
            pass
        seen.drain()
        assert whole.services.losses() == {}
        assert whole.services.redaction.detect("plain") == "plain"
    assert headers["x-theirs"] == "1"
    assert whole.calls[:3] == ["connect", "on_start", "on_end"]
    assert {"extract", ("put", "before"), "flush", "close"} <= set(whole.calls)
    assert [span.name for span in whole.spans] == ["w"]


def test_the_parts_that_are_not_overridden_do_nothing():
    """A base by itself changes neither spans nor headers."""

    class Idle(BaseExporter, LiveSpans, ContextBridge):
        name = "idle"

        def __init__(self):
            self.live = self.bridge = self

        def export(self, batch):
            pass

    with capture(exporters=[Idle()]) as seen:
        with (
            llmeval.workflow("w", request="q") as span,
            llmeval.annotation_context(tags={"a": "1"}),
        ):
            with llmeval.task("l", request="q") as inner:
                inner.annotate(prompt="p", session_id="s")
            assert llmeval.export_span() == {"trace_id": span.trace_id, "span_id": span.span_id}
            headers = {}
            inject(headers)
            with extract({"baggage": "a=1"}):
                pass
        stats = seen.drain()
    assert set(headers) == {"traceparent"}
    assert seen.span("l").parent_id == seen.span("w").span_id
    assert stats.exporters["idle"].delivered > 0


def test_nobody_calls_what_an_exporter_without_the_base_has_besides_the_four():
    """Its other methods are its own: none is looked for by name."""
    calls = []

    class Larger(Smallest):
        def on_start(self, span):
            calls.append("on_start")

        def connect(self, services):
            calls.append("connect")

    with capture(exporters=[larger := Larger()]) as seen:
        request()
        seen.drain()
    assert len(larger.spans) == 1
    assert calls == []


def test_an_exporter_stays_open_when_it_is_configured_again():
    """The same object in the next configuration is not closed by the end of the one before."""
    smallest = Smallest()
    assert complete_exporter(smallest) == complete_exporter(smallest)
    with runtime.isolated():
        llmeval.configure(exporters=[smallest])
        request("1")
        llmeval.flush()
        retired = runtime.pipeline()
        llmeval.configure(exporters=[smallest], background_share=0.4)
        retired.shutdown(Ending.within(10))
        assert not smallest.closed
        request("2")
        llmeval.flush()
    assert [span.request for span in smallest.spans] == ["1", "2"]
    assert smallest.closed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(object(), "lacks name, export, flush, close"), (Smallest, "pass an instance"), (Whole, "pass an instance")],
)  # fmt: skip
def test_what_is_no_exporter_is_refused(wrong, says):
    """While a person is watching, with what is missing."""
    with runtime.isolated(), pytest.raises(ConfigurationError, match=says):
        llmeval.configure(exporters=[wrong])


def test_a_base_without_export_loses_its_batches_by_name():
    """Whoever forgets to write it sees why in the counters."""
    with capture(exporters=[BaseExporter()], raise_again=False) as seen:
        request()
        stats = seen.drain()
    assert stats.exporters["?"].dropped["NotImplementedError"] > 0


def test_a_connect_that_fails_does_not_keep_the_app_from_starting():
    """It is counted, and the exporter is used all the same."""

    class Unconnected(Whole):
        def connect(self, services):
            raise RuntimeError("no")

    exporter = Unconnected()
    with capture(exporters=[exporter], raise_again=False) as seen:
        request()
        stats = seen.drain()
    assert stats.problems["exporter whole"] >= 1
    assert [span.name for span in exporter.spans] == ["w"]


def test_each_public_part_is_documented():
    """What it is for, and for each method what it does."""
    for name in protocols.__all__:
        part = getattr(protocols, name)
        if isinstance(part, type):
            assert part.__doc__
            own = [each for key, each in vars(part).items() if callable(each) and key[0] != "_"]
            assert all(each.__doc__ for each in own), name


def test_live_spans_are_called_on_the_thread_of_the_app():
    """Batches come from a thread of the exporter's own."""
    threads = {}

    class Noting(Whole):
        def on_start(self, span):
            threads["on_start"] = threading.current_thread()

        def export(self, batch):
            threads["export"] = threading.current_thread()

    with capture(exporters=[Noting()]) as seen:
        request()
        seen.drain()
    assert threads["on_start"] is threading.current_thread()
    assert threads["export"].name == "llmeval-whole"
    assert threads["export"].daemon
