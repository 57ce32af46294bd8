"""When to try again: the waits between attempts, and the wait that a server asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import uniform


def pauses(first: float, longest: float, *, spread: tuple[float, float]) -> Iterator[float]:
    """Yield the seconds between attempts, which double from ``first`` to ``longest``.

    Each is multiplied by a random number of ``spread``, so that those who failed together do not
    come back together.
    """
    pause = min(first, longest)
    while True:
        yield pause * uniform(*spread)  # noqa: S311 - not for a secret
        pause = min(2 * pause, longest)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds a server asks to wait, from a number or an HTTP date.

    The names of ``headers`` are in lower case, or it is indifferent to their case.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    from email.utils import parsedate_to_datetime
    from time import time

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
