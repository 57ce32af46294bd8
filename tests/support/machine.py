"""How fast this machine is at this moment, so that a bar of time means the same everywhere."""

import re
import time


WORDS = (
    "the lease begins in May, and the rent of EUR 1,250.00 is due on the first of a month " * 200
)
NUMBERS = re.compile(r"\b\d[\d.,]*\b")
USUAL_SECONDS = 0.00102  # one round of `_work` on the machine on which the bars were set, when idle


def _work() -> int:
    """Search, split and count for about a millisecond, as the heuristics and detectors do."""
    counts: dict[str, int] = {}
    for word in WORDS.split():
        counts[word] = counts.get(word, 0) + 1
    numbers = sum(len(number) for number in NUMBERS.findall(WORDS))
    return numbers + sum(len(word) * many for word, many in counts.items()) + len(WORDS.casefold())


def slowdown() -> float:
    """Return how many times slower this thread runs now than the machine of the bars, at least 1.

    The quickest of five rounds counts, as in the tests that compare with it: a bar times this
    number holds on a slow or busy machine and still catches work that has grown.
    """
    return max(1.0, min(round_seconds() for _ in range(5)) / USUAL_SECONDS)


def round_seconds() -> float:
    """Return how long one round of work takes this thread: about a millisecond.

    A machine whose speed changes from one tenth of a second to the next has to be measured in the
    midst of what is compared with a bar: take rounds there, and compare medians with medians.
    """
    begun = time.thread_time()
    _work()
    return time.thread_time() - begun


def crowding() -> float:
    """Return how many times longer work takes by the clock now than on an idle machine, at least 1.

    Unlike `slowdown` it counts what the machine does for others meanwhile, for a tenth of a second.
    """
    begun = time.perf_counter()
    for _ in range(100):
        _work()
    return max(1.0, (time.perf_counter() - begun) / (100 * USUAL_SECONDS))


def is_within(seconds: float, bar: float) -> bool:
    """Say whether processor time keeps its bar on this machine, measured only if it must be."""
    return seconds < bar or seconds < bar * slowdown()


def is_in_time(seconds: float, bar: float) -> bool:
    """Say the same of time by the clock, in which other processes had their turns."""
    return seconds < bar or seconds < bar * crowding()
