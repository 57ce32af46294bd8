"""Values as people read them on a page."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any

from markupsafe import Markup, escape

from llmeval_sdk._terminal import number as _number
from llmeval_sdk._terminal import seconds
from llmeval_sdk.estimates.mean import Estimate


MAX_TEXT = 20_000
"""Characters of one text on a page; the rest is a link away."""

_UNSEEN = re.compile(
    "[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
"""Control characters, halves of a surrogate pair, code points that are no characters, and those
that turn the direction of what follows, even beyond a ``bdi``."""
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


def visible(value: Any) -> Any:
    """Show what would be invisible in a text, or would reorder the page around it."""
    if not isinstance(value, str) or _UNSEEN.search(value) is None:
        return value
    shown = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value)
    return Markup(shown) if isinstance(value, Markup) else shown  # noqa: S704 - it was markup


def breakable(name: str) -> Markup:
    """Return a name that may break after its underscores and dots."""
    return Markup(re.sub(r"([_.:/-])", r"\1<wbr>", str(escape(name))))  # noqa: S704 - escaped


def clock(time_ns: int) -> str:
    """Return the time of day on this machine, with the date where that is another day."""
    at = when(time_ns)
    if at is None:
        return f"{time_ns} ns"
    return (
        f"{at:%H:%M:%S}" if at.date() == datetime.now().astimezone().date() else f"{at:%d %b %H:%M}"
    )


def day(time_ns: int) -> str:
    """Return date and time on this machine."""
    at = when(time_ns)
    return f"{time_ns} ns" if at is None else f"{at:%d %b %Y, %H:%M:%S}"


def utc(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC."""
    at = when(time_ns)
    if at is None:
        return ""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(time_ns: int) -> datetime | None:
    """Return a time as this machine's clock has it; ``None`` for one that no clock can show."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def duration(time_ns: float) -> str:
    """Return nanoseconds in a fitting unit."""
    return seconds(max(time_ns, 0) / 1e9)


def money(usd: float) -> str:
    """Return dollars, with more digits for less money."""
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def number(value: float) -> str:
    """Return a number with as many digits as matter."""
    return _number(value)


def estimated(found: Estimate) -> str:
    """Return a mean with its 95 % interval: ``0.83 (0.71 to 0.95)``."""
    return f"{found.mean:.3g} ({found.low:.3g} to {found.high:.3g})"


def preview(stored: str | None, limit: int = 160) -> str:
    """Return the beginning of a stored JSON text, which may itself be only a beginning."""
    if stored is None:
        return ""
    if stored.startswith('"'):
        inside = stored[1:].removesuffix('"') if len(stored) < 300 else stored[1:]
        stored = _ESCAPE.sub(_unescape, inside)
    line = " ".join(stored.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "u" and len(code) == 5:
        character = chr(int(code[1:], 16))
        return character if character.isprintable() else "�"
    return _PLAIN.get(code, code)


def text(value: Any) -> str:
    """Return a captured value as text: strings as they are, anything else as indented JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)
