"""Text for terminals: short, on one line, and without anything that steers the terminal."""

from __future__ import annotations

from datetime import datetime, timezone

from llmeval_sdk.model import values
from llmeval_sdk.process.escaping import one_line


def printable(value: object, limit: int = 200) -> str:
    """Return text as one line; control characters and lone surrogates become escapes."""
    text = value if isinstance(value, str) else str(value)
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return one_line(text)


def seconds(duration: float) -> str:
    """Return a duration in a fitting unit: ``1.24 s``, ``12 ms``, ``8 µs``."""
    if duration >= 1:
        return f"{duration:.2f} s"
    return f"{duration * 1e3:.3g} ms" if duration >= 1e-3 else f"{duration * 1e6:.3g} µs"


def score(value: float | bool | str | None) -> str:  # noqa: FBT001
    """Return an evaluation's value as people read it."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return values.word(value)
    return printable(value, 60) if isinstance(value, str) else number(value)


def number(value: float) -> str:
    """Return a number with at most three decimals, whole ones with thousands apart."""
    if abs(value) < 1e15 and value == int(value) and abs(value) > 1:
        return f"{int(value):,}"
    return f"{value:.2f}" if abs(value) >= 0.0995 or not value else f"{value:.3g}"


def plural(count: int, noun: str) -> str:
    """Count something: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def megabytes(size: int) -> str:
    """Return a number of bytes as people read it: ``12.4 MB``."""
    return f"{size / 1e6:,.1f} MB"


def changed_by(difference: float) -> str:
    """Return how a value changed, with a sign: ``+0.12``; ``=`` where it did not."""
    return f"{difference:+.3g}" if difference else "="


def percent(share: float) -> str:
    """Return a share as whole percent; what rounds to 0 has no sign."""
    return f"{round(share, 2) + 0.0:.0%}"


def moment(time_ns: int) -> str:
    """Return a time as people read it, in UTC."""
    try:
        at = datetime.fromtimestamp(time_ns / 1e9, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
