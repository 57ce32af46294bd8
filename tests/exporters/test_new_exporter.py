"""A new exporter is one file and one line in the registry: nothing else knows its name."""

import json
import os
import subprocess
import sys
import textwrap


FILE = '''
"""Writes the names of spans and scores to a file of its own."""
import json

from llmeval_sdk import config
from llmeval_sdk.model.protocols import BaseExporter


class Scratch(config.Table):
    path: str = config.setting("scratch.jsonl", "SCRATCH_PATH", doc="The file.")


class ScratchExporter(BaseExporter):
    name = "scratch"

    def __init__(self, settings):
        self._path = config.read(Scratch).path
        self._service = settings.service_name

    def export(self, batch):
        with open(self._path, "a") as file:
            for span in batch.spans:
                print(json.dumps([self._service, "span", span.name]), file=file)
            for event in batch.evaluations:
                print(json.dumps([self._service, "score", event.evaluation.name]), file=file)
'''
USE = """
from llmeval_sdk import registry
registry.table("exporters")["scratch"] = "scratch_exporter:ScratchExporter"  # the one line

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config.__main__ import table

with llmeval.workflow("online", request="q") as span:  # LLMEVAL_EXPORTERS names it
    span.retrieved_context = [{"content": "a roof", "score": 0.5}]
assert llmeval.flush().exporters["scratch"].delivered > 0
llmeval.evaluate(
    [{"request": "q", "retrieved_context": [{"content": "a roof", "score": 0.5}]}],
    evaluators=["context_relevance"], experiment="tried", exporters=["scratch"],
)
assert "`scratch`" in table()
"""


def test_a_new_exporter_is_one_file_and_one_line(tmp_path):
    """Online from the environment, offline in an experiment, with a setting, and in the table."""
    (tmp_path / "scratch_exporter.py").write_text(FILE)
    out = tmp_path / "out.jsonl"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "LLMEVAL_STORE": str(tmp_path / "store.db"),
        "LLMEVAL_EXPORTERS": "scratch",
        "OTEL_SERVICE_NAME": "my-app",
        "SCRATCH_PATH": str(out),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(USE)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "unknown" not in done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert ["my-app", "span", "online"] in lines
    assert ["my-app", "score", "context_relevance"] in lines
    assert ["tried", "score", "context_relevance"] in lines
    assert {service for service, _, _ in lines} == {"my-app", "tried"}
