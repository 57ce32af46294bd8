"""What the SDK costs the app, beside OpenTelemetry's own SDK in the same process.

Prints one row per figure with the bar it has to clear, and exits 1 if one is missed. Timings of one
machine at one moment mean little by themselves: the bars of single calls are for a machine on which
a bare OpenTelemetry span takes 16 µs, and grow in proportion where the same run finds it slower.

    python -m benchmarks.overhead [--quick]
"""

import argparse
import asyncio
import gc
import statistics
import sys
import threading
import time

import llmeval_sdk as llmeval
from benchmarks.app import (
    CHUNKS,
    EXTRACTIONS,
    Dead,
    Discard,
    extraction,
    extraction_read,
    otel_call,
    plain,
    traced,
)
from benchmarks.measures import (
    QUIET_OTEL_US,
    TIGHT_OTEL_US,
    Table,
    in_spans,
    latencies,
    ms,
    per_call,
    quantile,
    rounds,
    us,
)
from llmeval_sdk import registry
from llmeval_sdk.model import Record
from llmeval_sdk.model.fields import to_chunks, to_extractions


SCORED_CPU_US = 250.0
"""CPU of a scored call with five chunks there."""


DEAD_CALL_US = 10.0
"""A call there while the exporter never comes back: 100,000 calls a second."""


def call_costs(table, count, repeat):
    calls = {"otel": otel_call(), "ours": traced}
    small = rounds(calls, "hello", count, repeat)
    otel = small["otel"][0]
    slower = max(1.0, otel / QUIET_OTEL_US)
    table.row("OpenTelemetry SDK, bare span, two attributes: p50 / p99", us(small["otel"]))
    table.row("  … this machine now, against the one of the bars", f"{slower:.2f} × slower")
    table.timing("traced call, small I/O: p50 / p99", small["ours"], 10, slower)
    ratio = small["ours"][0] / otel
    table.row("  … as a share of the OpenTelemetry span", f"{ratio:.2f}", "< 1", ok=ratio < 1)
    large = rounds({"ours": traced}, "word " * 4_000, count, repeat)["ours"]
    table.timing("traced call, 20 KB prompt: p50 / p99", large, 20, slower)
    chunks = rounds({"ours": extraction_read, "otel": calls["otel"]}, "roof", count, repeat)
    slower = max(1.0, chunks["otel"][0] / QUIET_OTEL_US)
    table.timing(
        "two spans, five 500-character chunks, all inline heuristics, read",
        chunks["ours"],
        50,
        slower,
    )


def scored_cpu(table, count):
    """CPU of all threads for a scored call with five chunks, as a multiple of the bare span."""
    bare = otel_call()

    def cpu(call):
        begun = time.process_time()
        for _ in range(count):
            call("roof")
            time.sleep(0.001)
        llmeval.flush(30)
        return (time.process_time() - begun) / count * 1e6

    pairs = [(cpu(plain), cpu(bare), cpu(extraction)) for _ in range(3)]
    ratio = statistics.median((ours - idle) / (otel - idle) for idle, otel, ours in pairs)
    shown = statistics.median(ours - idle for idle, _, ours in pairs)
    bar = SCORED_CPU_US / QUIET_OTEL_US
    table.row(
        "CPU of a scored call with five chunks, all threads, in OTel spans",
        f"{ratio:.1f} ({shown:.0f} µs)", f"< {bar:.1f}", ok=ratio < bar,
    )  # fmt: skip


def tight(table, repeat):
    """Measure a call whose scores are read, tight and at a pace, against the bare span."""
    bare = otel_call()
    pairs = []
    for _ in range(repeat):
        pairs.append((per_call(bare, 500), per_call(extraction_read, 500)))
        llmeval.flush(30)
    in_spans(table, "two spans, five chunks, inline scores read, tight, in OTel spans", pairs, 50)
    paced = []
    for _ in range(repeat):
        ours = quantile(latencies(extraction_read, "roof", 150, 1 / 300), 0.5)
        paced.append((per_call(bare, 500), ours))
        llmeval.flush(30)
    in_spans(table, "  … at 300 requests a second, in tight OTel spans", paced, 60)


def disabled(table):
    with llmeval.disabled():
        inside = per_call(traced) - per_call(plain)
    llmeval.configure(exporters=[Discard()], enabled=False)
    off = per_call(traced) - per_call(plain)
    llmeval.configure(exporters=[Discard()])
    table.row(
        "disabled by setting, on top of the plain call", f"{off:.2f} µs", "< 0.5 µs", ok=off < 0.5
    )
    table.row("inside disabled()", f"{inside:.2f} µs")


def heuristics(table):
    record = Record(
        request="roof",
        response="slate",
        value="slate",
        retrieved_context=to_chunks(CHUNKS),
        extractions=to_extractions(EXTRACTIONS * 5),
        expected_retrieved_context=to_chunks([{"doc_uri": "a"}]),
        retrieval={"limits": {"bm25": 20}, "total_before_filter": 60},
    )
    slowest, name = 0.0, ""
    for each in registry.heuristics():
        heuristic = registry.evaluator(each)
        if not heuristic.inline:
            continue
        begun = time.perf_counter()
        for _ in range(5_000):
            heuristic.evaluate(record)
        took = (time.perf_counter() - begun) / 5_000 * 1e6
        slowest, name = max((slowest, name), (took, each))
    table.row(
        f"slowest metadata heuristic on 20 chunks ({name})",
        f"{slowest:.1f} µs",
        "< 20 µs",
        ok=slowest < 20,
    )


