"""A function that runs in a process of its own, which a test freezes and thaws."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from otlp_collector import running_collector


FUNCTION = Path(__file__).parent / "apps" / "function.py"


class Function:
    """A running function."""

    def __init__(self, process):
        self._process = process
        self.pid = process.pid
        self.questions = []
        """What all invocations asked."""

    def invoke(self, *, flush=True, left_ms=60_000, **event):
        """Have the function handle one event, and return what came of it."""
        question = f"What is roof {len(self.questions)} made of?"
        self.questions.append(question)
        event = {"question": question, "flush": flush, "left_ms": left_ms, **event}
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the function has ended"
        report = json.loads(line)
        assert report["result"] == "The roof is made of slate."
        return report

    def freeze(self):
        """Stop all threads, and return when they stand still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self):
        """Let all threads go on."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self):
        """Close stdin, wait for the end, and return what was written to stderr."""
        _, errors = self._process.communicate(timeout=30)
        assert self._process.returncode == 0, errors
        return errors


@pytest.fixture
def collector():
    """Return a collector that decodes and counts what arrives."""
    with running_collector() as running:
        yield running


@pytest.fixture
def function(collector, tmp_path):
    """Return a context manager that runs a function which sends to the collector."""

    @contextmanager
    def run(*, timeout=10.0, cwd=tmp_path, **environment):
        process = subprocess.Popen(
            [sys.executable, FUNCTION, str(timeout)],
            env={
                **os.environ,
                "LLMEVAL_MODE": "serverless",
                "LLMEVAL_EXPORTERS": "otlp",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                **environment,
            },
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Function(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    return run
