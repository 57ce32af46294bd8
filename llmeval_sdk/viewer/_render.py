"""How values are written for people, and the templates that pages are rendered from.

The templates escape everything. Every link is built by `url`, below the path where the app mounted
the viewer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.text.terminal import changed_by, number, percent, seconds


MAX_TEXT = 20_000
"""How many characters of one text a page shows; a link leads to the whole text."""

_UNSEEN = re.compile(
    "[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
"""Characters that a page must not contain as they are: control characters, halves of a surrogate
pair, code points that are no characters, and those that change the direction of the text after
them, which even a ``bdi`` element does not stop."""
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


def visible(value: Any) -> Any:
    """Replace characters that would be invisible, or that would reorder the page around them."""
    if not isinstance(value, str) or _UNSEEN.search(value) is None:
        return value
    shown = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value)
    return Markup(shown) if isinstance(value, Markup) else shown  # noqa: S704 - it was markup


def breakable(name: str) -> Markup:
    """Return a name as HTML in which the browser may break the line after punctuation."""
    return Markup(re.sub(r"([_.:/-])", r"\1<wbr>", str(escape(name))))  # noqa: S704 - escaped


def clock(time_ns: int) -> str:
    """Return the local time of day, or date and time where that day is not today."""
    at = when(time_ns)
    if at is None:
        return f"{time_ns} ns"
    return (
        f"{at:%H:%M:%S}" if at.date() == datetime.now().astimezone().date() else f"{at:%d %b %H:%M}"
    )


def day(time_ns: int) -> str:
    """Return the local date and time."""
    at = when(time_ns)
    return f"{time_ns} ns" if at is None else f"{at:%d %b %Y, %H:%M:%S}"


def utc(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC."""
    at = when(time_ns)
    if at is None:
        return ""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(time_ns: int) -> datetime | None:
    """Return a time in the local time zone; ``None`` if `datetime` cannot hold it."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def duration(time_ns: float) -> str:
    """Return a duration, given in nanoseconds, in the unit that suits its length."""
    return seconds(max(time_ns, 0) / 1e9)


def money(usd: float) -> str:
    """Return an amount in US dollars: with cents from one dollar on, with four digits below."""
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def estimated(estimate: Estimate) -> str:
    """Return a mean with its 95 % interval: ``0.83 (0.71 to 0.95)``."""
    return f"{estimate.mean:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def end(value: float) -> str:
    """Return an end of an interval, of which two digits after the point are enough."""
    return f"{value:.2f}" if abs(value) < 10 else number(value)


def preview(stored: str | None, limit: int = 160) -> str:
    """Return the beginning of a value that is stored as JSON, on one line.

    The JSON may itself have been cut off, so it is not parsed.
    """
    if stored is None:
        return ""
    if stored.startswith('"'):
        inside = stored[1:].removesuffix('"') if len(stored) < 300 else stored[1:]
        stored = _ESCAPE.sub(_unescape, inside)
    line = " ".join(stored.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _unescape(escape_code: re.Match[str]) -> str:
    code = escape_code[1]
    if code[0] == "u" and len(code) == 5:
        character = chr(int(code[1:], 16))
        return character if character.isprintable() else "�"
    return _PLAIN.get(code, code)


def as_text(value: Any) -> str:
    """Return a captured value as text: strings as they are, anything else as indented JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def integer(text: str | None, otherwise: int) -> int:
    """Read a number above 0 that SQLite can hold; any other text gives ``otherwise``."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) < 20):
        return otherwise
    return int(text) if 0 < int(text) < 1 << 63 else otherwise


TEMPLATES = Environment(
    loader=PackageLoader("llmeval_sdk.viewer"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "breakable": breakable,
    "changed_by": changed_by,
    "clock": clock,
    "day": day,
    "duration": duration,
    "end": end,
    "money": money,
    "estimated": estimated,
    "number": number,
    "percent": percent,
    "preview": preview,
    "utc": utc,
}


def root_of(request: Request) -> str:
    """Return the path under which an app mounted the viewer; empty where it stands alone."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template with ``values``, which it reads by their names."""
    root = root_of(request)
    site = request.app.state.site
    whole = TEMPLATES.get_template(template).render(
        url=partial(url, root), site=site, here=request.url.path.removeprefix(root), **values
    )
    return HTMLResponse(whole, status)


def url(root: str, path: str, query: Mapping[str, Any] | None = None) -> str:
    """Return the address of a page. Values that are ``None`` or empty are left out of the query."""
    present = {key: value for key, value in (query or {}).items() if value not in (None, "", [])}
    return (
        f"{root}{path}{'?' + urlencode(present, doseq=True, errors='replace') if present else ''}"
    )
