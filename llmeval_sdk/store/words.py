"""How reports, alerts and comparisons put a moment, a share and a shortcoming into words."""

from __future__ import annotations

from datetime import datetime, timezone


CATEGORIES = "its answers are categories, which have shares and no mean"
NO_CONTROL = "no control sample: the mean describes the judged records only"
NO_SCALE = "its scores leave 0..1, and a mean without a scale cannot be tested at any time"
NO_CHANCE = "no inclusion probabilities: the mean describes the judged records only"


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