def io_waits(table, repeat):
    """Time a request of ten I/O waits while 1,000 records a second are scored beside it."""
    stop = threading.Event()

    def load():
        while not stop.is_set():
            extraction("roof")
            time.sleep(0.001)

    def request():
        begun = time.perf_counter()
        for _ in range(10):
            time.sleep(0.002)
        return (time.perf_counter() - begun) * 1e3

    def median(count=60):
        return statistics.median(request() for _ in range(count))

    ratios = []
    for _ in range(repeat):
        alone = median()
        stop.clear()
        thread = threading.Thread(target=load)
        thread.start()
        beside = median()
        stop.set()
        thread.join()
        llmeval.flush(30)
        ratios.append(beside / alone)
    ratio = statistics.median(ratios)
    table.row(
        "request of ten I/O waits beside scoring, against alone",
        f"{ratio:.3f}",
        "< 1.10",
        ok=ratio < 1.1,
    )


def event_loop(table, seconds):
    """Measure how late a timer of the app's loop fires under twenty traced tasks."""
    prompt = "word " * 4_000

    @llmeval.workflow
    async def answer(question):
        await asyncio.sleep(0.01)
        return question

    async def main(call):
        late, until = [], time.perf_counter() + seconds

        async def work():
            while time.perf_counter() < until:
                await call(prompt)

        async def watch():
            while time.perf_counter() < until:
                begun = time.perf_counter()
                await asyncio.sleep(0.001)
                late.append((time.perf_counter() - begun - 0.001) * 1e3)

        await asyncio.gather(watch(), *(work() for _ in range(20)))
        return sorted(late)

    async def bare(question):
        await asyncio.sleep(0.01)
        return question

    control, ours = asyncio.run(main(bare)), asyncio.run(main(answer))
    llmeval.flush(30)
    table.row("event-loop stall without the SDK: p99 / max", ms(control))
    bar = quantile(control, 0.99) + 2
    ok = quantile(ours, 0.99) <= bar and ours[-1] <= max(15, control[-1])
    table.row(
        "event-loop stall, 20 tasks × 20 KB: p99 / max", ms(ours), f"≤ {bar:.1f} / 15 ms", ok=ok
    )


def burst(table):
    sink = Discard()
    llmeval.configure(exporters=[sink], evaluators=[])
    lost_before = lost_of("discard")
    for number in range(10_000):
        traced(str(number))
    for _ in range(5_000):
        llmeval.submit_evaluation(label="mine", value=0.5)
    llmeval.flush(60)
    lost = lost_of("discard") - lost_before
    table.row("lost of a burst of 10,000 spans and 5,000 evaluations", str(lost), "0", ok=lost == 0)


def lost_of(exporter):
    """Count what an exporter did not get so far, also what the figures before this one dropped."""
    llmeval.flush(60)
    account = llmeval.stats().exporters[exporter]
    return account.created - account.delivered


def dead(table):
    import resource

    exporter = Dead()
    bare = per_call(otel_call(), 20_000)
    llmeval.configure(exporters=[exporter])
    traced("x")
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "x" * 500
    begun = time.perf_counter()
    for number in range(100_000):
        traced(text + str(number))
    seconds = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
    each = llmeval.stats().exporters["dead"]
    ratio = seconds / 100_000 * 1e6 / bare
    table.row(
        "100,000 calls in a row, exporter dead, in tight OTel spans",
        f"{ratio:.2f} ({100_000 / seconds:,.0f}/s)",
        f"< {DEAD_CALL_US / TIGHT_OTEL_US:.2f}",
        ok=ratio < DEAD_CALL_US / TIGHT_OTEL_US,
    )
    table.row("  … growth of peak memory", f"{grown:.0f} MB", "≤ 32 MB", ok=grown <= 32)
    table.row("  … account balances", str(each.balanced), "True", ok=each.balanced)
    exporter.release.set()
    llmeval.configure(exporters=[Discard()])


def huge(table):
    llmeval.configure(exporters=[Discard()])
    text = "x" * 50_000_000
    mapping = {str(n): "x" * 500 for n in range(100_000)}
    traced(text)
    worst = 0.0
    for value in (text, mapping):
        times = []
        for _ in range(7):
            begun = time.perf_counter()
            traced(value)
            times.append((time.perf_counter() - begun) * 1e3)
        worst = max(worst, statistics.median(times))
    table.row("call with a 50 MB text or mapping", f"{worst:.2f} ms", "< 1 ms", ok=worst < 1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the work, for a first look"
    )
    quick = parser.parse_args().quick
    count, repeat = (300, 3) if quick else (2_000, 5)
    llmeval.configure(exporters=[Discard()])
    table = Table()
    call_costs(table, count, repeat)
    tight(table, repeat)
    scored_cpu(table, count // 2)
    disabled(table)
    heuristics(table)
    io_waits(table, 1 if quick else 5)
    event_loop(table, 1.0 if quick else 4.0)
    burst(table)
    dead(table)
    huge(table)
    llmeval.shutdown(5)
    if table.missed:
        print(f"\nmissed: {'; '.join(table.missed)}")
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
