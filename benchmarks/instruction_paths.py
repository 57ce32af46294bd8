"""The paths whose instructions `benchmarks.instructions` counts, each in a process of its own.

    python -m benchmarks.instruction_paths PATH REQUESTS FOLDER

All of them are about the same request: a workflow with a retrieval of five passages, scored by the
heuristics that are on by default. No two requests have a passage in common, because what is known
of a passage is remembered. Clocks and ids are made up, no thread starts, and garbage collection,
which comes in lumps, is off: then a path takes the same steps each time.
"""

import gc
import itertools
import os
import random
import sys
import threading
import time


WARM_UP = 10
"""Requests before those that are counted: caches fill, and Python specialises its bytecode."""
MOST = 60
"""The largest number of requests that may be asked for."""
TOGETHER = 5
"""Requests whose records go to the store in one batch."""
SENTENCE = "The roof of barn {} in the {} yard is covered with slate, says the survey of 1998. "
BEGINNING_NS, TICK_NS = 1_764_000_000_000_000_000, 50_000


def passages(number):
    """Return five passages of 400 characters."""
    return [
        {
            "content": "".join(SENTENCE.format(number, 10 * n + m) for m in range(6))[:400],
            "chunk_id": f"{number}-{n}",
            "score": 0.9 - n / 100,
            "page": n,
            "retrieval_method": ("bm25", "knn")[n % 2],
        }
        for n in range(5)
    ]


def app(*exporters):
    """Configure the SDK with these exporters; return what makes a request."""
    import llmeval_sdk as llmeval
    from benchmarks.app import EXTRACTIONS

    llmeval.configure(exporters=list(exporters))

    @llmeval.retrieval
    def retrieve(question, number):
        return passages(number)

    @llmeval.workflow
    def answer(question, number):
        retrieve(question, number)
        llmeval.annotate(extractions=EXTRACTIONS)
        return "Slate, says the survey of 1998."

    return lambda number: answer(f"What covers the roof of barn {number}?", number)


class Keeping:
    """An exporter that keeps the batches."""

    name = "keeping"

    def __init__(self):
        self.batches = []

    def export(self, batch):
        self.batches.append(batch)

    def flush(self, timeout):
        pass

    def close(self, timeout):
        pass


def call(total, folder):
    """Return what the app's own thread does for a request."""
    return app(Keeping())


def worker(total, folder):
    """Return what the worker does for a request: redaction, free scores, the choice of judges."""
    ask = app(Keeping())
    for number in range(total):
        ask(number)
    return handle


def handle(number):
    """Have the worker handle the two spans of a request."""
    from llmeval_sdk.pipeline.runtime import in_force
    from llmeval_sdk.tracing import disabled

    pipeline = in_force.pipeline
    worker = pipeline.work().worker
    worker._pace = NoPause
    with disabled():
        for _ in range(2):
            worker._take(pipeline._span_processor.lane.take())


class NoPause:
    """In place of the worker's pauses."""

    @staticmethod
    def rest(*, hurry):
        pass


def store(total, folder):
    """Return what writing the records of a request to the store takes, several in a batch."""
    from llmeval_sdk.config import Settings
    from llmeval_sdk.exporters.local import LocalExporter
    from llmeval_sdk.pipeline.runtime import in_force

    kept = Keeping()
    ask = app(kept)
    for number in range(total):
        ask(number)
        handle(number)
        if ends_a_batch(number):
            in_force.pipeline.work().deliveries["keeping"]._drain()
    exporter, batches = LocalExporter(Settings(store=f"{folder}/store.db")), iter(kept.batches)

    def write(number):
        if ends_a_batch(number):
            exporter.export(next(batches))

    return write


def ends_a_batch(number):
    return number % TOGETHER == TOGETHER - 1


PATHS = {"call": call, "worker": worker, "store": store}


def first_call():
    """Make the first traced call of a process: what the app's thread imports and does for it."""
    threading.Thread.start = lambda _: None
    import llmeval_sdk as llmeval

    @llmeval.workflow
    def answer(question):
        return "Slate, says the survey of 1998."

    answer("What covers the roof?")
    return llmeval


def make_clocks_up():
    """Have each look at a clock find it a little later, however slow this process is."""
    ticks = itertools.count(BEGINNING_NS, TICK_NS)
    for name in ("time", "monotonic", "perf_counter", "thread_time"):
        setattr(time, f"{name}_ns", ticks.__next__)
        setattr(time, name, lambda: next(ticks) / 1e9)


def main(path, requests, folder):
    """Run a path for so many requests; fail where a record was lost or a fault swallowed."""
    if path == "first":
        llmeval = first_call() if requests else None
        if llmeval is not None and llmeval.stats().spans != 1:
            sys.exit("the first call was not recorded")
        sys.stderr.flush()
        os._exit(0)
    make_clocks_up()  # before the package is imported, which takes the functions by their names
    import llmeval_sdk as llmeval
    from llmeval_sdk.process.one_thread import OneThread
    from llmeval_sdk.tracing import ids

    OneThread.start = lambda _: True
    random.seed(1)
    ids._random.seed(1)
    gc.disable()
    step = PATHS[path](WARM_UP + MOST, folder)
    for number in range(WARM_UP + requests):
        step(number)
    stats = llmeval.stats()
    if stats.problems or stats.dropped or not stats.spans:
        sys.exit(f"the path did not do its work: {stats}")
    sys.stderr.flush()
    os._exit(0)  # the end of a process, with what it still delivers, belongs to no path


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
