"""How pages are written: values for people, scores as cells, marked and folded texts, templates.

The templates escape everything. Every link is built by `url`, below the path where the app mounted
the viewer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.model.chat import both_ends, messages_of, steps_of
from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.statistics.reasons import explain
from llmeval_sdk.store.filters import MAX_CONDITIONS
from llmeval_sdk.store.span_lists import ListedOutcome
from llmeval_sdk.store.traffic import has_abstained
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
    here, where = request.url.path.removeprefix(root), where_of(request)
    others = [item for item in request.query_params.multi_items() if item[0] not in _PLACES]
    whole = TEMPLATES.get_template(template).render(
        url=partial(_kept_url, root, where), site=site, here=here,
        where=where if _is_filtered(here) else None, other_params=others, **values,
    )  # fmt: skip
    return HTMLResponse(whole, status)


FILTERED = ("/overview", "/scores", "/review", "/sessions", "/versions", "/label")
"""The pages, beside the list of traces, that take conditions and keep them in links."""
_PLACES = ("where", "after", "skip", "last")
"""Parameters that make no sense under another filter."""


def _is_filtered(path: str) -> bool:
    """Say whether a page takes conditions in its address."""
    return path == "/" or any(path == each or path.startswith(f"{each}/") for each in FILTERED)


def where_of(request: Request) -> tuple[str, ...]:
    """Return the conditions in the address of a page, of which too many are left out."""
    typed = (text.strip() for text in request.query_params.getlist("where"))
    return tuple(dict.fromkeys(filter(None, typed)))[:MAX_CONDITIONS]


def _kept_url(
    root: str, where: Sequence[str], path: str, query: Mapping[str, Any] | None = None
) -> str:
    """Return the address of a page, which keeps the conditions unless the query has its own."""
    if where and _is_filtered(path) and "where" not in (query or {}):
        query = {**(query or {}), "where": list(where)}
    return url(root, path, query)


def url(root: str, path: str, query: Mapping[str, Any] | None = None) -> str:
    """Return the address of a page. Values that are ``None`` or empty are left out of the query."""
    present = {key: value for key, value in (query or {}).items() if value not in (None, "", [])}
    return (
        f"{root}{path}{'?' + urlencode(present, doseq=True, errors='replace') if present else ''}"
    )


# Markdown as a page shows it: what a model wrote is formatted, and nothing of it is obeyed.
#
# HTML in the text stays text. Links and images stay as they were written, so that no answer can
# lead a reader elsewhere or tell a stranger that it was read.

MAX_RENDERED_TEXT = 8_000
"""A longer text is shown as it was written. Some texts of 20,000 characters take seconds."""
MAX_RENDERED_LINES = 200
_MAX_COLUMNS = 20
_MARKUP = re.compile(
    r"^ {0,3}(?:#{1,6} |[-*+] |\d{1,3}[.)] |> |```|~~~|\|.*\|)|\*\*\S|`[^`\n]+`", re.MULTILINE
)
_PARSER = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 12})
    .enable(["table", "strikethrough"])
    .disable(["html_inline", "html_block", "link", "image", "autolink", "reference", "entity"])
)


def rendered(text: str) -> Markup | None:
    """Return a text formatted as its Markdown asks.

    ``None`` is returned for a text without Markdown, or with more of it than a page has time for.
    """
    lines = text.split("\n")
    if (
        len(text) > MAX_RENDERED_TEXT
        or len(lines) > MAX_RENDERED_LINES
        or _MARKUP.search(text) is None
    ):
        return None
    if max(line.count("|") for line in lines) > _MAX_COLUMNS:
        return None
    return Markup(_PARSER.render(text))  # noqa: S704 - the parser escapes what it does not format


Tone = Literal["good", "fair", "bad", "plain", "quiet"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: the outcome of one evaluator on one span."""

    text: str
    tone: Tone = "plain"
    share: float | None = None
    """Length of the bar, from 0 to 1; ``None`` for a value that is not a share."""
    title: str = ""


def cell_of_outcome(outcome: ListedOutcome) -> Cell:
    """Return the cell of a score whose value is written as the store holds it."""
    if outcome.reason is not None:
        words = outcome.reason.replace("_", " ")
        return Cell(words, "quiet", title=f"Did not run. {explain(outcome.reason).meaning}")
    if outcome.error is not None:
        return Cell(outcome.error, "bad", title="The evaluator failed")
    value = bool(outcome.value) if type(outcome.value) is int else outcome.value
    return cell(outcome.name, value, outcome.label, near_constant=outcome.near_constant)


