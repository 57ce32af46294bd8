"""Writes an image, sound or file that stands in a text as base64 as a marker of what it was.

Such a text says nothing to a score, a judge or a person, and fills stores and prompts.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import unquote_to_bytes


SHORTEST = 1 << 12
"""Characters from which on a text is looked at: passages of the usual length shall not pay."""
LONG = 1 << 14
"""Characters from which on data of a few hundred characters are looked for within a text: reading
it through costs 0.6 ns for each character."""
HASHED = 1 << 17
"""Characters of base64 that are hashed, the first ones. This bounds the time to 0.3 ms."""
MOST_KEPT = 1 << 17
"""Characters of a text, without its data, after which no more data are looked for: the rest of it
is cut off by `capture`."""
MOST_EMBEDDED = 200
"""Images and files that are replaced within one text, and beginnings that are looked at."""
_EDGE = 256
"""Characters at both ends of a text that decide whether all of it is base64."""
_STRIDE = 1 << 11
"""How far apart a text is looked into: data as long as this, and an edge more, are always seen."""
_LEAP = 1 << 13
"""How far apart data are looked into once they are long."""
_LONGEST_HEAD = 300
_DEEPEST = 20

_HEAD = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})(?:;[\w.+-]{1,60}(?:=[\w.+-]{0,60})?){0,3}\Z", re.ASCII
)
_ENCODED = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})(?:;[\w.+-]{1,60}(?:=[\w.+-]{0,60})?){0,3},", re.ASCII
)
_MARK = ";base64,"
_PAYLOAD = re.compile(r"[\w+/=%-]*", re.ASCII)
_PERCENT = re.compile(r"[\w.~!*:;@&=+$,/?%#-]*", re.ASCII)
_FEWEST_PERCENT = 4
"""How often a percent sign stands in a text at the least that is written in percents."""
_BEGINNINGS = {
    "iVBORw0KGg": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
    "SUQz": "audio/mpeg",
    "T2dnUw": "audio/ogg",
}
"""What files of a type begin with, as base64; a RIFF is a sound where it says so."""
_STARTS = tuple(_BEGINNINGS)
_ANY_DATA = re.compile(r"(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=\D*\d)[\w+/=\\-]*", re.ASCII)
"""Base64 has capital and small letters and figures; a number in hex or a sequence has not."""
_RUN = re.compile(r"[\w+/=\\-]*", re.ASCII)
"""Base64 in a text of JSON may have backslashes: before a slash, and where its lines end."""
_MOST_BACKSLASHES = 24
"""In an edge: data in lines of 40 have 13, and some more stand before slashes."""
_NO_RUN = re.compile(r"[^\w+/=\\-]", re.ASCII)
_SHORTEST_LINE = 40
_LINE_END = re.compile(r"\r?\n")


def without_media(text: str) -> str:
    """Return a long text with markers in the place of the images, sounds and files in it.

    A marker is ``<image/png of 98304 bytes, sha256 1a2b3c4d5e6f7a8b>``, or ``<base64 of …>`` where
    the type is not known. The hash is of the bytes; of a larger file, of its first 98,304 bytes.
    """
    if text.startswith(_STARTS) and _is_base64(text, 0):
        return _marker(_kind_of(text), text)
    if text.find(" ", 0, _EDGE) < 0 and _is_any_data(text):
        return _marker("base64", text)
    if text.startswith("data:"):
        at = text.find(_MARK, 0, _LONGEST_HEAD)
        head = _HEAD.match(text, 0, at) if at >= 0 else None
        if head is not None and _is_base64(text, at + len(_MARK)):
            return _marker(head[1], text[at + len(_MARK) :])
    text = _without_runs(text)
    return _without_urls(text) if len(text) >= LONG or text.startswith("data:") else text


def marked(value: Any) -> Any:
    """Return a value with markers for the data in its texts: itself, if there are none in it.

    Lists, mappings and dataclasses are read 20 levels deep; bytes become markers too.
    """
    return _marked(value, 0) if _may_hold_data(value, 0) else value


def _may_hold_data(value: Any, depth: int) -> bool:
    """Say whether there is a long text or bytes in a value: in most there is none."""
    cls: Any = type(value)
    if cls is str:
        return len(value) > SHORTEST
    if value is None or cls is float or cls is int or cls is bool:
        return False
    if depth >= _DEEPEST:
        return False
    depth += 1
    if cls is dict:
        value = value.values()
    elif cls is not list and cls is not tuple:
        if not (names := _names_of(cls)):
            return isinstance(value, (str, bytes, bytearray, Mapping, list, tuple))
        value = [getattr(value, name) for name in names]
    return any(_may_hold_data(item, depth) for item in value if item is not None)


@lru_cache(maxsize=1_000)
def _names_of(cls: type) -> tuple[str, ...]:
    """Return the fields with which a dataclass is made."""
    return tuple(own.name for own in fields(cls) if own.init) if is_dataclass(cls) else ()


def _marked(value: Any, depth: int) -> Any:  # noqa: PLR0911
    if isinstance(value, str):
        return without_media(value) if len(value) > SHORTEST else value
    if isinstance(value, (bytes, bytearray)):
        return marker_of(value)
    if depth >= _DEEPEST:
        return value
    depth += 1
    if isinstance(value, (list, tuple)):
        items = [_marked(item, depth) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        held = {key: _marked(item, depth) for key, item in value.items()}
        return held if any(held[key] is not item for key, item in value.items()) else value
    changed = {}
    cls: Any = type(value)
    for name in _names_of(cls):
        item = getattr(value, name)
        if (new := _marked(item, depth)) is not item:
            changed[name] = new
    return replace(value, **changed) if changed else value


def marker_of(data: bytes | bytearray) -> str:
    """Return the marker of bytes that are no text."""
    start = binascii.b2a_base64(data[:12], newline=False).decode()
    kind = _kind_of(start) if start.startswith(_STARTS) else type(data).__name__
    return _written(kind, len(data), bytes(data[: HASHED * 3 // 4]))


def data_url(data: bytes | bytearray) -> str:
    """Write bytes as a data URL."""
    start = binascii.b2a_base64(data[:12], newline=False).decode()
    kind = _kind_of(start) if start.startswith(_STARTS) else "application/octet-stream"
    return f"data:{kind}{_MARK}{binascii.b2a_base64(data, newline=False).decode()}"


def _kind_of(text: str) -> str:
    start = next((start for start in _STARTS if text.startswith(start)), None)
    if start is None:
        return "base64"
    is_sound = start == "UklGR" and text[10:16] == "BXQVZF"
    return "audio/wav" if is_sound else _BEGINNINGS[start]


def _is_base64(text: str, start: int) -> bool:
    """Say whether both ends of a text, from a place on, are base64."""
    first = _PAYLOAD.fullmatch(text, start, min(len(text), start + _EDGE))
    last = _PAYLOAD.fullmatch(text, max(start, len(text) - _EDGE))
    return first is not None and last is not None and " " not in text[:HASHED]


def _is_any_data(text: str) -> bool:
    return _ANY_DATA.fullmatch(text[:_EDGE]) is not None and _is_base64(text, 0)


def _without_runs(text: str) -> str:
    """Replace data of more than 2,304 characters, wherever they stand in a text.

    A text is looked into at places so far apart that none of them is missed. Most texts have a
    space at each of these places, and then nothing more is done.
    """
    parts: list[str] = []
    done = at = 0
    last = len(text) - _EDGE
    end = min(last, MOST_KEPT)
    find = text.find
    while at < end:
        if find(" ", at, at + _EDGE) >= 0 or (run := _run_around(text, at, done)) is None:
            at += _STRIDE
            continue
        begins, marker, at = run
        parts += (text[done:begins], marker)
        end = 0 if len(parts) >= 2 * MOST_EMBEDDED else min(last, end + at - begins)
        done = at
    return "".join([*parts, text[done:]]) if parts else text


def _run_around(text: str, at: int, done: int) -> tuple[int, str, int] | None:
    """Return where the data around a place begin and end, and their marker between."""
    if text.find("\n", at, at + _EDGE) >= 0:
        found = _lines_around(text, at, done)
    elif text.count("\\", at, at + _EDGE) > _MOST_BACKSLASHES:
        return None
    elif _RUN.fullmatch(text, at, at + _EDGE) and _ANY_DATA.match(text, at, at + _EDGE):
        before = text[max(done, at - _STRIDE) : at]
        begins = at - len(before) + max((m.end() for m in _NO_RUN.finditer(before)), default=0)
        found = begins, _end_of_run(text, at)
    else:
        return None
    if found is None:
        return None
    begins, end = found
    payload = text[begins:end]
    if payload.endswith("\\"):  # of the quotation mark that ends it, in JSON within JSON
        payload, end = payload[:-1], end - 1
    mark = text.rfind("data:", max(done, begins - _LONGEST_HEAD), begins)
    head = None
    if mark >= 0 and text.endswith(_MARK, mark, begins):
        head = _HEAD.match(text, mark, begins - len(_MARK))
    kind = _kind_of(payload) if head is None else head[1]
    return begins if head is None else mark, _marker(kind, payload), end


_BETWEEN = ("\\r", "\\n", "\r", "\n", "\\")
"""What stands between the lines of base64, or before a slash of it in JSON."""


def _end_of_run(text: str, at: int) -> int:
    """Return where data end. Of those that are very long only samples are read."""
    while True:
        run = _RUN.match(text, at, at + HASHED)
        assert run is not None
        if run.end() < at + HASHED:
            return run.end()
        at = run.end()
        while at + _LEAP < len(text) and _RUN.fullmatch(text, at + _LEAP, at + _LEAP + _EDGE):
            at += _LEAP


def _lines_around(text: str, at: int, done: int) -> tuple[int, int] | None:
    """Return where data of lines of one length begin and end, around a place."""
    lines = _LINE_END.split(text[at : at + _STRIDE])[1:-1]
    width = len(lines[0]) if lines else 0
    if width < _SHORTEST_LINE or any(len(line) != width for line in lines[: _EDGE // width]):
        return None
    if not _ANY_DATA.fullmatch("".join(lines[: 1 + _EDGE // width])):
        return None
    first = text.index("\n", at) + 1
    gap = 2 if text[first - 2] == "\r" else 1
    line = re.compile(rf"[\w+/-]{{{width}}}\r?\n", re.ASCII)
    begins = first
    while begins - width - gap >= done and line.fullmatch(text, begins - width - gap, begins):
        begins -= width + gap
    if begins == first:  # what stands before may be the first line, with a word in front of it
        before = _NO_RUN.split(text[max(done, first - gap - width) : first - gap])[-1]
        begins -= gap + len(before) if len(before) == width else 0
    end = _end_of_lines(text, first, width)
    rest = _LAST_LINE.match(text, end, end + width + gap)
    if rest is not None and len(rest[0].strip()) <= width:
        return begins, rest.end()
    return begins, max(begins, end - gap)


def _end_of_lines(text: str, at: int, width: int) -> int:
    lines = re.compile(rf"(?:[\w+/-]{{{width}}}\r?\n){{0,1000}}", re.ASCII)
    while match := lines.match(text, at):
        if match.end() == at:
            break
        at = match.end()
    return at


_LAST_LINE = re.compile(
    r"(?:[\w+/-]{4}){0,100}(?:[\w+/-]{2}==|[\w+/-]{3}=|[\w+/-]{4})(?![\w+/=-])", re.ASCII
)


def _without_urls(text: str) -> str:
    """Replace the data URLs of a few hundred characters, and those written in percents."""
    parts: list[str] = []
    done = 0
    at = text.find("data:", 0, HASHED)
    for _ in range(MOST_EMBEDDED):
        if at < 0:
            break
        end = at + len("data:")
        head = _ENCODED.match(text, at, at + _LONGEST_HEAD)
        if head is not None:
            is_base64 = head[0].endswith(_MARK)
            payload = (_PAYLOAD if is_base64 else _PERCENT).match(text, head.end())
            assert payload is not None
            held = payload[0]
            if len(held) >= _EDGE and (is_base64 or held.count("%") >= _FEWEST_PERCENT):
                marker = _marker(head[1], held) if is_base64 else _percents(head[1], held)
                parts += (text[done:at], marker)
                done = end = payload.end()
        at = text.find("data:", end, done + HASHED)
    return "".join([*parts, text[done:]]) if parts else text


def _marker(kind: str, payload: str) -> str:
    length, first = len(payload), payload[: HASHED * 5 // 4]
    if "\\" in first or "\n" in first:
        backslashes = payload.count("\\")
        length -= payload.count("\n") + payload.count("\r") + backslashes
        if backslashes:  # else the slower counts are saved
            length -= payload.count("\\n") + payload.count("\\r")
        for mark in _BETWEEN:
            first = first.replace(mark, "")
    size = length * 3 // 4 - payload[-2:].count("=")
    first = first[:HASHED]
    try:
        data = binascii.a2b_base64(first.encode("ascii"))
    except ValueError:  # it only looks like base64
        data = first.encode("utf-8", "replace")
    return _written(kind, size, data)


def _percents(kind: str, payload: str) -> str:
    size = len(payload) - 2 * payload.count("%")
    return _written(kind, size, unquote_to_bytes(payload[:HASHED]))


def _written(kind: str, size: int, data: bytes) -> str:
    return f"<{kind.lower()} of {size} bytes, sha256 {sha256(data).hexdigest()[:16]}>"
