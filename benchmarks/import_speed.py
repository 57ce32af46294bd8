"""What importing a million spans costs, each with two evaluations, and importing them again.

A file of traces of a workflow, a retrieval, a task and a model call is written as `llmeval export`
writes it, imported into an empty store and then into the same one once more. Prints one row per
figure with the bar it has to clear, and exits 1 if one is missed.

    python -m benchmarks.import_speed [--spans 1000000]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measures import Table
from benchmarks.viewer_store import TRACE_SPANS, WORDS


BAR_SECONDS = 300
KINDS = ("workflow", "retrieval", "task", "llm")
START = 1_767_225_600_000_000_000
EVERY_NS = 50_000_000


def write_export(path, spans):
    """Write lines as `llmeval export` does, about a thousand bytes each."""
    chance = random.Random(7)
    texts = [" ".join(chance.choices(WORDS, k=60)) for _ in range(2_000)]
    with path.open("w") as file:
        for number in range(spans // TRACE_SPANS):
            trace, begin = f"{chance.getrandbits(128):032x}", START + number * EVERY_NS
            root = f"{chance.getrandbits(64):016x}"
            for place, kind in enumerate(KINDS):
                row = span_row(trace, root, place, kind, begin, chance, texts)
                file.write(json.dumps(row, separators=(",", ":")) + "\n")


def span_row(trace, root, place, kind, begin, chance, texts):
    span_id = f"{chance.getrandbits(64):016x}" if place else root
    row = {
        "request_id": span_id, "trace_id": trace, "span_id": span_id, "name": f"{kind}-step",
        "kind": kind, "start_ns": begin + place * 1_000, "end_ns": begin + place * 1_000 + 900,
        "trace_flags": 1, "request": chance.choice(texts), "start_time": "2026-01-01T00:00:00",
        "tags": {"tenant": f"t{chance.randrange(20)}"},
    }  # fmt: skip
    row |= {"parent_id": root, "within": root} if place else {"session_id": f"s{chance.random()}"}
    if kind == "retrieval":
        row["retrieved_context"] = [
            {"content": text[:120], "doc_uri": "a.md", "score": 0.5}
            for text in chance.sample(texts, 3)
        ]
    else:
        row["response"] = chance.choice(texts)
    if kind == "llm":
        row |= {"model_name": "gpt-4o", "model_provider": "openai"}
        row["usage"] = {"input_tokens": 900, "output_tokens": 120, "total_tokens": 1_020}
    row["evaluations"] = [
        {
            "name": name, "value": chance.random(), "metadata": {"why": "sampled", "chunks": 3},
            "evaluator_kind": "heuristic", "evaluator_version": "1", "duration": 0.0001,
            "inclusion_probability": 1.0, "id": f"{span_id}-{name}", "timestamp_ns": begin + 5_000,
        }
        for name in ("context_relevance", "groundedness_risk")
    ]  # fmt: skip
    return row


def run(*args):
    """Run the command; return the seconds that it took, and what it printed."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", *map(str, args)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return time.perf_counter() - begun, done.stdout


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spans", type=int, default=1_000_000)
    args = parser.parse_args()
    table = Table()
    bar = BAR_SECONDS * args.spans / 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        lines, store = Path(folder, "day.jsonl"), Path(folder, "new", "llmeval.db")
        write_export(lines, args.spans)
        table.row(
            "file of spans with two evaluations each", f"{lines.stat().st_size / 1e6:,.0f} MB"
        )
        for figure in ("import into an empty store", "the same file again"):
            before = processor_seconds()
            seconds, said = run("import", lines, "--store", store, "--json")
            table.row(figure, f"{seconds:,.0f} s", f"< {bar:,.0f} s", ok=seconds < bar)
            table.row("  of its processes", f"{processor_seconds() - before:,.0f} s")
        assert json.loads(said)["already_there"]["spans"] == args.spans // TRACE_SPANS * TRACE_SPANS
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        table.row("memory", f"{most:,.0f} MB", "< 1,000 MB", ok=most < 1_000)
        table.row("store", f"{store.stat().st_size / 1e6:,.0f} MB")
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
