"""A store in which an inclusion probability is none, which only a file made by hand is."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.store.writer import StoreWriter


DAY_NS = 86_400_000_000_000


@pytest.fixture
def path(tmp_path):
    """Return a store with verdicts of two releases, and free scores beside them."""
    path = tmp_path / "store.db"
    spans, events = [], []
    for number in range(60):
        begin = time.time_ns() - 3 * DAY_NS + number * 1_000_000_000
        span = SpanData(
            f"{number:032x}", f"{number:016x}", None, "answer", "workflow", begin, begin + 1_000,
            tags={"release": "ab"[number % 2]},
        )  # fmt: skip
        spans.append(span)
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        for name, kind in (("extraction_risk", "heuristic"), ("extraction_correctness", "judge")):
            outcome = Evaluation(name, number % 3 / 2, evaluator_kind=kind)
            events.append(EvaluationEvent(f"{number}-{name}", target, outcome, span.end_ns))
    with closing(StoreWriter(path, max_days=0)) as writer:
        writer.write(Batch(tuple(spans), tuple(events)))
    return path


@pytest.mark.parametrize("chance", ["half", float("inf"), -1, b"1"])
@pytest.mark.parametrize(
    "command",
    [
        ("report", "--json"),
        ("compare", "--by", "tag:release", "--json"),
        ("watch", "--once", "--json", "--alert", "extraction_correctness<0.9"),
    ],
)
@pytest.mark.plugin("watch")
def test_no_command_breaks_off_over_it(llmeval, path, command, chance):
    """Such a verdict counts as one without an inclusion probability."""
    with closing(sqlite3.connect(path)) as store:
        store.execute("UPDATE evaluations SET inclusion_probability = ?", (chance,))
        store.commit()
    done = llmeval(*command, "--store", path)
    assert done.stderr == ""
    assert json.loads(done.stdout)


@pytest.mark.parametrize("chance", [None, float("inf"), -1, 0])
def test_an_evaluation_whose_chance_nobody_knows_is_explained(llmeval, path, chance):
    """The rest of what is stored of it is shown, and the chance is said to be unknown."""
    with closing(sqlite3.connect(path)) as store:
        store.execute(
            "INSERT INTO feedback SELECT * FROM evaluations WHERE name = 'extraction_risk'"
        )
        for table in ("evaluations", "feedback"):
            store.execute(f"UPDATE {table} SET inclusion_probability = ?", (chance,))
        store.commit()
    done = llmeval("explain", "--last", "--store", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "chance to run unknown" in done.stdout
    as_json = llmeval("explain", "--last", "--store", path, "--json")
    assert json.loads(as_json.stdout)
