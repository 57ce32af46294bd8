"""An import of history raises no alarm for hours that were counted long ago."""

import json

from raw_store import HOUR


ALERT = ("--alert", "groundedness<0.9")


def write_history(path, traffic, hours, value):
    """Write lines of `export`: twenty verdicts in each of the hours so many before now."""
    with path.open("w") as file:
        for hour in hours:
            for _ in range(20):
                at = traffic.now - hour * HOUR + traffic.rng.randrange(HOUR)
                span_id = f"{traffic.rng.getrandbits(64):016x}"
                verdict = {
                    "name": "groundedness", "value": value, "evaluator_kind": "judge",
                    "inclusion_probability": 0.5, "id": f"{span_id}-g", "timestamp_ns": at,
                }  # fmt: skip
                row = {
                    "trace_id": span_id * 2, "span_id": span_id, "name": "answer",
                    "kind": "workflow", "start_ns": at, "end_ns": at, "evaluations": [verdict],
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")


def test_imported_verdicts_are_not_late_ones(llmeval, watch, traffic, tmp_path):
    """What the alarm has counted stays as it was counted, however bad the history is."""
    traffic.hours(100, 1, 0.02)
    assert watch(*ALERT).returncode == 0
    write_history(tmp_path / "bad.jsonl", traffic, range(90, 2, -1), "no")
    assert llmeval("import", "bad.jsonl", "--store", traffic.path).returncode == 0
    done = watch(*ALERT, "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["alerts"][0]["state"] == "calm"


def test_a_first_look_counts_imported_hours_like_any(llmeval, tmp_path, traffic):
    """The times are those of the file, so that a drop is found where it was."""
    write_history(tmp_path / "good.jsonl", traffic, range(100, 30, -1), "yes")
    write_history(tmp_path / "bad.jsonl", traffic, range(30, 2, -1), "no")
    for name in ("good.jsonl", "bad.jsonl"):
        assert llmeval("import", name, "--store", "archive/llmeval.db").returncode == 0
    done = llmeval("watch", "--once", *ALERT, "--store", "archive/llmeval.db")
    assert done.returncode == 1, done.stdout
    assert "ALARM groundedness<0.9" in done.stdout
