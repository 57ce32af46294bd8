"""One trace over two processes that speak HTTP, with OpenTelemetry on both sides, one, or none."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter
from llmeval_sdk.exporters.otlp.exporter import OtlpExporter
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import inject


SERVICE = Path(__file__).with_name("apps") / "service.py"


@contextlib.contextmanager
def service(kind):
    """Run the other process; gives a function that asks it."""
    with subprocess.Popen(
        [sys.executable, SERVICE, kind], stdout=subprocess.PIPE, text=True
    ) as process:
        url = process.stdout.readline().strip()

        def ask(headers):
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=20) as reply:
                return json.load(reply)

        try:
            yield ask
        finally:
            process.kill()


@pytest.fixture(scope="module")
def ours():
    with service("ours") as ask:
        yield ask


@pytest.fixture(scope="module")
def otel():
    with service("otel") as ask:
        yield ask


@pytest.fixture(scope="module")
def both():
    with service("both") as ask:
        yield ask


@pytest.fixture
def tracer(monkeypatch):
    """The app's tracer, whose provider is the global one for the test."""
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider.get_tracer("app")


@contextlib.contextmanager
def tenant():
    token = context.attach(baggage.set_baggage("tenant", "t1"))
    try:
        yield
    finally:
        context.detach(token)


def test_ours_on_both_sides(ours):
    """The callee's workflow is a child of the caller's, in the same session."""
    with capture() as seen:
        with llmeval.workflow("caller", session_id="s-1") as caller:
            headers = {}
            inject(headers)
            told = ours(headers)
        seen.drain()
    assert (told["trace"], told["parent"]) == (caller.trace_id, caller.span_id)
    assert told["session"] == "s-1"
    assert told["onward"]["baggage"] == "session.id=s-1"
    assert told["onward"]["traceparent"] == f"00-{caller.trace_id}-{told['span']}-01"


def test_opentelemetry_on_the_callers_side_only(ours, tracer):
    """Its propagators write what our extract() reads, the session in its baggage too."""
    token = context.attach(baggage.set_baggage("session.id", "s 2"))
    with tracer.start_as_current_span("GET /") as span:
        headers = {}
        propagate.inject(headers)
        told = ours(headers)
    context.detach(token)
    mine = span.get_span_context()
    assert (told["trace"], told["parent"]) == (f"{mine.trace_id:032x}", f"{mine.span_id:016x}")
    assert told["session"] == "s 2"


def test_opentelemetry_on_the_callees_side_only(otel):
    """Its server span is our child, and its own workflow is below that."""
    with capture() as seen:
        with llmeval.workflow("caller", session_id="s-3") as caller:
            headers = {}
            inject(headers)
            told = otel(headers)
        seen.drain()
    assert told["server_parent"] == caller.span_id
    assert (told["trace"], told["parent"]) == (caller.trace_id, told["server"])
    assert told["baggage"] == {"session.id": "s-3"}


@pytest.mark.parametrize("exporter", [OtlpExporter, AppOtelExporter])
@pytest.mark.parametrize("callee", ["both", "otel"])
def test_opentelemetry_on_both_sides(request, tracer, collector, callee, exporter):
    """Ours names the innermost span, theirs too, and the app's baggage goes along and on."""
    ask = request.getfixturevalue(callee)
    exporter = exporter(config.Settings(otlp_endpoint=collector.url))
    with capture(exporters=[exporter]) as seen:
        with tenant(), llmeval.workflow("caller", session_id="s-4") as caller:
            with tracer.start_as_current_span("http") as http:
                headers = {}
                inject(headers)
                told = ask(headers)
        seen.drain()
    inner = f"{http.get_span_context().span_id:016x}"
    assert told["trace"] == caller.trace_id
    assert told.get("server_parent", told["parent"]) == inner
    assert headers["baggage"] == "tenant=t1,session.id=s-4"
    if callee == "otel":
        assert told["baggage"] == {"tenant": "t1", "session.id": "s-4"}
    else:
        assert told["session"] == "s-4"
    assert set(told["onward"]["baggage"].split(",")) == {"tenant=t1", "session.id=s-4"}
