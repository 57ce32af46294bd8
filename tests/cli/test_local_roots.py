"""A request that another service or another library began is in every list, as one request."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from otlp_collector import running_collector


ROOT = Path(__file__).parents[2]
APP = """
import contextlib, sys
import llmeval_sdk as llmeval
from llmeval_sdk.tracing import extract

@llmeval.retrieval
def find(question):
    return [{"content": "about " + question, "chunk_id": "1", "score": 0.5}]

@llmeval.workflow
def answer(question):
    return f"slate, by {find(question)[0]['content']}"

@llmeval.workflow
def suggest(question):
    return "and what of the gutter?"

def below(kind):
    if kind == "header":
        return extract({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    from opentelemetry import propagate, trace
    from opentelemetry.sdk.trace import TracerProvider
    trace.set_tracer_provider(TracerProvider())
    caller = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"} if kind == "both" else {}
    return trace.get_tracer("server").start_as_current_span(
        "POST /ask", context=propagate.extract(caller))

with below(sys.argv[1]):
    for step in sys.argv[2:]:
        globals()[step]("which roof?")
llmeval.flush(timeout=None)
"""


@pytest.fixture
def run_app(tmp_path):
    """Run an app below something that is not ours, with ``otlp`` and ``local`` as exporters."""

    def run(kind, *steps):
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_"))
        }
        with running_collector() as collector:
            done = subprocess.run(
                [sys.executable, "-c", APP, kind, *steps],
                env={
                    **clean, "PYTHONPATH": str(ROOT), "LLMEVAL_EXPORTERS": "otlp,local",
                    "LLMEVAL_STORE": str(tmp_path / "store.db"),
                    "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                },
                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return collector.spans

    return run


@pytest.mark.parametrize("kind", ["header", "otel", "both"])
def test_a_request_below_something_that_is_not_ours_is_in_every_list(
    run_app, llmeval, tmp_path, kind
):
    """Whoever began it, the lists, the latest request and the report have it."""
    store = str(tmp_path / "store.db")
    spans = run_app(kind, "answer")
    assert all(span.parent_span_id for span in spans)
    listed = json.loads(llmeval("traces", "--store", store, "--json").stdout)
    assert [each["name"] for each in listed] == ["answer"]
    assert listed[0]["scores"]
    latest = llmeval("explain", "--last", "--store", store)
    assert latest.stdout.startswith("answer (workflow)"), latest.stdout
    assert "incomplete" not in latest.stdout
    report = llmeval("report", "--store", store, "--by", "request")
    assert "answer" in report.stdout, report.stdout


def test_two_calls_below_one_span_are_one_request(run_app, llmeval, tmp_path):
    """What a handler calls one after the other is listed once, under the name of the first."""
    run_app("otel", "answer", "suggest")
    store = str(tmp_path / "store.db")
    listed = json.loads(llmeval("traces", "--store", store, "--json").stdout)
    assert [each["name"] for each in listed] == ["answer"]


def test_a_trace_whose_request_is_missing_is_said_to_be_incomplete(store, llmeval):
    """Its spans are not called requests, and the store is not called empty."""
    store.span("00f067aa0ba902b7", "step", parent_id="cd" * 8, kind="task")
    listed = llmeval("traces", "--store", store.path)
    assert (listed.returncode, "incomplete traces" in listed.stdout) == (1, True)
    latest = llmeval("explain", "--last", "--store", store.path)
    assert (latest.returncode, "incomplete traces" in latest.stdout) == (1, True)
    assert "incomplete trace" in llmeval("explain", "00f0", "--store", store.path).stdout
