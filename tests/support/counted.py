"""How much work a call is, counted, so that no clock and no neighbour decides a test."""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, this thread calls while it does some work."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    with _without_garbage():
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(before)
    return calls - 1  # the one that takes the profile off


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python this thread runs in some work, each round of a loop anew.

    What a function of C does inside is not seen: a copy, a search, a pattern.
    """
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    with _without_garbage():
        sys.settrace(count)
        try:
            work()
        finally:
            sys.settrace(before)
    return lines


@contextlib.contextmanager
def _without_garbage() -> Iterator[None]:
    """Let no collection run meanwhile: what others left behind has code of its own."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
