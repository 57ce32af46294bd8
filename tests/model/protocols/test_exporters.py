"""An exporter has the parts it derives from; those of the old shape work with a warning."""

import os
import threading

import pytest
from doubles import Exporter as Smallest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import protocols
from llmeval_sdk.model.protocols import BaseExporter, ContextBridge, LiveSpans, complete_exporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.runtime import _lifecycle
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


class Former:
    """The shape of 0.1: what it has beside the smallest four was looked for by name."""

    name = "former"
    gives_ids = keeps_foreign = True
    in_memory = 7

    def __init__(self):
        self.calls, self.spans = [], []
        self.before_exit = self.lost = self.redactor = None
        self.surroundings = self

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

    def on_drop(self, span):
        self.calls.append("on_drop")

    def after_fork(self):
        self.calls.append("after_fork")

    def use_redactor(self, redactor):
        self.redactor = redactor

    def at_exit_signal(self, deliver):
        self.calls.append("at_exit_signal")

    def at_flush(self, deliver):
        self.calls.append("at_flush")

    def parent(self):
        return (1, 2, 1)

    def get(self):
        return None

    def put(self, context):
        pass

    def ids_of(self, span):
        return {"trace_id": "theirs", "span_id": "theirs"}


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


def test_an_exporter_of_the_former_shape_keeps_working_and_says_what_to_do():
    """All of what was found by name still is, with one warning at the line that configured it."""
    former = Former()
    with runtime.isolated():
        with pytest.warns(DeprecationWarning, match="BaseExporter") as warned:
            llmeval.configure(exporters=[former])
        span = request()
        assert llmeval.export_span(span) == {"trace_id": "theirs", "span_id": "theirs"}
        stats = llmeval.flush()
        assert former.before_exit is _lifecycle.at_exit
        assert former.lost() == {}
        assert former.redactor.detect("plain") == "plain"
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert "on_start" in str(warned[0].message)
    assert "0.4" in str(warned[0].message)
    assert [each.trace_id for each in former.spans] == [f"{1:032x}"]
    assert {"at_exit_signal", "at_flush", "on_start", "on_end", "flush", "close"} <= {*former.calls}
    assert stats.exporters["former"].in_memory == 7


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_former_exporter_begins_anew_in_a_child():
    """Its ``after_fork`` is called there, and only there."""
    former = Former()
    with runtime.isolated():
        with pytest.warns(DeprecationWarning, match="after_fork"):
            llmeval.configure(exporters=[former])
        request()
        child = os.fork()
        if child == 0:
            os._exit(0 if "after_fork" in former.calls else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert "after_fork" not in former.calls


def test_an_exporter_stays_open_when_it_is_configured_again():
    """The same object in the next configuration is not closed by the end of the one before."""
    smallest = Smallest()
    assert complete_exporter(smallest) == complete_exporter(smallest)
    with runtime.isolated():
        llmeval.configure(exporters=[smallest])
        request("1")
        llmeval.flush()
        retired = runtime.pipeline()
        llmeval.configure(exporters=[smallest])
        retired.shutdown(10)
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
