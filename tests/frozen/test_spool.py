"""What a process of the first release left in its spool is delivered by today's.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` accepts a change of what is delivered; the spool
of a release is never written again (``write_fixtures.py`` says how it was).
"""

import json
import os
import subprocess
import sys


SUBMITTED = ("checked", "helpful")
"""Evaluations that the app made itself."""


def delivered(spool, store, command):
    """Drain the spool as `llmeval agent --once` does; return what it said, and what was stored."""
    environment = {
        **os.environ, "LLMEVAL_SPOOL": str(spool), "LLMEVAL_STORE": str(store),
        "LLMEVAL_STORE_MAX_DAYS": "100000",  # what is delivered here is weeks old, and is kept
    }  # fmt: skip
    agent = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "agent", "--once"],
        env=environment, capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert agent.returncode == 0, agent.stderr
    rows = [json.loads(line) for line in command("export", "--store", store).splitlines()]
    return agent.stdout, rows


def test_the_agent_delivers_the_same(frozen, spool, command, tmp_path):
    """Each span with each field, and what the app submitted.

    What the agent itself scores is named only, because a score may be fitted anew.
    """
    store = tmp_path / "delivered" / "store.db"
    said, rows = delivered(spool, store, command)
    assert "took 25 records" in said
    assert "left 0 in the spool" in said
    for row in rows:
        scores = row.pop("evaluations", [])
        row["submitted"] = [each for each in scores if each["name"] in SUBMITTED]
        row["scored"] = sorted(each["name"] for each in scores)
        for refusal in row.get("not_run", ()):
            del refusal["timestamp_ns"]
    frozen("spool_delivered.jsonl", sorted(rows, key=lambda row: row["start_ns"]))
    summary = json.loads(command("report", "--store", store, "--json"))
    scores = [[each["evaluator"], each["span_name"], each["count"]] for each in summary["scores"]]
    frozen("spool_scores.jsonl", scores)


def test_nothing_is_left_or_lost(spool, command, tmp_path):
    """The file is gone once all of it was delivered; a second agent finds nothing."""
    store = tmp_path / "delivered" / "store.db"
    _, rows = delivered(spool, store, command)
    assert list(spool.iterdir()) == []
    said, again = delivered(spool, store, command)
    assert "took 0 records" in said
    assert again == rows