def cell_of(evaluation: Evaluation) -> Cell:
    """Return the cell of an evaluation."""
    if evaluation.error is not None:
        return Cell(evaluation.error.type, "bad", title="The evaluator failed")
    near_constant = values.is_near_constant(evaluation.metadata)
    return cell(evaluation.name, evaluation.value, evaluation.label, near_constant=near_constant)


def cells_of_outcomes(scores: Mapping[str, ListedOutcome]) -> dict[str, Cell]:
    """Return the cells of a span in a list.

    They have no colour if the record has no answer, because then no score is good or bad.
    """
    cells = {name: cell_of_outcome(score) for name, score in scores.items()}
    if not has_abstained({name: score.value for name, score in scores.items()}):
        return cells
    return {name: colourless(cell) for name, cell in cells.items()}


def colourless(cell: Cell) -> Cell:
    """Return a cell that is neither good nor bad."""
    if cell.tone == "quiet":
        return cell
    return replace(cell, tone="plain", title=cell.title or "The app gave no answer")


def cell(name: str, value: Any, label: str | None = None, *, near_constant: bool = False) -> Cell:
    """Return the cell of a value."""
    is_rated = not isinstance(value, str) and not values.is_unrated(name)
    if label and is_rated and values.is_neutral(label):
        shown = "Not applicable" if value is None else number(value)
        return Cell(label, "quiet", title=f"{shown}: {label}, neither good nor bad")
    if label == values.NOT_CHECKED:
        return Cell("not checked", "quiet", title="Nothing could be compared")
    if value is None:
        return Cell("n/a", "quiet", title="Not applicable")
    standing = values.standing(name, value, label)
    tone: Tone = "plain" if standing == "neutral" or near_constant else standing
    if near_constant:
        label = "neither good nor bad: nearly the same whatever was retrieved"
    if isinstance(value, bool):
        return Cell(values.word(value), tone)
    if isinstance(value, str):
        return Cell(value.replace("_", " "), tone, title=label or value)
    is_share = 0 <= value <= 1 and not values.is_measure(name)
    text = f"{value:.2f}" if is_share else number(value)
    return Cell(text, tone, value if is_share else None, label or "")


MAX_MARKS = 200
_BOX = 400, 10
"""How many characters and lines fit the smallest box, the one on a phone."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """As much of a text as a page shows, cut into marked and plain parts."""

    parts: tuple[tuple[str, bool], ...]
    """The parts in order, each with whether it is marked."""
    rest: int
    """How many characters are left out at the end."""

    @property
    def scrolls(self) -> bool:
        """Whether the text may need a scroll bar; its box must then be reachable by keyboard."""
        texts = [text for text, _ in self.parts]
        return sum(map(len, texts)) > _BOX[0] or sum(text.count("\n") for text in texts) > _BOX[1]


def marked(text: str, spans: Iterable[Sequence[int]] = (), limit: int = MAX_TEXT) -> MarkedText:
    """Cut a text into parts, marking the ranges ``[start, end]`` of its characters.

    Ranges that make no sense are ignored, and at most `MAX_MARKS` are used.
    """
    shown = text[:limit]
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in sorted(_usable(spans, len(shown)))[:MAX_MARKS]:
        if end > at:
            parts += [(shown[at : max(start, at)], False), (shown[max(start, at) : end], True)]
            at = end
    parts.append((shown[at:], False))
    return MarkedText(tuple((part, on) for part, on in parts if part), len(text) - len(shown))


def places(text: str, quotes: Iterable[str | None]) -> list[tuple[int, int]]:
    """Return the range of the first occurrence of each quote that the text contains."""
    ranges = []
    for quote in quotes:
        start = text.find(quote) if quote else -1
        if quote and start >= 0:
            ranges.append((start, start + len(quote)))
    return ranges


def _usable(spans: object, length: int) -> list[tuple[int, int]]:
    """Return what is a range of characters; stored metadata may hold anything else."""
    ranges = []
    for span in spans if isinstance(spans, Iterable) else ():
        if isinstance(span, (list, tuple)) and len(span) == 2:
            start, end = span
            if type(start) is int and type(end) is int and 0 <= start < end:
                ranges.append((start, min(end, length)))
    return ranges


# Values as a tree whose branches a reader can fold, bounded in depth, number and length.

MAX_NODES = 300
"""Values that one tree shows."""
_MAX_IN_ONE = 100
"""Values of one mapping or list that are shown."""
_MAX_DEPTH = 8
_MAX_FOLDED = 2_000
_READ_TEXT = 60_000
"""A text of at most so many characters is read as JSON where it looks like an object or a list."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value: a text, or a mapping or list with the values in it."""

    name: str
    """Its key in a mapping, or its number in a list; empty at the top."""
    text: MarkedText | None
    """The text of the value; ``None`` for a mapping or a list."""
    summary: str
    """Says how much a mapping or list holds."""
    nodes: tuple[Node, ...]
    left_out: int
    """How many values of a mapping or list are not in ``nodes``."""
    is_open: bool
    """Whether the branch is unfolded at first."""


