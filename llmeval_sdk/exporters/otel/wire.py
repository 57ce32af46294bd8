"""Protobuf's wire format, as far as OTLP needs it: a few kinds of field, written and read.

Written by hand because it is small, needs no package that could clash with the app's protobuf, and
takes less time than filling generated message objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct


Attribute = str | bool | int | float | Sequence[str]
"""What an attribute's value may be; a sequence holds strings."""

_FIXED64 = Struct("<Q").pack
_FIXED32 = Struct("<I").pack
_DOUBLE = Struct("<d").pack
_ONE_BYTE = [bytes((number,)) for number in range(128)]
_MAX_KEYS = 4_000
_keys: dict[str, bytes] = {}
"""Keys of attributes as they are written, since there are few different ones."""


def varint(number: int) -> bytes:
    """Write a whole number; a negative one takes ten bytes."""
    if 0 <= number < 128:
        return _ONE_BYTE[number]
    if 0 <= number < 16_384:
        return bytes((number & 127 | 128, number >> 7))
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field: int, kind: int) -> bytes:
    """Write a field's number and kind: 0 varint, 1 eight bytes, 2 a length and bytes, 5 four."""
    return varint(field << 3 | kind)


def block(tag: bytes, content: bytes) -> bytes:
    """Write a field that holds bytes, a text or a message."""
    return tag + varint(len(content)) + content


def utf8(text: str) -> bytes:
    """Encode a text; what UTF-8 cannot hold (lone surrogates) becomes question marks."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def fixed64(tag: bytes, number: int) -> bytes:
    """Write a time in nanoseconds."""
    return tag + _FIXED64(max(0, number) & 0xFFFFFFFFFFFFFFFF)


def fixed32(tag: bytes, number: int) -> bytes:
    """Write flags."""
    return tag + _FIXED32(number & 0xFFFFFFFF)


def any_value(value: Attribute) -> bytes:
    """Write the content of an OTLP AnyValue."""
    kind = type(value)
    if kind is str:
        data = utf8(value)  # type: ignore[arg-type]
        return b"\x0a" + varint(len(data)) + data
    if kind is bool:
        return b"\x10\x01" if value else b"\x10\x00"
    if kind is int:
        if -(1 << 63) <= value < 1 << 63:  # type: ignore[operator]
            return b"\x18" + varint(value)  # type: ignore[arg-type]
        return any_value(str(value))
    if kind is float:
        return b"\x21" + _DOUBLE(value)
    items = b"".join(block(b"\x0a", any_value(str(item))) for item in value)  # type: ignore[union-attr]
    return block(b"\x2a", items)


def key_values(tag: bytes, attributes: Mapping[str, Attribute]) -> list[bytes]:
    """Write attributes, each as a field of its own."""
    parts: list[bytes] = []
    for key, value in attributes.items():
        start = _keys.get(key) or _key(key)
        if type(value) is str:  # most are: without a call for each
            try:
                data = value.encode()
            except UnicodeEncodeError:
                data = utf8(value)
            size = varint(len(data))
            content = b"\x0a" + size + data
        else:
            content = any_value(value)
        body = start + varint(len(content)) + content
        parts += (tag, varint(len(body)), body)
    return parts


def _key(key: str) -> bytes:
    written = block(b"\x0a", utf8(key)) + b"\x12"
    if len(_keys) < _MAX_KEYS:
        _keys[key] = written
    return written


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read a message: field numbers with numbers or bytes. Raises ValueError on anything else."""
    place, end = 0, len(data)
    while place < end:
        number, place = _read_varint(data, place)
        kind = number & 7
        if kind == 0:
            value, place = _read_varint(data, place)
            yield number >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = _read_varint(data, place)
        if size is None or place + size > end:
            raise ValueError("not protobuf")
        yield number >> 3, data[place : place + size]
        place += size


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
    raise ValueError("not protobuf")
