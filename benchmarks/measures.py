"""Times of single calls, and the table that sets each figure beside its bar."""

import statistics
import time

import llmeval_sdk as llmeval


QUIET_OTEL_US = 16.0
"""A bare OpenTelemetry span on the machine that the bars were set on."""
TIGHT_OTEL_US = 13.3
"""The same in a tight loop, where the bars of a scored call were set."""


def latencies(call, argument, count, pace=0.0005):
    """Time single calls at a steady pace, in microseconds, sorted."""
    times = []
    clock = time.perf_counter_ns
    for _ in range(count):
        begun = clock()
        call(argument)
        times.append((clock() - begun) / 1_000)
        time.sleep(pace)
    return sorted(times)


def quantile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def rounds(calls, argument, count, repeat):
    """Measure several calls in turn, round by round; return the median p50 and p99 of each."""
    found = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            times = latencies(call, argument, count)
            found[name].append((quantile(times, 0.5), quantile(times, 0.99)))
        llmeval.flush(30)
    return {
        name: tuple(statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        for name, pairs in found.items()
    }


class Table:
    """Rows of figure, measured, bar; remembers whether one was missed."""

    def __init__(self):
        self.missed = []
        print(f"{'figure':<62}{'measured':>22}{'bar':>18}")

    def row(self, figure, shown, bar="", *, ok=True):
        if not ok:
            self.missed.append(figure)
        print(f"{figure:<62}{shown:>22}{bar:>18}{'' if ok else '  MISSED'}", flush=True)

    def timing(self, figure, pair, bar, slower):
        """Print a p50 beside its bar, scaled to how slow this machine is now."""
        self.row(figure, us(pair), f"p50 < {bar * slower:.0f} µs", ok=pair[0] < bar * slower)


def in_spans(table, figure, pairs, bar_us):
    """Print what a call costs in OpenTelemetry spans of the same run."""
    ratio = statistics.median(ours / otel for otel, ours in pairs)
    bar = bar_us / TIGHT_OTEL_US
    table.row(figure, f"{ratio:.2f}", f"< {bar:.2f}", ok=ratio < bar)


def per_call(function, count=100_000):
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(count):
            function("hello")
        best = min(best, (time.perf_counter() - begun) / count)
    return best * 1e6


def us(pair):
    return f"{pair[0]:.1f} / {pair[1]:.1f} µs"


def ms(times):
    return f"{quantile(times, 0.99):.2f} / {times[-1]:.2f} ms"
