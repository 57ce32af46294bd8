"""What keeping a record in the spool costs the caller, beside ``os.write`` of the same bytes.

Each figure is taken alone and beside a thread that computes, which is when a system call costs
milliseconds: it gives up the GIL and has to wait for it. Sizes are those of the app's text.
Medians of nine runs.

    python -m benchmarks.spool
"""

import argparse
import os
import sys
import tempfile
import threading
from functools import partial
from statistics import median
from time import perf_counter_ns

from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.spool import Folder
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import Spec


BAR_US = 8.0
RUNS = 9
SIZES = (300, 2_000, 20_000)
SENTENCE = "The roof of the barn in Nieuwpoort is covered with slate (2019), says page 12. "


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=36_000)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(dir=".") as folder:
        rows = list(measure(folder, rounds))
    print("| what | size | beside | p50 µs | p99 µs |\n| --- | --- | --- | --- | --- |")
    for what, size, beside, (p50, p99) in rows:
        print(f"| {what} | {size} B | {beside} | {p50:.1f} | {p99:.1f} |")
    worst = max(times[1] for what, size, _, times in rows if (what, size) == ("spool", 2_000))
    print(f"\nspool, 2,000 B, p99: {worst:.1f} µs (bar: < {BAR_US:g})")
    return 0 if worst < BAR_US else 1


def measure(folder, rounds):
    privacy = Privacy(Redactor(("api_key", "jwt")), content=True)
    spooling = Spooling(
        Folder(f"{folder}/spool", file_bytes=16 << 20, max_bytes=1 << 30),
        (), pack=privacy.pack, unpack=privacy.unpack, left=False, living=False,
    )  # fmt: skip
    plain = os.open(f"{folder}/plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for beside in ("nothing", "busy thread"):
        stop = threading.Event()
        if beside != "nothing":
            threading.Thread(target=compute, args=(stop,), daemon=True).start()
        for size in SIZES:
            span = finished(size)
            record = privacy.pack(span)
            yield "spool", size, beside, timed(partial(spooling.keep, span), rounds, forget)
            yield "os.write", size, beside, timed(partial(os.write, plain, record), rounds // 10)
            os.ftruncate(plain, 0)
        stop.set()
    os.close(plain)
    spooling.close(delivered=True)


def finished(size):
    """Make a span with a prompt of a size, as an ``llm`` step has it."""
    span = Span(Spec("llm", "ask"), None)
    span.annotate(
        request=(SENTENCE * (size // len(SENTENCE) + 1))[:size],
        response="Slate.",
        metrics={"input_tokens": 512, "output_tokens": 3},
    )
    span.end_ns = span.start_ns + 1
    return span


def forget(kept):
    kept.file.ring.free(kept.place)


def timed(work, rounds, after=lambda _: None):
    """Return the medians over the runs of the 50th and 99th percentile, in microseconds."""
    runs = []
    for _ in range(RUNS):
        times = []
        for _ in range(rounds // RUNS):
            begun = perf_counter_ns()
            result = work()
            times.append(perf_counter_ns() - begun)
            after(result)
        times.sort()
        runs.append([times[len(times) * share // 100] / 1e3 for share in (50, 99)])
    return [median(each) for each in zip(*runs, strict=True)]


def compute(stop):
    while not stop.is_set():
        sum(range(1_000))


if __name__ == "__main__":
    sys.exit(main())