def folded(value: Any) -> Node:
    """Return a value as a tree; a text that is JSON of an object or a list is one, too."""
    return _node("", read(value), [MAX_NODES], 0)


def read(value: Any) -> Any:
    """Return the object or list that a text holds as JSON; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) <= _READ_TEXT:
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _node(name: str, value: Any, room: list[int], depth: int) -> Node:
    room[0] -= 1
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        return Node(name[:200], marked(_text(value), limit=_MAX_FOLDED), "", (), 0, is_open=False)
    if isinstance(value, Mapping):
        items = [(str(key), held) for key, held in value.items()]
        summary = f"{len(items):,} {'field' if len(items) == 1 else 'fields'}"
    else:
        items = [(str(number), held) for number, held in enumerate(value, 1)]
        summary = f"{len(items):,} {'item' if len(items) == 1 else 'items'}"
    nodes = []
    if depth < _MAX_DEPTH:
        for key, held in items[:_MAX_IN_ONE]:
            if room[0] <= 0:
                break
            nodes.append(_node(key, held, room, depth + 1))
    left_out = len(items) - len(nodes)
    is_open = depth == 0 or (depth == 1 and len(items) <= 5)
    return Node(name[:200], None, summary, tuple(nodes), left_out, is_open)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What was asked or answered, in the form in which a person reads it best.
#
# Messages of a chat are shown as turns, Markdown is formatted, other values are trees that fold,
# and any other text is shown as it was written. A link always leads to the whole as it was
# captured.

MAX_MESSAGES = 40
_MAX_CHAT_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat, or a call of a tool in it."""

    role: str
    name: str
    """The name of the tool; empty for a message."""
    content: Content | None
    arguments: Node | None
    result: Node | None
    error: str


@dataclass(frozen=True, slots=True)
class Content:
    """A value as a page shows it; exactly one of the first four fields is set."""

    text: MarkedText | None = None
    formatted: Markup | None = None
    tree: Node | None = None
    messages: tuple[ChatMessage, ...] = ()
    left_out: int = 0
    """How many messages in the middle are not shown."""
    others: Node | None = None
    """The fields of a request other than its messages."""


def content_of(value: Any, marks: Iterable[Sequence[int]] = ()) -> Content:
    """Return what a page shows of a captured value; ``marks`` are ranges of a text to mark."""
    value = value if marks else read(value)
    if isinstance(value, str):
        return text_content(value, marks)
    messages = messages_of(value.get("messages") if isinstance(value, Mapping) else value)
    if messages is not None:
        return _chat(value, messages)
    if isinstance(value, (Mapping, list, tuple)) and value:
        return Content(tree=folded(value))
    return Content(text=folded(value).text)


def text_content(text: str, marks: Iterable[Sequence[int]] = (), limit: int = 20_000) -> Content:
    """Return a text, formatted if it is Markdown and no part of it is to be marked."""
    formatted = None if marks else rendered(text)
    if formatted is not None:
        return Content(formatted=formatted)
    return Content(text=marked(text, marks, limit))


def _chat(value: object, messages: list[object]) -> Content:
    steps = steps_of(messages)
    if steps is None:
        return Content(tree=folded(value))
    shown = both_ends(steps, MAX_MESSAGES)
    others = {}
    if isinstance(value, Mapping):
        others = {key: held for key, held in value.items() if key != "messages"}
    return Content(
        messages=tuple(
            ChatMessage(
                step.role,
                (step.name or "")[:200],
                None
                if step.role == "tool"
                else text_content(step.content or "", (), _MAX_CHAT_TEXT),
                None if step.arguments is None else folded(step.arguments),
                None if step.result is None else folded(step.result),
                (step.error or "")[:300],
            )
            for step in shown
        ),
        left_out=len(steps) - len(shown),
        others=folded(others) if others else None,
    )
