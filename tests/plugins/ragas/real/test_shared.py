"""The workers of a host share one child, which ends when nobody has asked it for a while."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.plugins.ragas import runner


ROOT = Path(__file__).resolve().parents[4]
WORKER = """
    import json, os, sys
    import llmeval_sdk as llmeval
    from llmeval_sdk.exporters import memory

    def serve():
        with llmeval.workflow("flow", request="how old?") as span:
            span.response, span.retrieved_context = "a", ["useful", "not"]
        llmeval.flush(60)
        scores = [e.evaluation for e in memory.evaluations()]
        (value,) = [e.value for e in scores if e.name == "ragas_context_precision"]
        print(value, flush=True)
        sys.stdin.readline()  # stay, as a worker of a server does
        os._exit(0)

    if sys.argv[1] == "forked" and os.fork() == 0:
        serve()
    serve()
"""
pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc"),
    pytest.mark.timeout(180),  # a start imports Ragas: seconds, on a busy machine many
]


def children(folder):
    """Return the processes that are the child of apps with a store in this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            command = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        told = [
            json.loads(text) for text in command if text.startswith(b"{") and b"address" in text
        ]
        if told and told[0]["shared_by"] == str(folder):
            found.append(int(each.name))
    return found


def eventually(condition, within=60.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_of_a_host_share_one_child(tmp_path, model):
    """A forked pair and a process of its own, all judging at once into one store."""
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": model.base_url, "LLMEVAL_EXPORTERS": "memory",
        "LLMEVAL_STORE": str(tmp_path / "llmeval.db"),
        "DD_LLMOBS_EVALUATORS": "ragas_context_precision",
    }  # fmt: skip
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), kind],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for kind in ("forked", "alone")
    ]  # fmt: skip
    try:
        said = [workers[0].stdout.readline() for _ in range(2)] + [workers[1].stdout.readline()]
        assert said == ["0.5\n"] * 3
        assert len(children(tmp_path)) == 1
    finally:
        for worker in workers:
            worker.communicate("\n\n")
    eventually(lambda: not children(tmp_path))  # nobody is left: no need to stay idle for long


def test_an_idle_child_ends_beside_the_app_and_comes_back_with_the_next_job(
    tmp_path, model, monkeypatch
):
    """After five minutes without a job, which are shorter here."""
    monkeypatch.setattr(runner, "IDLE_SECONDS", 1.5)
    with testing.capture(
        evaluators=["ragas_context_precision"], escalations=[], judge_model="m",
        judge_base_url=model.base_url, judge_worker="process",
        store=str(tmp_path / "llmeval.db"),
    ) as seen:  # fmt: skip
        for question in ("first", "second"):
            with llmeval.workflow("flow", request=question) as span:
                span.response, span.retrieved_context = "a", ["useful"]
            seen.drain(60)
            eventually(lambda: not children(tmp_path))
    values = [
        event.evaluation.value
        for event in seen.evaluations
        if event.evaluation.name == "ragas_context_precision"
    ]
    assert values == [1.0, 1.0]
