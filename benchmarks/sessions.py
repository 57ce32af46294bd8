"""What open sessions cost the app in memory, and how many are evaluated a minute.

Sessions are opened by a traced function, as an app does it, and their turns are kept on disk. Then
others become idle at once and are scored by all free scores and by a judge that asks no model.

    python -m benchmarks.sessions                       # a million open sessions (12 minutes)
    python -m benchmarks.sessions --sessions 100000
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import llmeval_sdk as llmeval
from benchmarks.measures import Table


MOST_MB = 30
FEWEST_A_MINUTE = 10_000
WARM = 20_000
"""Sessions before memory is first read: queues, caches and pools have their size by then."""
BURST = 2_000
ANSWER = "The roof of the barn in Nieuwpoort is covered with slate, says page 12. " * 4


class Nowhere:
    """An exporter that counts and forgets."""

    name = "nowhere"

    def __init__(self):
        self.closed = 0

    def export(self, batch, /):
        self.closed += sum(event.evaluation.name == "fine" for event in batch.evaluations)

    def flush(self, timeout, /):
        pass

    def close(self, timeout, /):
        pass


@llmeval.judge(per="session")
async def fine(record, llm):
    """Rate every conversation as good."""
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=1_000_000, help="that are open")
    parser.add_argument("--closings", type=int, default=20_000, help="that become idle at once")
    arguments = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        seconds, grown, size = opened(Path(folder) / "open.db", arguments.sessions)
        count = f"{arguments.sessions:,}"
        table.row(f"{count} sessions opened", f"{arguments.sessions / seconds:,.0f} a second")
        table.row(f"{count} open sessions, on disk", f"{size / 1e6:,.0f} MB")
        ok = grown <= MOST_MB
        table.row(f"{count} open sessions, memory of the app", f"{grown:+.1f} MB",
                  f"<= {MOST_MB} MB", ok=ok)  # fmt: skip
        pace = closed(Path(folder) / "closed.db", arguments.closings)
        table.row(f"{arguments.closings:,} sessions evaluated", f"{pace:,.0f} a minute",
                  f">= {FEWEST_A_MINUTE:,}", ok=pace >= FEWEST_A_MINUTE)  # fmt: skip
    return 1 if table.missed else 0


def opened(store, count):
    """Open sessions; return the seconds, the megabytes of memory, and the bytes on disk."""
    configure(store, idle=86_400.0)
    talk(0, min(WARM, count // 2))
    before, begun = resident_mb(), time.perf_counter()
    talk(min(WARM, count // 2), count)
    seconds = time.perf_counter() - begun
    grown = resident_mb() - before
    kept = llmeval.stats().sessions
    assert kept["turns"] == count, kept
    assert "turns not kept" not in kept, kept
    llmeval.shutdown(60)
    return seconds, grown, store.with_suffix(".state").stat().st_size


def closed(store, count):
    """Have sessions evaluated that become idle together; return how many are done a minute."""
    nowhere = configure(store, idle=86_400.0)
    talk(0, count)
    llmeval.shutdown(60)
    nowhere = configure(store, idle=86_400.0)
    make_idle(store.with_suffix(".state"))
    begun = time.perf_counter()
    talk(count, count + 1)  # the first record starts the worker
    while nowhere.closed < count:
        time.sleep(0.05)
    seconds = time.perf_counter() - begun
    llmeval.shutdown(60)
    return count / seconds * 60


def make_idle(path):
    """Let all sessions of a file be due now."""
    import sqlite3

    with sqlite3.connect(path, timeout=30) as database:  # noqa: TID251
        database.execute("UPDATE sessions SET due = ?", (time.time_ns(),))
    database.close()


def configure(store, *, idle):
    nowhere = Nowhere()
    llmeval.configure(
        exporters=[nowhere], evaluators=[fine], escalations=[], store=str(store),
        session_idle=idle, background_share=1.0,
    )  # fmt: skip
    return nowhere


def talk(first, last):
    """Open one session for each number, no faster than the worker can follow."""
    for number in range(first, last):
        with llmeval.workflow("chat", request="What is the roof made of?",
                              session_id=f"session-{number}") as span:  # fmt: skip
            span.response = ANSWER
        if number % BURST == BURST - 1 or number == last - 1:
            while not llmeval.flush(60).complete:
                pass
    while llmeval.stats().sessions.get("turns", 0) < last - first:
        time.sleep(0.01)


def resident_mb():
    """Return the memory that this process holds, in megabytes."""
    statm = Path("/proc/self/statm").read_text()
    return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
