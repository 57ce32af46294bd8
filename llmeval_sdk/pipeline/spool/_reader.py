"""Reads what ``marshal`` wrote, and checks lengths, depth and types before it trusts them.

``marshal.loads`` trusts its input: a damaged or planted record can crash the process or make it
allocate gigabytes. Records are written by ``marshal.dumps`` because that is on the hot path; its
format 2 has no references. They are read once each and in the background, which leaves time to be
careful.
"""

from __future__ import annotations

import struct
from typing import Any


MAX_DEPTH = 64
"""No captured value is nested as deeply."""
_DIGIT = 15
"""Bits of one digit of a long integer."""
MAX_DIGITS = 1_000
_CONSTANTS = {b"N"[0]: None, b"T"[0]: True, b"F"[0]: False}
_SEQUENCES = {b"("[0]: tuple, b"["[0]: list, b"<"[0]: set, b">"[0]: frozenset}
_INT, _LONG, _FLOAT, _COMPLEX, _BYTES, _DICT, _END = b"ilgys{0"
_TEXTS = frozenset(b"ut")
_int = struct.Struct("<i")
_float = struct.Struct("<d")
_complex = struct.Struct("<dd")
_digit = struct.Struct("<h")
_NOTHING = object()


class Unreadable(ValueError):  # noqa: N818 - a state of a record, not a mistake
    """Bytes that are no record of ours."""


def read(record: bytes) -> Any:
    """Return the value that ``marshal.dumps(value, 2)`` wrote; raises `Unreadable`."""
    try:
        value, end = _read(record, 0, MAX_DEPTH)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from None
    if value is _NOTHING or end != len(record):
        raise Unreadable("the record does not end where its value ends")
    return value


def _read(record: bytes, at: int, depth: int) -> tuple[Any, int]:  # noqa: C901, PLR0911
    """Return the value that begins at an offset, and where it ends."""
    kind = record[at]
    at += 1
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _TEXTS or kind == _BYTES:
        end = _end(record, at)
        part = record[at + 4 : end]
        return (part if kind == _BYTES else part.decode("utf-8", "surrogatepass")), end
    if kind == _INT:
        return _int.unpack_from(record, at)[0], at + 4
    if kind == _FLOAT:
        return _float.unpack_from(record, at)[0], at + 8
    if kind == _COMPLEX:
        return complex(*_complex.unpack_from(record, at)), at + 16
    if kind == _LONG:
        return _long(record, at)
    if depth == 0:
        raise Unreadable("too deep")
    if kind in _SEQUENCES:
        return _sequence(record, at, depth - 1, _SEQUENCES[kind])
    if kind == _DICT:
        return _dict(record, at, depth - 1)
    if kind == _END:
        return _NOTHING, at
    raise Unreadable(f"no value begins with {kind:#x}")


def _end(record: bytes, at: int) -> int:
    """Return where bytes that begin with their length end, which must be inside the record."""
    size = _int.unpack_from(record, at)[0]
    if not 0 <= size <= len(record) - at - 4:
        raise Unreadable("a length leads out of the record")
    return int(at + 4 + size)


def _long(record: bytes, at: int) -> tuple[int, int]:
    digits = _int.unpack_from(record, at)[0]
    if abs(digits) > MAX_DIGITS:
        raise Unreadable("an integer is too long")
    at += 4
    number = 0
    for place in range(abs(digits)):
        digit = _digit.unpack_from(record, at)[0]
        if not 0 <= digit < 1 << _DIGIT:
            raise Unreadable("an integer has no such digit")
        number |= digit << place * _DIGIT
        at += 2
    return (-number if digits < 0 else number), at


def _sequence(record: bytes, at: int, depth: int, kind: type) -> tuple[Any, int]:
    size = _int.unpack_from(record, at)[0]
    if not 0 <= size <= len(record) - at - 4:  # each item takes a byte at least
        raise Unreadable("a sequence is longer than its record")
    at += 4
    items = []
    for _ in range(size):
        item, at = _read(record, at, depth)
        if item is _NOTHING:
            raise Unreadable("a sequence ends too early")
        items.append(item)
    return kind(items), at


def _dict(record: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    mapping: dict[Any, Any] = {}
    while True:
        key, at = _read(record, at, depth)
        if key is _NOTHING:
            return mapping, at
        mapping[key], at = _read(record, at, depth)
        if mapping[key] is _NOTHING:
            raise Unreadable("a key has no value")
