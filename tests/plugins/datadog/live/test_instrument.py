"""Beside LLM Observability, ddtrace's own integrations trace a client, and a call counts once."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest


WITHOUT_AGENT = {
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:9",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_CRASHTRACKING_ENABLED": "false",
}
APP = Path(__file__).parent / "apps" / "instrumented.py"


def run(folder, way, theirs):
    """Run the app without an agent, and return what it evaluated and the spans in its store."""
    store = folder / "store.db"
    ended = subprocess.run(
        [sys.executable, str(APP), way, theirs, str(store)],
        env={**os.environ, **WITHOUT_AGENT},
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    with closing(sqlite3.connect(store)) as opened:
        spans = opened.execute("SELECT name, kind, total_tokens FROM spans").fetchall()
    return json.loads(ended.stdout.splitlines()[-1]), spans, ended.stderr


@pytest.mark.parametrize("way", ["before", "after"])
@pytest.mark.parametrize("theirs", ["patches", "patches-nothing"])
def test_ddtrace_traces_an_instrumented_client(tmp_path, way, theirs):
    """Whether `instrument` came before or after LLM Observability; without an agent, too."""
    if way == "before":
        pytest.importorskip("openinference.instrumentation.openai")
    records, spans, said = run(tmp_path, way, theirs)
    # The call that turns ddtrace's integration on is ours: ddtrace does not see it yet.
    first = "ChatCompletion" if (way, theirs) == ("before", "patches-nothing") else "openai.request"
    assert records == [["llm", 7]] * 2
    assert sorted(spans) == [(first, "llm", 7), ("openai.request", "llm", 7)]
    assert "ddtrace's own integration traces the client" in said


@pytest.mark.parametrize(
    ("theirs", "name"), [("patches", "openai.request"), ("patches-nothing", "ChatCompletion")]
)
def test_a_wrapped_client_is_traced_by_ddtrace_or_by_us(tmp_path, theirs, name):
    """Nothing is patched for it: where ddtrace has patched nothing either, the call is ours."""
    pytest.importorskip("openinference.instrumentation.openai")
    records, spans, _ = run(tmp_path, "wrapped", theirs)
    assert records == [["llm", 7]] * 2
    assert spans == [(name, "llm", 7)] * 2
