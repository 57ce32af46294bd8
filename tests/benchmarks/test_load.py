"""`make bench-load`: every row does its work, by the SDK that it names, and reads what it measures."""

import argparse
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.load import child as child_process
from benchmarks.load import serving
from benchmarks.load.bench import Bench
from benchmarks.load.child import estimate, stored
from benchmarks.peers import sink


ROOT = Path(__file__).parents[2]
LITTLE = {
    "scored": {"requests": 1, "seed": 1},
    "alone": {"seconds": 0.01, "seed": 1, "heuristics": "off"},
    "delivery": {"rate": 100, "seconds": 0.1, "exporters": ["local"]},
    "burst": {"spans": 20, "seconds": 0.1},
    "hints": {},
    "overload": {"rate": 20, "seconds": 0.2, "seed": 1},
    "stored_bytes": {"requests": 2, "seed": 1, "repeated": True},
}


@pytest.fixture
def far_end():
    with sink.running() as url:
        yield url


@pytest.fixture
def child(tmp_path, far_end):
    """Return what runs a row of the benchmark in a process of its own, with a store of its own."""

    def run(row, package=ROOT):
        store = str(tmp_path / "store.db")
        settings = {"LLMEVAL_STORE": store, "OTEL_EXPORTER_OTLP_ENDPOINT": far_end}
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.load.child", str(package), row, json.dumps(LITTLE[row])],
            cwd=ROOT, env=settings, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("row", LITTLE)
def test_a_row_does_its_work(child, row):
    """It prints figures above nothing, and loses nothing of so little."""
    done = child(row)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures
    for name, value in figures.items():
        if name != "delivered":  # of so few, none may be there yet
            assert bool(value) == (name not in ("broken", "dropped", "lost")), figures


def test_a_package_from_elsewhere_is_not_measured_by_mistake(child, tmp_path):
    """A folder that holds none would else be set beside itself."""
    done = child("hints", package=tmp_path)
    assert done.returncode
    assert "was imported in place of" in done.stderr


def test_what_is_stored_is_weighted_by_the_chance_of_its_trace(tmp_path, monkeypatch):
    """A trace with a chance of a half stands for two; a short one that lacks a span is broken."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as store:
        store.execute(
            "CREATE TABLE spans"
            " (trace_id, kind, input_tokens, inclusion_probability REAL, start_ns, end_ns)"
        )
        for trace, chance in (("a", None), ("b", 0.5)):
            for kind, tokens in (("workflow", None), ("retrieval", None), ("llm", 10)):
                store.execute(
                    "INSERT INTO spans VALUES (?, ?, ?, ?, 0, 1)", (trace, kind, tokens, chance)
                )
        for trace, seconds in (("short", 1), ("long", 6)):
            store.execute(
                "INSERT INTO spans VALUES (?, 'llm', 5, NULL, 0, ?)", (trace, seconds * 10**9)
            )
        store.commit()
    monkeypatch.setattr(child_process, "STORE", path)
    told = stored()
    assert (told["traces"], told["broken"]) == (4, 1)
    assert told["requests_told"] == (3.0, pytest.approx(2.576 * 2**0.5))
    assert told["tokens_told"][0] == 10 + 10 / 0.5 + 5 + 5


def test_a_total_of_which_nothing_was_left_out_is_exact():
    assert estimate([(2, 1.0), (3, 1.0)]) == (5.0, 0.0)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("variant", ["ours", "agent"])
def test_the_service_is_measured(variant, tmp_path, far_end):
    """Every request is answered, and all are delivered in the end, by the process that is told."""
    pytest.importorskip("fastapi")
    run = serving.Run()
    bench = Bench(None, argparse.Namespace(quick=True, long=False), tmp_path, far_end)
    serving.serve(bench, variant, run, 0.5, seed=1)
    assert (run.failed, run.dropped, run.at_last) == (0, {}, run.requests)
    assert all((run.requests, run.cpu, run.store_bytes, run.otlp_bytes))
    assert bool(run.agent_cpu) == (variant == "agent")
