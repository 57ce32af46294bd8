"""What the viewer takes over a million spans, the report over a million verdicts, and the writer."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from benchmarks.viewer_store import EVERYBODY, TRACE_SPANS, fill, fill_judged
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


REPEATS = 15
LISTS = {
    "newest": "/",
    "one span name": "/?span=chat",
    "evaluator below 0.3": "/?evaluator=context_precision&op=below&value=0.3",
    "rare: risk above 0.985": "/?evaluator=groundedness_risk&op=above&value=0.985",
    "worst first": "/?sort=context_precision",
    "judge said no": "/?evaluator=groundedness&op=is&value=no",
    "escalated or sampled": "/?judge=yes",
    "failed": "/?errors=1",
    "search, common word": "/?q=copper",
    "search, not there": "/?q=nowhere+to+be+found",
    "where a tag is": "/?where=tag:release%3D1.5",
    "where a score is low": "/?where=score:context_precision%3C0.3",
    "worst, judged no, search": "/?sort=context_precision&evaluator=groundedness&op=is&value=no&q=zzz",
}

SESSIONS = {
    "sessions": "/sessions",
    "session of 8 turns": f"/session?id=chat-{7:032x}",
    "session of 50,000 turns": f"/session?id={EVERYBODY}",
    "session of 50,000 turns, the last": f"/session?id={EVERYBODY}&turn=50000",
    "list: one session": f"/?session={EVERYBODY}",
    "list: goal not reached": "/?evaluator=goal_reached&op=is&value=no",
}


def main() -> None:
    """Print each figure beside its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="a store made before; made anew by default")
    parser.add_argument("--verdicts", type=int, default=1_000_000, help="0 measures no report")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the app writes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.store or Path(folder) / "llmeval.db"
        if not path.exists():
            begun = time.perf_counter()
            fill(path, args.spans)
            print(f"made a store of {args.spans:,} spans in {time.perf_counter() - begun:.0f} s")
        with serving(path) as (port, started):
            row("start-up, to the first page", started * 1e3, 1_000)
            pages(port, path)
        fill(small := Path(folder) / "small.db", TRACE_SPANS)
        report(small, "report, of which start-up", bar=None)
        report(path, f"report, {args.spans:,} spans")
        for by in GROUPINGS:
            report(path, f"report --by {by}, {args.spans:,} spans", "--by", by, bar=10_000)
        for what, (bar, options) in QUESTIONS.items():
            report(path, what, *options, bar=bar)
        growth(Path(folder) / "grown.db")
        writing(Path(folder) / "live.db", args.seconds)
        if args.verdicts:
            fill_judged(judged := Path(folder) / "judged.db", args.verdicts)
            report(judged, f"report, {args.verdicts:,} verdicts")


GROUPINGS = ("model", "tag:release", "user")
WHERE = ("--where", "tag:release=1.5")
QUESTIONS = {
    "one evaluator, a filter, one group": (
        2_000, ("--evaluator", "groundedness", *WHERE, "--by", "model"),
    ),
    "one evaluator, a filter, two groups": (
        4_000, ("--evaluator", "groundedness", *WHERE, "--by", "model", "--by", "user"),
    ),
    "a report of a third of the requests": (10_000, WHERE),
}  # fmt: skip
"""What is asked of some requests, with the milliseconds that it may take."""
MOST_GROWTH = 0.12
"""What reports on traffic may add to a store that has everything else."""


def growth(path: Path) -> None:
    """Measure what of a store is there for reports on traffic: an index, and four columns."""
    fill(path, 20_000)
    with contextlib.closing(sqlite3.connect(path)) as connection:  # noqa: TID251
        connection.execute("VACUUM")
        whole = path.stat().st_size
        connection.execute("DROP INDEX spans_summed")
        told = ("cache_read_input_tokens", "cache_write_input_tokens")
        told += ("reasoning_output_tokens", "time_to_first_token")
        connection.execute(f"UPDATE spans SET {', '.join(f'{name} = NULL' for name in told)}")
        connection.commit()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        share = whole / path.stat().st_size - 1
    verdict = "ok" if share < MOST_GROWTH else "MISSED"
    print(
        f"{'what traffic adds to a store':<34}{share:>9.1%}      bar {MOST_GROWTH:.0%}  {verdict}"
    )


def report(path: Path, what: str, *options: str, bar: float | None = 2_000) -> None:
    """Measure `llmeval report`: how long a person waits, and the processor time of all its threads.

    It reads on as many cores as there are. What else runs on the machine makes the wait longer, and
    not the processor time.
    """
    waits, times = [], []
    for _ in range(5):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "llmeval_sdk", "report", "--store", str(path), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=compiled())
        waits.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    note = f"{median(times):.2f} s of processor time"
    row(what, median(waits) * 1e3, bar, note)


def compiled() -> dict[str, str]:
    """Return an environment in which Python keeps compiled files, as an installed package has them.

    Without them, each command would compile the package anew, which takes 0.3 s.
    """
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # noqa: TID251 - for other processes


