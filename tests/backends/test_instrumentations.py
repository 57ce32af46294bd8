"""Model calls that real libraries instrument become one Record each, in two lines.

Each library runs in a process of its own, in the environment that `make test-backends` builds: all
of them patch the client.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).with_name("apps") / "instrumented.py"
CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Which roof?"},
    ]
}
WAYS = ("plain", "stream", "async")


def records(library, way):
    """Run the app and return the records it saw."""
    environment = "mlflow" if library.startswith("mlflow") else "instrumented"
    python = Path(os.environ["BACKENDS"]).resolve() / environment / "bin" / "python"
    done = subprocess.run(
        [python, APP, library, way],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "library", ["opentelemetry", "traceloop", "openinference", "logfire", "mlflow"]
)
def test_a_model_call_is_one_record_whoever_traced_it(library, way):
    """Question, answer, tokens and model, of plain and streamed calls."""
    (record,) = records(library, way)
    assert record["request"] == CHAT
    assert (record["response"], record["tokens"], record["kind"]) == ("Slate.", [5, 1], "llm")
    assert record["about"]["model_name"] in ("stand-in", "gpt-4o")


def test_without_content_on_the_span_there_are_tokens_and_a_model():
    """OpenTelemetry's own writes no messages unless it is asked to."""
    (record,) = records("opentelemetry_without_content", "plain")
    assert (record["request"], record["response"]) == (None, None)
    assert (record["tokens"], record["about"]["model_name"]) == ([5, 1], "stand-in")


def test_mlflow_keeps_its_spans_unless_it_is_told_to_share_the_apps_provider():
    """Why ``MLFLOW_USE_DEFAULT_TRACER_PROVIDER=false`` belongs to the two lines there."""
    assert records("mlflow_own_provider", "plain") == []
