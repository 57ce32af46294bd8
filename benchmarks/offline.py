"""What evaluating a data set costs: rows a second and memory, and judges beside a bare client.

The metadata heuristics read a million rows from Parquet, which are spilled; `correctness` judges
rows against a server that answers after 50 ms, in a process of its own, beside a bare
``AsyncOpenAI`` loop that sends the same prompts in the same run. Prints one row per figure with the
bar it has to clear, and exits 1 if one is missed.

    python -m benchmarks.offline [--rows 1000000] [--judged 10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai
import pyarrow as pa
import pyarrow.parquet as pq

import llmeval_sdk as llmeval
from benchmarks.judging import CONCURRENCY, Keep
from benchmarks.loopback import running
from benchmarks.measures import Table
from llmeval_sdk import registry
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.prompt import YES_NO


HEURISTICS = [
    "context_relevance",
    "context_precision",
    "context_recall_heuristic",
    "recall_warning",
    "aggregated_confidence",
    "multi_source_agreement",
    "agreement_pattern",
]
TEXT = "The mill at the river was built in 1786 and its wheel is made of oak. " * 4


def extraction(number, chance):
    """One row of an extraction app: five chunks of 280 characters by two methods, two values."""
    return {
        "request_id": f"r{number}",
        "request": f"When was mill {number} built?",
        "response": "1786",
        "retrieved_context": [
            {
                "content": f"{number}/{n} {TEXT}",
                "chunk_id": f"c{chance.randrange(8)}",
                "score": chance.random(),
                "page": chance.randrange(40),
                "retrieval_method": ("bm25", "knn")[n % 2],
            }
            for n in range(5)
        ],
        "extractions": [
            {"value": "1786", "chunk_number": chance.randrange(1, 6)},
            {"value": chance.choice(["1786", "1790"]), "chunk_number": chance.randrange(1, 6)},
        ],
    }


def write_parquet(path, count):
    chance = random.Random(7)
    writer = None
    for begin in range(0, count, 10_000):
        rows = [extraction(n, chance) for n in range(begin, min(begin + 10_000, count))]
        table = pa.Table.from_pylist(rows)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=10_000)
    writer.close()


def resident(field):
    """Return a memory figure of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def heuristics(path, count):
    """Evaluate the file in this process; prints rows a second and memory, for the parent."""
    begun, cpu = time.perf_counter(), time.process_time()
    report = llmeval.evaluate(path, evaluators=HEURISTICS, progress=False)
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    assert len(report.rows) == count, len(report.rows)
    assert report.counts["context_relevance"]["evaluated"] == count
    assert report.rows[count // 2].record.request_id == f"r{count // 2}"
    assert report.rows[0].evaluations["context_relevance"].value is not None
    print(count / took, count / cpu, resident("VmHWM"))


def free(table, folder, count):
    path = Path(folder) / "rows.parquet"
    figures = {}
    for rows in (count // 10, count):
        write_parquet(path, rows)
        command = [sys.executable, "-m", "benchmarks.offline", "--child", str(path), str(rows)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        figures[rows] = tuple(map(float, said.split()))
    rate, unhindered, memory = figures[count]
    size = path.stat().st_size / 1e6
    table.row(f"{count:,} rows x {len(HEURISTICS)} heuristics, Parquet of {size:.0f} MB", "")
    table.row("rows a second, one process", f"{rate:,.0f}", ">= 5,000", ok=rate >= 5_000)
    table.row("rows a CPU second: what a machine without other load does", f"{unhindered:,.0f}")
    table.row("largest memory", f"{memory:.0f} MB", "< 600 MB", ok=memory < 600)
    before = figures[count // 10][2]
    table.row(f"the same with {count // 10:,} rows", f"{before:.0f} MB")


def golden(count, first=0):
    return [
        {
            "request": f"When was mill {number} built?",
            "response": f"Mill {number} was built in 1786. {TEXT}",
            "expected_response": f"In 1786 ({number}).",
        }
        for number in range(first, first + count)
    ]


def messages_of(row):
    keep = Keep()
    record = llmeval.Record(**row)
    asyncio.run(registry.evaluator("correctness").evaluate(record, keep))
    return [{"role": turn.role, "content": turn.content} for turn in keep.messages]


async def bare(url, prompts):
    """Call the client from as many workers as judgements may run; return calls a second."""
    form = {
        "type": "json_schema",
        "json_schema": {"name": "verdict", "strict": True, "schema": YES_NO.schema},
    }
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        waiting = iter(prompts)

        async def work():
            for messages in waiting:
                await client.chat.completions.create(
                    model="loopback",
                    messages=messages,
                    response_format=form,
                    max_tokens=1024,
                    temperature=0,
                )

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        return len(prompts) / (time.perf_counter() - begun)


def ours(url, rows):
    """Evaluate rows with `correctness`; return rows a second, reading and summing up included."""
    begun = time.perf_counter()
    report = llmeval.evaluate(
        rows,
        evaluators=["correctness"],
        llm=OpenAILLM("loopback", base_url=url, api_key="k"),
        concurrency=CONCURRENCY,
        progress=False,
    )
    took = time.perf_counter() - begun
    assert report.counts["correctness"]["evaluated"] == len(rows), report.reasons
    return len(rows) / took


def judged(table, folder, count, rounds):
    pairs = []
    with running() as url:
        os.chdir(folder)  # the verdicts are kept below it
        asyncio.run(bare(url, list(map(messages_of, golden(CONCURRENCY)))))
        ours(url, golden(CONCURRENCY))
        for number in range(rounds):
            rows = golden(count, first=(number + 1) * count)
            prompts = list(map(messages_of, rows))
            pairs.append((asyncio.run(bare(url, prompts)), ours(url, rows)))
    share = statistics.median(other / one for one, other in pairs)
    bare_rate, our_rate = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    table.row(
        f"bare AsyncOpenAI loop, {count:,} calls, {CONCURRENCY} at a time", f"{bare_rate:.0f}/s"
    )
    table.row("evaluate() with correctness, verdicts cached", f"{our_rate:.0f}/s")
    table.row("share of the bare loop's rate", f"{share:.1%}", ">= 95%", ok=share >= 0.95)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--judged", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("FILE", "ROWS"))
    options = parser.parse_args()
    if options.child:
        heuristics(options.child[0], int(options.child[1]))
        return
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        free(table, folder, options.rows)
        judged(table, folder, options.judged, options.rounds)
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
