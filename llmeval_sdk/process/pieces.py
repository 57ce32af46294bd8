"""What one call into C may read, and where a thread in the background pauses between such calls.

A call into C keeps the interpreter's lock until it returns: as long as it reads, the app's event
loop stands. So no pattern reads more than `MAX_SEARCHED` characters at once, and neither `json` nor
a method of `str` more than `MAX_READ`; longer texts are read in pieces.
"""

from __future__ import annotations

import json
import marshal
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, AnyStr, TypeVar


MAX_SEARCHED = 1 << 16
"""Characters or bytes that one call of a pattern reads: some milliseconds at the most."""
MAX_READ = 1 << 18
"""Characters or bytes that one call of `json`, or of a method of a text, reads."""
OVERLAP = 1 << 10
"""Characters that two pieces share: a match is found whole if it is no longer than this."""
SHORT = 1 << 11
"""Characters that are read without a pause: a generator for each passage of ordinary length took a
tenth of the worker's instructions."""
MAX_WRITTEN = 1 << 24
"""Characters of one value that are written as JSON: a value of a few lists that stand in each other
twice would take more than any machine has."""
_WITHOUT_REFERENCES = 2
"""The format of ``marshal`` that writes a text as often as it stands there, as JSON does."""
_CONTAINERS = frozenset((list, tuple, dict))
_BESIDE = 8
"""Characters that a value counts as beside its text: signs of JSON, or a number."""
_ITEMS = 64
"""Matches, or other items, between two pauses: some tens of microseconds."""
_Item = TypeVar("_Item")


class _Pauses(threading.local):
    pause: Callable[[], None] | None = None


_pauses = _Pauses()


def pause_with(pause: Callable[[], None] | None) -> None:
    """Have this thread call something between its pieces of work, which may sleep."""
    _pauses.pause = pause


def pause() -> None:
    """Let a thread that works beside an app pause, if it has worked long enough; others go on."""
    if _pauses.pause is not None:
        _pauses.pause()


