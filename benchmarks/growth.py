"""Print how the time of what reads strangers' texts grows with them, as ratios within one run.

The tests count calls, which is the same on every machine, but cannot see what one call into C
takes: a pattern that goes back over its text, a copy. Here each text is read short and eight times
as long, in turns on one thread, and the best times are compared. Linear is 8, quadratic is 64.
"""

import sys
import time
from pathlib import Path

import llmeval_sdk as llmeval
from benchmarks.measures import Table
from llmeval_sdk.exporters.redaction import DETECTORS, Redactor
from llmeval_sdk.testing import capture
from llmeval_sdk.text.folding import plain


sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from hostile_pieces import FORMS, PATTERNS, PIECES, parse


LONGER = 8
BAR = 30.0
"""Times a text that is eight times as long may take; the rest is noise."""
LEAST_SECONDS = 0.0005
"""Where the long text takes less, nothing is measured but the clock."""
LIVE_BAR = 2.0
"""Times a live score may take after 2,000 calls of a run, beside after 100."""


def main():
    table = Table()
    for name, read, pieces, size in subjects():
        growths = {piece: growth(read, piece, size) for piece in pieces}
        worst = max(growths, key=growths.__getitem__)
        ratio = growths[worst]
        table.row(f"{name}, worst of {len(pieces)}: {worst!r}", f"{ratio:.1f} x", f"< {BAR:g} x",
                  ok=ratio < BAR)  # fmt: skip
    for name in ("tool_call_loop", "duplicate_tool_calls", "injected_actions"):
        ratio = late_beside_early(name)
        table.row(f"live {name} after 2,000 calls, beside after 100", f"{ratio:.2f} x",
                  f"< {LIVE_BAR:g} x", ok=ratio < LIVE_BAR)  # fmt: skip
    return 1 if table.missed else 0


def subjects():
    """Return by name what reads a text, the pieces that texts are made of, and the short size."""
    for name in DETECTORS:
        yield f"detecting {name}", Redactor([name]).detect, PIECES, 1 << 17
    yield "detecting names and addresses", Redactor(["api_key"]).detect, FORMS, 1 << 15
    yield (
        "reading amounts, dates and words",
        lambda text: parse(plain(text)),
        tuple(PATTERNS.values()),
        1 << 13,
    )


def growth(read, piece, size):
    """Return how many times longer a text takes that is eight times as long."""
    texts = [piece * (length // len(piece)) for length in (size, LONGER * size)]
    best = [float("inf")] * 2
    for attempt in "abc":
        for place, made in enumerate(texts):
            text = f"{made}{attempt}"  # what was read before is remembered
            begun = time.thread_time()
            read(text)
            best[place] = min(best[place], time.thread_time() - begun)
    return best[1] / best[0] if best[1] > LEAST_SECONDS else 0.0


def late_beside_early(name):
    """Return how many times longer a live score takes late in a run than early in it."""
    spent = []

    @llmeval.tool
    def look_up(key: str) -> str:
        return f"value of {key}"

    @llmeval.agent
    def run(question: str) -> str:
        span = llmeval.current_span()
        for number in range(2_000):
            look_up(f"order {number}")
            begun = time.thread_time()
            span.evaluate(name)
            spent.append(time.thread_time() - begun)
            if number % 50 == 49:
                llmeval.flush(30)  # else the worker has the processor's caches
        return "done"

    with capture():
        run("Look it up.")
    return min(spent[-100:]) / min(spent[50:150])


if __name__ == "__main__":
    sys.exit(main())
