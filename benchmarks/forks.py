"""How long a fork takes while two threads trace, and while a send hangs; whether any child hangs.

Each child traces, flushes and leaves by ``os._exit``; all of it must stand in the store once. Beside
each figure stands the fork of the same process before the SDK has recorded anything.

    python -m benchmarks.forks [--forks 1000]
"""

import argparse
import faulthandler
import os
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager

import llmeval_sdk as llmeval


BAR_MS, HANGING_BAR_MS = 10.0, 5.0


@llmeval.workflow
def answer(question):
    return question


class Hanging:
    """An exporter that never comes back."""

    name = "hanging"

    def __init__(self):
        self.entered = threading.Event()

    def export(self, batch):
        self.entered.set()
        threading.Event().wait()

    def flush(self, timeout):
        pass

    def close(self, timeout):
        pass


@contextmanager
def busy_threads(work):
    """Let two threads work beside, as an app's do."""
    stop = threading.Event()

    def loop():
        while not stop.wait(0.001):
            work("parent")

    threads = [threading.Thread(target=loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def forks(count, in_child):
    """Fork so many times; return the sorted milliseconds of the forks and how many children failed."""
    times, failed = [], 0
    for number in range(count):
        begun = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(30, exit=True)
            os._exit(0 if in_child(number) else 1)
        times.append((time.perf_counter() - begun) * 1e3)
        failed += os.waitpid(pid, 0)[1] != 0
    return sorted(times), failed


def storm(count):
    """Return the figures of forks beside tracing threads, and how many children's calls are stored."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        llmeval.configure(exporters=["local"], store=f"{folder}/store.db")

        def trace(number):
            answer(f"child {number}")
            return llmeval.flush(20).complete

        answer("first")
        with busy_threads(answer):
            times, failed = forks(count, trace)
        llmeval.flush(60)
        with closing(sqlite3.connect(f"{folder}/store.db")) as store:  # noqa: TID251
            stored = [
                row[0]
                for row in store.execute("SELECT request FROM spans WHERE request LIKE '%child%'")
            ]
        llmeval.configure(exporters=[])
    return times, failed, len(stored), len(set(stored))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=1_000)
    count = parser.parse_args().forks
    with busy_threads(len):
        alone, _ = forks(count, lambda _: True)
    times, failed, stored, different = storm(count)
    hanging = Hanging()
    llmeval.configure(exporters=[hanging])
    answer("stuck")
    hanging.entered.wait(10)
    stuck, _ = forks(count // 10, lambda _: True)
    p99 = times[count * 99 // 100]
    print(
        f"fork without the SDK: p50 {alone[count // 2]:.1f} ms, p99 {alone[count * 99 // 100]:.1f} ms"
    )
    print(
        f"fork while two threads trace: p50 {times[count // 2]:.1f} ms, p99 {p99:.1f} ms (bar {BAR_MS:g})"
    )
    print(
        f"fork while a send hangs: slowest of {len(stuck)} {stuck[-1]:.1f} ms (bar {HANGING_BAR_MS:g})"
    )
    print(
        f"children: {count}, hung or failed {failed}, calls stored {stored}, different {different}"
    )
    whole = failed == 0 and stored == different == count
    return 0 if whole and p99 < BAR_MS and stuck[-1] < HANGING_BAR_MS else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the hanging exporter is no part of the figures