def row(what: str, milliseconds: float, bar: float | None, note: str = "") -> None:
    """Print one figure."""
    held = "" if bar is None else f"bar {bar:,.0f} ms  {'ok' if milliseconds < bar else 'MISSED'}"
    print(f"{what:<34}{milliseconds:>9.1f} ms   {held:<22}{note}")


@contextlib.contextmanager
def serving(path: Path) -> Iterator[tuple[int, float]]:
    """Run `llmeval view` and give its port and how long it took to answer."""
    command = [sys.executable, "-m", "llmeval_sdk", "view", "--no-open", "--no-token"]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--port", "0", "--store", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=compiled(),
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        fetch(port, "/")
        yield port, time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait(10)


def fetch(port: int, path: str) -> tuple[float, str]:
    """Return how long a page took, in milliseconds, and the page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    begun = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    took = (time.perf_counter() - begun) * 1e3
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return took, text


def pages(port: int, path: Path) -> None:
    """Measure every kind of list, a page deep in one, a trace and the scores."""
    for name, address in LISTS.items():
        first, text = fetch(port, address)
        times = [fetch(port, address)[0] for _ in range(REPEATS)]
        found = text.count("<tr data-id")
        looked = text.partition(" looked at so far")[0].rpartition("among the ")[2]
        note = f"{found} rows, first time {first:.0f} ms"
        note += f", looked at {looked} in its time" if " looked at so far" in text else ""
        row(f"list: {name}", median(times), 200, note)
    with StoreReader(path) as reader:
        sql = (
            "SELECT trace_id, start_ns, seq FROM spans WHERE parent_id IS NULL LIMIT 1 OFFSET 90000"
        )
        trace, start, seq = reader.read(lambda c: c.execute(sql).fetchone())
    deep = [fetch(port, f"/?after={start}~{seq}")[0] for _ in range(REPEATS)]
    row("list: a page in the middle", median(deep), 200)
    row("trace", median(fetch(port, f"/traces/{trace}")[0] for _ in range(REPEATS)), 100)
    for name, address in SESSIONS.items():
        times = [fetch(port, address)[0] for _ in range(REPEATS)]
        row(name, median(times), 200)
    for name, address in {
        "scores": "/scores", "scores where a tag is": "/scores?where=tag:release%3D1.5"
    }.items():  # fmt: skip
        begun, longest = time.perf_counter(), 0.0
        while True:
            took, text = fetch(port, address)
            longest = max(longest, took)
            if "Still counting" not in text:
                break
            time.sleep(1.0)  # as a browser does
        seconds = time.perf_counter() - begun
        note = f"longest of those that say that it counts, which took {seconds:.1f} s"
        row(name, longest, 300, note)


def writing(path: Path, seconds: float) -> None:
    """Measure batches of 50 spans, ten a second, with and without a viewer that is busy."""
    alone = batches(path, seconds)
    with serving(path) as (port, _):
        stop = threading.Event()
        looking = [
            threading.Thread(target=look, args=(port, address, stop))
            for address in ("/", "/?q=nowhere+to+be+found", "/scores", "/events")
        ]
        for each in looking:
            each.start()
        watched = batches(path, seconds)
        stop.set()
        for each in looking:
            each.join()
    for name, times in (("alone", alone), ("with a busy viewer", watched)):
        note = f"p99 {quantiles(times, n=100)[98]:.1f} ms, longest {max(times):.1f} ms"
        row(f"batch of 50 spans, {name}", median(times), None, note)


def look(port: int, address: str, stop: threading.Event) -> None:
    """Be a visitor who reloads without a pause."""
    while not stop.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", address)
            connection.getresponse().read()
            connection.close()


def batches(path: Path, seconds: float) -> list[float]:
    """Write 500 spans and 500 scores a second; return how long each batch took."""
    writer, times = StoreWriter(path, max_days=0), []
    begun = time.perf_counter()
    for number in range(int(seconds * 10)):
        time.sleep(max(0.0, begun + number / 10 - time.perf_counter()))
        batch = _batch(number)
        start = time.perf_counter()
        writer.write(batch)
        times.append((time.perf_counter() - start) * 1e3)
    writer.close()
    return times


def _batch(number: int) -> Batch:
    now = time.time_ns()
    spans = [
        SpanData(
            f"{now + each:032x}", f"{now + each:016x}", None, "answer", "workflow", now, now + 9,
            request="What is the roof made of? " * 5, response="slate " * 40,
        )
        for each in range(50)
    ]  # fmt: skip
    scores = [
        EvaluationEvent(
            f"{span.span_id}-score", Target(span.trace_id, span.span_id, span.name, span.kind),
            Evaluation("context_precision", (number % 10) / 10), now,
        )
        for span in spans
    ]  # fmt: skip
    return Batch(tuple(spans), tuple(scores))


if __name__ == "__main__":
    main()
