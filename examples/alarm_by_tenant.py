"""Name the tenant whose answers fell, while the mean over all traffic still looks well.

Each tenant has an alert of its own, and at most 5 % of months hold a false alarm of any of them.
"""

import json
import random
import tempfile
import time
from pathlib import Path

from llmeval_sdk.cli import main as llmeval


HOURS, HOUR = 24 * 6, 3_600
TENANTS = ("acme", "globex", "initech", "umbrella")
chance = random.Random(5)  # noqa: S311 - no secret


def judged(tenant: str, at: float, value: str) -> dict[str, object]:
    """Return a request in the form of `llmeval export`, with a judge's verdict on it."""
    trace = f"{chance.getrandbits(128):032x}"
    began = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at))
    verdict = {
        "id": f"{trace}-g", "name": "groundedness", "value": value,
        "evaluator_kind": "judge", "evaluator_version": "1", "inclusion_probability": 1.0,
        "timestamp_ns": int(at * 1e9),
    }  # fmt: skip
    return {
        "trace_id": trace, "span_id": trace[:16], "name": "answer", "kind": "workflow",
        "start_ns": int(at * 1e9), "end_ns": int(at * 1e9) + 10**9, "start_time": began,
        "tags": {"tenant": tenant}, "evaluations": [verdict],
    }  # fmt: skip


def main() -> None:
    """Import the history of six days, and watch it as a whole and by tenant."""
    folder = Path(tempfile.mkdtemp())
    store, history = folder / "llmeval.db", folder / "history.jsonl"
    with history.open("w") as file:
        for hour in range(HOURS):
            for tenant in TENANTS * 4:
                fell = tenant == "globex" and hour > HOURS - 36
                value = "yes" if chance.random() < (0.6 if fell else 0.95) else "no"
                at = time.time() - (HOURS - hour) * HOUR - chance.random() * HOUR
                file.write(json.dumps(judged(tenant, at, value)) + "\n")
    llmeval(["import", str(history), "--store", str(store)])
    for options in ([], ["--by", "tag:tenant"]):
        print(f"\nllmeval watch --once --alert 'groundedness<0.85' {' '.join(options)}")
        alert = ["--alert", "groundedness<0.85", "--store", str(store)]
        print("exit code", llmeval(["watch", "--once", *alert, *options]))


if __name__ == "__main__":
    main()