def paced(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield items of which there may be many, with pauses."""
    for count, item in enumerate(items, 1):
        yield item
        if not count % _ITEMS:
            pause()


def find_all(
    pattern: re.Pattern[AnyStr],
    text: AnyStr,
    start: int = 0,
    end: int | None = None,
    *,
    overlap: int = OVERLAP,
) -> Iterator[re.Match[AnyStr]]:
    """Yield what ``pattern.finditer`` does, but read a long text in pieces, with pauses.

    A match at the end of a piece is looked for again in the next one. One that is longer than the
    overlap may be missed, and one that is longer than a piece ends with it.
    """
    end = len(text) if end is None else min(end, len(text))
    if end - start <= SHORT:
        return pattern.finditer(text, start, end)
    return _find_in_pieces(pattern, text, start, end, overlap)


def _find_in_pieces(
    pattern: re.Pattern[AnyStr], text: AnyStr, start: int, end: int, overlap: int
) -> Iterator[re.Match[AnyStr]]:
    while start < end:
        stop = min(start + MAX_SEARCHED, end)
        sure = stop if stop == end else stop - overlap
        after = sure
        for count, match in enumerate(pattern.finditer(text, start, stop), 1):
            if match.end() > sure and match.start() > start:
                after = match.start()  # it may go on behind the piece
                break
            yield match
            after = max(match.end(), sure)
            if not count % _ITEMS:
                pause()
        start = after
        pause()


def end_of_run(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Return where characters of one class end, for the pattern of any number of them."""
    while (match := pattern.match(text, start, start + MAX_SEARCHED)) and match.end() > start:
        start = match.end()
        pause()
    return start


def replace_all(
    pattern: re.Pattern[str],
    replacement: Callable[[re.Match[str]], str],
    text: str,
    *,
    overlap: int = OVERLAP,
) -> str:
    """Return what ``pattern.sub`` does, but read a long text as `find_all` does."""
    parts: list[str] = []
    done = 0
    for match in find_all(pattern, text, overlap=overlap):
        parts += (text[done : match.start()], replacement(match))
        done = match.end()
    return "".join((*parts, text[done:])) if parts else text


def windows(data: bytes, overlap: int) -> Iterator[bytes]:
    """Yield pieces of bytes that are as long as one search reads and share so many, with pauses."""
    start = 0
    while len(data) - start > MAX_SEARCHED:
        yield data[start : start + MAX_SEARCHED]
        start += MAX_SEARCHED - overlap
        pause()
    yield data[start:] if start else data


def pieces(text: str, size: int = MAX_SEARCHED) -> Iterator[str]:
    """Yield the pieces of a text, with pauses: each ends behind a blank, where there is one."""
    start = 0
    while len(text) - start > size:
        blank = text.rfind(" ", start + size // 2, start + size)
        stop = start + size if blank < 0 else blank + 1
        yield text[start:stop]
        start = stop
        pause()
    yield text[start:] if start else text


def read_json(text: str) -> Any:
    """Read JSON; raises ``ValueError`` for what is none, and for more than one call may read."""
    if len(text) > MAX_READ:
        raise ValueError(f"more than {MAX_READ:,} characters of JSON")
    return json.loads(text)


def is_larger(value: Any, most: int) -> bool:
    """Return whether the texts and other values in a value come to more characters than ``most``.

    A value is counted as often as it stands there, as JSON writes it, and the counting ends with
    the first one that is too much.
    """
    cls = type(value)
    if cls is str:
        return len(value) > most
    return not (cls in _CONTAINERS and _is_surely_small(value, most)) and _is_larger(value, most)


def _is_surely_small(value: Any, most: int) -> bool:
    """Measure a value in C, where that is safe: looking at each part took a tenth of a write.

    The newest ``marshal`` writes once what stands in several places. So no part is larger than what
    it writes, there are as many parts as the lists and mappings have items, and what an older one
    would write has a bound.
    """
    try:
        largest = len(marshal.dumps(value))
        containers, parts = [value], 1
        while containers:
            container = containers.pop()
            parts += len(container)
            if parts * _BESIDE > most or parts * largest > MAX_WRITTEN:
                return False
            items = container.values() if type(container) is dict else container
            containers += [item for item in items if type(item) in _CONTAINERS]
        return parts * largest <= most or len(marshal.dumps(value, _WITHOUT_REFERENCES)) <= most
    except ValueError:  # it holds more than plain values
        return False


def _is_larger(value: Any, most: int) -> bool:
    values, size = [value], 0
    while values and size <= most:
        value = values.pop()
        cls = type(value)
        size += _BESIDE
        if cls is str or isinstance(value, str):
            size += len(value)
        elif cls is dict or isinstance(value, dict):
            size += sum([len(key) + _BESIDE for key in value if type(key) is str])
            values += value.values()
        elif cls is list or isinstance(value, (list, tuple)):
            values += value
    return size > most


def json_text(encoder: json.JSONEncoder, value: Any) -> str:
    """Write a value as JSON as an encoder does, but a large one in several calls, with pauses.

    What is neither a text, a list nor a mapping with texts for keys is written in one call.

    Raises:
        ValueError: there is more than `MAX_WRITTEN` to write.
    """
    if not is_larger(value, MAX_READ):
        return _encoded(encoder, value)
    if _is_larger(value, MAX_WRITTEN):
        raise ValueError(f"more than {MAX_WRITTEN:,} characters of JSON to write")
    return _json_text(encoder, value)


def _json_text(encoder: json.JSONEncoder, value: Any) -> str:
    cls = type(value)
    if cls not in (str, list, tuple, dict) or not is_larger(value, MAX_READ):
        return _encoded(encoder, value)
    pause()
    if cls is str:
        most = MAX_READ - _BESIDE
        parts = [_json_text(encoder, piece)[1:-1] for piece in pieces(value, most)]
        return f'"{"".join(parts)}"'
    if cls is list or cls is tuple:
        parts = [_json_text(encoder, item) for item in value]
        return f"[{encoder.item_separator.join(parts)}]"
    if all(type(key) is str for key in value):
        fields = sorted(value.items()) if encoder.sort_keys else value.items()
        parts = [
            f"{encoder.encode(key)}{encoder.key_separator}{_json_text(encoder, item)}"
            for key, item in fields
        ]
        return f"{{{encoder.item_separator.join(parts)}}}"
    return encoder.encode(value)


_LONG = 256
"""Characters from which a text is worth what it costs to look at its signs."""
_SIGNS = bytes(byte < 32 and chr(byte) not in "\n\r\t" for byte in range(256))
"""1 for each control character that is written by its number."""
_ESCAPES = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"))
"""The backslash comes first, for it is part of the others."""
_quote = json.encoder.encode_basestring


def _encoded(encoder: json.JSONEncoder, value: Any) -> str:
    is_long = type(value) is str and len(value) >= _LONG
    return _quoted(value) if is_long and not encoder.ensure_ascii else encoder.encode(value)


def _quoted(text: str) -> str:
    """Write a text as JSON in a third of the time that the encoder takes for each character.

    Few characters are escaped in a text that people read, and one kind is soon found and replaced:
    among bytes ten times as soon as among characters, if one of them is from another alphabet.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return _quote(text)
    if b"\1" in data.translate(_SIGNS):
        return _quote(text)
    for sign, escape in _ESCAPES:
        if sign in data:
            data = data.replace(sign, escape)
    return f'"{data.decode()}"'
