"""Copies a value as it is when the call is made, within bounds and without running its code.

The app's thread must never run a ``__repr__``, ``__getattr__``, ``__class__`` or ``__hash__`` that
somebody wrote. Therefore the reader of a value is chosen by its exact type. Subclasses of builtins
are read by the builtin's own C methods, and other objects by the C descriptors of their class, from
the instance dictionary and the slots. Of everything else only the name of its type is kept, as a
`Placeholder`: a stream is not read, as that would take it from the app. Of an image, a sound or a
file that stands in a text only a marker is kept.
"""

from __future__ import annotations

import binascii
import codecs
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from itertools import islice
from types import (
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
)
from typing import Any

from llmeval_sdk.model.fields import TRUNCATED, truncated
from llmeval_sdk.model.placeholders import Placeholder
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.pieces import MAX_SEARCHED, end_of_run, read_json


class _Images:
    """Whether images, sounds and files in texts are kept, and not only markers of them."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False


_images = _Images()


def keep_images(kept: bool) -> None:  # noqa: FBT001
    """Keep images, sounds and files from here on, or only markers of them."""
    _images.kept = kept


# Reads the attributes of a class without running code of its metaclass.

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
dict_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_HEAP_TYPE = 1 << 9


def _is_written_in_python(cls: type) -> bool:
    """Return whether a class was made by Python code, so that its instances may have fields."""
    return bool(_flags_of(cls) & _HEAP_TYPE)


def attribute(value: object, name: str) -> object:
    """Return an attribute that an object holds itself or has from its class, without running code.

    A property is returned as such. Raises `AttributeError` where there is none of that name.
    """
    cls = type(value)
    bases = mro_of(cls)
    for base in bases:
        descriptor = dict_of(base).get("__dict__")
        if type(descriptor) is GetSetDescriptorType:
            own: Any = descriptor.__get__(value, cls)
            for key, item in list(islice(dict.items(own), MAX_ITEMS)) if type(own) is dict else ():
                if type(key) is str and key == name:
                    return item
            break
    for base in bases:
        member = dict_of(base).get(name, base)
        if type(member) is MemberDescriptorType:
            return member.__get__(value, cls)
        if member is not base:
            return member
    raise AttributeError(name)


def known_as(cls: type, names: Iterable[str]) -> str | None:
    """Return the first name, in the order of resolution, by which a class or a base of it is known.

    A library that is not loaded cannot have instances, so none is imported.
    """
    for base in mro_of(cls) if _is_written_in_python(cls) else ():
        module, name = dict_of(base).get("__module__"), name_of(base)
        if type(module) is str and (full := f"{module}.{name}") in names:
            loaded = sys.modules.get(module)
            if loaded is not None and vars(loaded).get(name) is base:
                return full
    return None


# Reads dates, numbers and paths of well-known libraries, each by one of its own C methods.

Reading = Callable[[Any], object]
"""Turns a value into one of a builtin type."""

_DATE_PARTS = (
    ("", "year"), ("-", "month"), ("-", "day"),
    ("T", "hour"), (":", "minute"), (":", "second"), (".", "microsecond"),
)  # fmt: skip


def _datetime(cls: type) -> Reading:
    """Return what reads a date or time by its C fields.

    Its ``isoformat`` would run the code of a tzinfo that somebody wrote.
    """
    from datetime import timezone

    namespace = dict_of(cls)
    parts = [
        (mark, namespace[name].__get__)
        for mark, name in _DATE_PARTS
        if name in namespace
    ]  # fmt: skip
    isoformat = namespace["isoformat"]
    zone_of = namespace["tzinfo"].__get__ if "tzinfo" in namespace else None

    def read(value: object) -> object:
        zone = type(zone_of(value)) if zone_of else type(None)
        if type(value) is cls and zone in (type(None), timezone):
            return isoformat(value)
        text = "".join(f"{mark}{get(value):02d}" for mark, get in parts)
        suffix = "" if zone in (type(None), timezone) else f" <{name_of(zone)}>"
        return text + suffix

    return read


def _by(name: str) -> Callable[[type], Reading]:
    return lambda cls: dict_of(cls)[name]


def _array(cls: type) -> Reading:
    shape = dict_of(cls)["shape"].__get__
    return lambda value: Placeholder(f"<{name_of(cls)} of shape {tuple(shape(value))}>")


_WELL_KNOWN: tuple[tuple[str, str, bool, Callable[[type], Reading]], ...] = (
    # module, class, whether subclasses are left out (their methods may be Python), how it is read
    ("datetime", "timedelta", False, _by("total_seconds")),
    ("decimal", "Decimal", False, _by("__str__")),
    ("uuid", "UUID", True, _by("__str__")),
    ("pathlib", "PosixPath", True, lambda _: str),
    ("pathlib", "WindowsPath", True, lambda _: str),
    ("datetime", "datetime", False, _datetime),
    ("datetime", "date", False, _datetime),
    ("datetime", "time", False, _datetime),
    ("numpy", "generic", False, _by("item")),
    ("numpy", "ndarray", False, _array),
)


def _plain_reading(cls: type, base: type) -> Reading | None:
    """Return how a class is read if ``base`` is a well-known class; else ``None``.

    A library that is not loaded cannot have instances, so none is imported.
    """
    for module, name, only_itself, method in _WELL_KNOWN:
        loaded = sys.modules.get(module)
        if loaded is None or vars(loaded).get(name) is not base:
            continue
        return None if only_itself and cls is not base else method(base)
    return None


ROOM = 1 << 20
"""How many characters the captured values of one span may have together."""
NODES = 1_500
"""How many values one span may hold. This bounds the time: reading each costs about 0.5 µs."""
NODE_BYTES = 100
"""About how many bytes a value takes beside its text."""
MAX_TEXT = 1 << 17
MAX_ITEMS = 1_000
MAX_FIELDS = 32
"""Fields of a chunk up to which it is read without a copy; the fields of wider ones are counted."""
MAX_DEPTH = 8

Room = list[int]
"""How much a span may still hold, and how many placeholders it holds: ``[characters, values,
placeholders]``, a list that the recursion shares."""


def new_room() -> Room:
    """Return the room of a new span."""
    return [ROOM, NODES, 0]


def _placeholder(text: str, room: Room) -> Placeholder:
    room[2] += 1
    return Placeholder(text)


def used(room: Room) -> int:
    """Return about how many bytes were captured."""
    return ROOM - room[0] + (NODES - room[1]) * NODE_BYTES


Reader = Callable[[Any, Room, int], object]


def capture(value: Any, room: Room | None = None, depth: int = 0) -> Any:
    """Return a copy made of str, int, float, bool, None, list and dict only."""
    cls = type(value)
    if room is None:
        room = new_room()
    if cls is str:
        size = len(value)
        if size > SHORTEST or size > room[0]:
            return _long(value, room)
        room[0] -= size
        return value
    if value is None or cls is float or cls is bool:
        return value
    reader = _READERS.get(id(cls)) or _reader_of(cls)
    return reader(value, room, depth)


def rows(value: object, room: Room) -> Any:
    """Capture a list of which frozen nouns, such as chunks, are made right afterwards.

    Mappings of plain values are therefore not copied here, which saves half the cost of capturing.
    """
    if type(value) is not list or len(value) > MAX_ITEMS:
        return capture(value, room)
    size = 0
    for row in value:
        if type(row) is not dict or len(row) > MAX_FIELDS:
            return capture(value, room)
        for item in dict.values(row):
            cls = type(item)
            if cls is str:
                length = len(item)
                if length > SHORTEST and _holds_media(item):
                    return capture(value, room)
                size += length
            elif not (cls is float or item is None or (cls is int and -_WIDE < item < _WIDE)):
                return capture(value, room)
        size += 6 * NODE_BYTES
    if size > room[0]:
        return capture(value, room)
    room[0] -= size
    return value


_WIDE = 1 << 63


def _holds_media(text: str) -> bool:
    return not _images.kept and _without_media(text) is not text


def _long(text: str, room: Room) -> str:
    """Keep a long text as far as there is room; of images, sounds and files in it only markers."""
    if room[0] <= 0:
        return _placeholder(truncated(text, 0), room)
    if not _images.kept:
        text = _without_media(text)
        room[2] += type(text) is Placeholder
    if len(text) <= MAX_TEXT and len(text) <= room[0]:
        room[0] -= len(text)
        return text
    keep = max(0, min(MAX_TEXT, room[0]))
    room[0] -= keep
    cut = truncated(text, keep)
    return cut if keep and type(text) is str else _placeholder(cut, room)


def _int(value: int, room: Room, depth: int) -> object:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return _placeholder(f"<int of {int.bit_length(value)} bits>", room)


def _list(value: Any, room: Room, depth: int) -> object:
    if depth >= MAX_DEPTH:
        return _placeholder("<too deep>", room)
    size = len(value)
    taken = min(size, MAX_ITEMS, room[1])
    room[1] -= taken
    depth += 1
    # ``list(islice(…))`` copies in C, so that no other thread changes the list in between.
    items = [capture(item, room, depth) for item in list(islice(iter(value), taken))]
    if size > taken:
        items.append(_placeholder(f"<{size - taken} more>", room))
    return items


def _dict(value: Any, room: Room, depth: int) -> object:
    if depth >= MAX_DEPTH:
        return _placeholder("<too deep>", room)
    size = dict.__len__(value)
    taken = min(size, MAX_ITEMS, room[1])
    room[1] -= taken
    depth += 1
    copy: dict[str, object] = {}
    for key, item in list(islice(dict.items(value), taken)):
        if type(key) is not str:
            key = str(capture(key, room, MAX_DEPTH - 1))  # noqa: PLW2901
        cls = type(item)  # common types need no call here: this loop is most of a chunk's cost
        if cls is float or item is None or cls is bool:
            copy[key] = item
        elif cls is str and (length := len(item)) <= SHORTEST and length <= room[0]:
            room[0] -= length
            copy[key] = item
        else:
            copy[key] = capture(item, room, depth)
    if size > taken:
        copy[_placeholder("<more>", room)] = size - taken
    return copy


def _bytes(value: Any, room: Room, depth: int) -> object:
    """Keep of bytes a marker, or as many of them as of a text, as a data URL."""
    if not _images.kept:
        return _placeholder(_marker_of(value), room)
    kept = min(MAX_TEXT, room[0]) * 3 // 4
    text = _data_url(value[:kept])
    room[0] -= min(len(text), room[0])
    left_out = len(value) - kept
    return f"{text}{TRUNCATED}{left_out} bytes>" if left_out > 0 else text


def _marker(value: object, room: Room, depth: int) -> object:
    return _placeholder(f"<{name_of(type(value))}>", room)


def _stream(value: object, room: Room, depth: int) -> object:
    return _placeholder(f"<{name_of(type(value))}, not read>", room)


def _class(value: type, room: Room, depth: int) -> object:
    return _placeholder(f"<class {name_of(value)}>", room)


def _itself(value: Placeholder, room: Room, depth: int) -> object:
    room[2] += 1
    return value


def _reads(method: Reading) -> Reader:
    """Read a value by one C method of a builtin or well-known type, then capture the result."""
    return lambda value, room, depth: capture(method(value), room, depth)


# The keys are ids of classes: looking up a class itself would run its metaclass's ``__hash__``.
_BUILTINS: dict[int, Reader] = {
    id(int): _int,
    id(list): _list,
    id(tuple): _list,
    id(set): _list,
    id(frozenset): _list,
    id(dict): _dict,
    id(bytes): _bytes,
    id(bytearray): _bytes,
    id(type): _class,
    id(type(None)): _marker,
    id(str): lambda value, room, depth: capture(str.__str__(value), room, depth),
    id(float): _reads(lambda value: float.__add__(value, 0.0)),
    id(ModuleType): _marker,
    id(Placeholder): _itself,
}
_SUBCLASSES: dict[int, Reader] = {
    **_BUILTINS,
    id(int): lambda value, room, depth: _int(int.__add__(value, 0), room, depth),
    id(list): _reads(lambda value: list.__getitem__(value, slice(0, MAX_ITEMS + 1))),
    id(tuple): _reads(lambda value: tuple.__getitem__(value, slice(0, MAX_ITEMS + 1))),
    id(set): _reads(set.copy),
    id(frozenset): _reads(frozenset.copy),
    id(bytes): _marker,
    id(bytearray): _marker,
    id(BaseException): _reads(BaseException.__dict__["args"].__get__),
}
_READERS: dict[int, Reader] = dict(_BUILTINS)
_keep_alive: list[type] = []
"""The classes in `_READERS`: as long as they live, no other class gets their ids."""
_MAX_READERS = 2_000


def _reader_of(cls: type) -> Reader:
    """Return the reader of a class, which is made once."""
    if len(_keep_alive) > _MAX_READERS:  # the app makes new classes all the time
        _READERS.clear()
        _READERS.update(_BUILTINS)
        _keep_alive.clear()
    reader = _new_reader(cls)
    _keep_alive.append(cls)
    _READERS[id(cls)] = reader
    return reader


def _new_reader(cls: type) -> Reader:  # noqa: PLR0911
    if (known := known_as(cls, _WEB)) is not None:
        return _web_reader(*_WEB[known])
    bases = mro_of(cls)
    for base in bases:
        method = _plain_reading(cls, base)
        if method is not None:
            return _reads(method)
        if id(base) == id(tuple) and (names := _field_names(bases)):
            return lambda value, room, depth: _dict(
                dict(zip(names, tuple.__iter__(value), strict=False)), room, depth
            )
        if id(base) in _SUBCLASSES:
            return _SUBCLASSES[id(base)]
    if any("__next__" in dict_of(base) or "__anext__" in dict_of(base) for base in bases):
        return _stream
    if not _is_written_in_python(cls):
        return _marker
    return _object_reader(cls, bases)


_HOLDERS = ("Response", "Stream")
"""Words in the name of a class whose instances may hold a stream in place of an answer, as those of
web frameworks do."""


def _is_stream(value: object) -> bool:
    cls = type(value)
    return (_READERS.get(id(cls)) or _reader_of(cls)) is _stream


def _field_names(bases: tuple[type, ...]) -> tuple[str, ...]:
    """Return the field names of a named tuple."""
    names = next((n for b in bases if (n := dict_of(b).get("_fields")) is not None), ())
    return names if type(names) is tuple and all(type(name) is str for name in names) else ()


def _object_reader(cls: type, bases: tuple[type, ...]) -> Reader:  # noqa: C901
    """Return what reads an object's public fields by the C descriptors of its class."""
    instance_dict = None
    slots: list[tuple[str, Any]] = []
    for base in bases:
        namespace = dict_of(base)
        descriptor = namespace.get("__dict__")
        if instance_dict is None and type(descriptor) is GetSetDescriptorType:
            instance_dict = descriptor.__get__
        for name in list(namespace):
            member = namespace[name]
            if type(member) is MemberDescriptorType and type(name) is str and name[:1] != "_":
                slots.append((name, member.__get__))
    if instance_dict is None and not slots:
        return _marker
    may_stream = any(word in name_of(base) for base in bases for word in _HOLDERS)

    def read(value: object, room: Room, depth: int) -> object:
        held: list[tuple[Any, object]] = []
        if instance_dict is not None:
            own = instance_dict(value, cls)
            if type(own) is dict:
                held = list(islice(dict.items(own), MAX_ITEMS))
        for name, get in slots:
            try:
                held.append((name, get(value, cls)))
            except AttributeError:  # a slot that was never filled
                continue
        if may_stream and any(_is_stream(item) for _, item in held):
            return _stream(value, room, depth)
        fields = {
            name: item
            for name, item in held
            if type(name) is str and (name[:1] != "_" or name == "_value_")
        }
        if "_value_" in fields:  # an Enum member
            return capture(fields["_value_"], room, depth)
        return _dict(fields, room, depth) if fields else _marker(value, room, depth)

    return read


# Reads the body of what a view of a web framework returns, and nothing else of it.
#
# Headers and cookies are no answer and hold secrets, and a request is little more than these.


_WEB: dict[str, tuple[str, str]] = {
    "starlette.responses.Response": ("body", "raw_headers"),
    "django.http.response.HttpResponse": ("_container", "headers._store"),
    "rest_framework.response.Response": ("data", ""),
    "werkzeug.wrappers.response.Response": ("response", "headers._list"),
    "quart.wrappers.response.Response": ("response.data", "headers._list"),
    "aiohttp.web_response.Response": ("_body", "_headers"),
    "sanic.response.types.JSONResponse": ("_body", "content_type"),
    "sanic.response.types.BaseHTTPResponse": ("body", "content_type"),
    "litestar.response.base.Response": ("content", ""),
    **dict.fromkeys(
        (
            "aiohttp.web_request.BaseRequest",
            "aiohttp.web_response.StreamResponse",
            "django.http.request.HttpRequest",
            "django.http.response.HttpResponseBase",
            "django.template.response.SimpleTemplateResponse",  # rendered after the view
            "falcon.request.Request",
            "falcon.response.Response",
            "litestar.connection.base.ASGIConnection",
            "litestar.response.base.ASGIResponse",
            "litestar.response.file.File",
            "litestar.response.redirect.Redirect",
            "litestar.response.streaming.Stream",
            "litestar.response.template.Template",
            "rest_framework.request.Request",
            "sanic.request.types.Request",
            "sanic.response.types.ResponseStream",
            "starlette.requests.HTTPConnection",
            "werkzeug.sansio.request.Request",
        ),
        ("", ""),
    ),
}
"""Where a class keeps its body, and its content type or the headers with that. A body without a
content type is a value that the framework will write; a class without a body is not read."""
MAX_BODY = 4 * MAX_TEXT
"""Bytes of a body that is decoded; of one with more, no answer is known."""
MAX_PARSED = 1 << 14
"""Characters of JSON that are parsed on the app's thread, within a millisecond."""
_TEXTS = ("json", "jsonl", "xml", "yaml", "javascript")
"""How the types of texts end that do not begin with ``text/``."""


def _web_reader(body_at: str, content_type_at: str) -> Reader:
    def read(value: object, room: Room, depth: int) -> object:
        if 300 <= _status(value) < 400:  # the text of a redirect repeats its target
            return _stream(value, room, depth)
        try:
            body = _at(value, body_at)
            if content_type_at:
                body = _decoded(body, _content_type(_at(value, content_type_at)))
        except (AttributeError, ValueError):  # what streams has no body
            return _stream(value, room, depth)
        return capture(body, room, depth)

    return read


def _status(value: object) -> int:
    """Return the status of a response of Werkzeug's, whose redirects have a text; others have 0."""
    try:
        status = attribute(value, "_status_code")
    except AttributeError:
        return 0
    return status if type(status) is int else 0


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        value = attribute(value, name)
    return value


def _content_type(held: Any) -> str:
    """Return the type of a body, without its parameters; empty where nothing says it."""
    cls = type(held)
    if cls is str:
        return _short(held)
    if cls is list or cls is dict:
        for pair in islice(held if cls is list else list(dict.values(held)), MAX_ITEMS):
            if type(pair) is tuple and len(pair) == 2 and _short(pair[0]) == "content-type":
                return _short(pair[1])
        return ""
    get = next((dict_of(base)["get"] for base in mro_of(cls) if "get" in dict_of(base)), None)
    return _short(get(held, "Content-Type")) if type(get) is MethodDescriptorType else ""


def _short(header: Any) -> str:
    """Return the name or the value of a header in small letters, up to its first semicolon."""
    if type(header) is bytes:
        header = header[:_MAX_HEAD].decode("latin-1")
    if type(header) is not str:
        return ""
    return header[:_MAX_HEAD].partition(";")[0].strip().lower()


def _decoded(body: Any, content_type: str) -> object:
    """Return the JSON or the text of a body; raises `ValueError` if it is none, or too large."""
    if content_type and not content_type.startswith("text/") and not content_type.endswith(_TEXTS):
        raise ValueError(content_type)
    if type(body) is list or type(body) is tuple:
        body = _joined(body)
    if body is None:
        return None
    if type(body) not in (bytes, str, bytearray, memoryview) or len(body) > MAX_BODY:
        raise ValueError("body")
    text = body if type(body) is str else codecs.decode(body, "utf-8")
    if "\0" in text:
        raise ValueError("NUL")
    if content_type.endswith("json") and len(text) <= MAX_PARSED:
        with suppress(ValueError, RecursionError):
            return read_json(text)
    return text


def _joined(parts: Any) -> bytes | str:
    kinds = set(map(type, parts[:MAX_ITEMS]))
    if len(parts) > MAX_ITEMS or not (kinds <= {bytes} or kinds == {str}):
        raise ValueError("parts")
    if sum(map(len, parts)) > MAX_BODY:
        raise ValueError("size")
    joined: bytes | str = ("" if str in kinds else b"").join(parts)
    return joined


# Markers in the place of images, sounds and files that stand in a text as base64.
#
# Base64 says nothing to a score, a judge or a person, and fills stores and prompts.


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
MAX_EMBEDDED = 200
"""Images and files that are replaced within one text, and beginnings that are looked at."""
_EDGE = 256
"""Characters at both ends of a text that decide whether all of it is base64."""
_STRIDE = 1 << 11
"""How far apart a text is looked into: data as long as this, and an edge more, are always seen."""
_LEAP = 1 << 13
"""How far apart data are looked into once they are long."""
_MAX_HEAD = 300
_MAX_DEPTH = 20

_HEAD = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})(?:;[\w.+-]{1,60}(?:=[\w.+-]{0,60})?){0,3}\Z", re.ASCII
)
_ENCODED = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})(?:;[\w.+-]{1,60}(?:=[\w.+-]{0,60})?){0,3},", re.ASCII
)
_MARK = ";base64,"
_PAYLOAD = re.compile(r"[\w+/=%-]*", re.ASCII)
_PERCENT = re.compile(r"[\w.~!*:;@&=+$,/?%#-]*", re.ASCII)
_MIN_PERCENT = 4
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
_MAX_BACKSLASHES = 24
"""In an edge: data in lines of 40 have 13, and some more stand before slashes."""
_NO_RUN = re.compile(r"[^\w+/=\\-]", re.ASCII)
_MIN_LINE = 40
_LINE_END = re.compile(r"\r?\n")


def _without_media(text: str) -> str:
    """Return a long text with markers in the place of the images, sounds and files in it.

    A marker is ``<image/png of 98304 bytes, sha256 1a2b3c4d5e6f7a8b>``, or ``<base64 of …>`` where
    the type is not known. The hash is of the bytes; of a larger file, of its first 98,304 bytes. It
    is a `Placeholder` where it stands for all of the text.
    """
    if text.startswith(_STARTS) and _is_base64(text, 0):
        return Placeholder(_media_marker(_kind_of(text), text))
    if text.find(" ", 0, _EDGE) < 0 and _is_any_data(text):
        return Placeholder(_media_marker("base64", text))
    if text.startswith("data:"):
        at = text.find(_MARK, 0, _MAX_HEAD)
        head = _HEAD.match(text, 0, at) if at >= 0 else None
        if head is not None and _is_base64(text, at + len(_MARK)):
            return Placeholder(_media_marker(head[1], text[at + len(_MARK) :]))
    text = _without_runs(text)
    return _without_urls(text) if len(text) >= LONG or text.startswith("data:") else text


def marked(value: object) -> Any:
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
    if depth >= _MAX_DEPTH:
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
        return _without_media(value) if len(value) > SHORTEST else value
    if isinstance(value, (bytes, bytearray)):
        return Placeholder(_marker_of(value))
    if depth >= _MAX_DEPTH:
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


def _marker_of(data: bytes | bytearray) -> str:
    """Return the marker of bytes that are no text."""
    start = binascii.b2a_base64(data[:12], newline=False).decode()
    kind = _kind_of(start) if start.startswith(_STARTS) else type(data).__name__
    return _written(kind, len(data), bytes(data[: HASHED * 3 // 4]))


def _data_url(data: bytes | bytearray) -> str:
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
        end = 0 if len(parts) >= 2 * MAX_EMBEDDED else min(last, end + at - begins)
        done = at
    return "".join([*parts, text[done:]]) if parts else text


def _run_around(text: str, at: int, done: int) -> tuple[int, str, int] | None:
    """Return where the data around a place begin and end, and their marker between."""
    if text.find("\n", at, at + _EDGE) >= 0:
        found = _lines_around(text, at, done)
    elif text.count("\\", at, at + _EDGE) > _MAX_BACKSLASHES:
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
    mark = text.rfind("data:", max(done, begins - _MAX_HEAD), begins)
    head = None
    if mark >= 0 and text.endswith(_MARK, mark, begins):
        head = _HEAD.match(text, mark, begins - len(_MARK))
    kind = _kind_of(payload) if head is None else head[1]
    return begins if head is None else mark, _media_marker(kind, payload), end


_BETWEEN = ("\\r", "\\n", "\r", "\n", "\\")
"""What stands between the lines of base64, or before a slash of it in JSON."""


def _end_of_run(text: str, at: int) -> int:
    """Return where data end. Of those that are very long only samples are read."""
    while True:
        for _ in range(HASHED // MAX_SEARCHED):
            run = _RUN.match(text, at, at + MAX_SEARCHED)
            assert run is not None
            if run.end() < at + MAX_SEARCHED:
                return run.end()
            at = run.end()
        while at + _LEAP < len(text) and _RUN.fullmatch(text, at + _LEAP, at + _LEAP + _EDGE):
            at += _LEAP


def _lines_around(text: str, at: int, done: int) -> tuple[int, int] | None:
    """Return where data of lines of one length begin and end, around a place."""
    lines = _LINE_END.split(text[at : at + _STRIDE])[1:-1]
    width = len(lines[0]) if lines else 0
    if width < _MIN_LINE or any(len(line) != width for line in lines[: _EDGE // width]):
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
    while match := lines.match(text, at, at + MAX_SEARCHED):
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
    for _ in range(MAX_EMBEDDED):
        if at < 0:
            break
        end = at + len("data:")
        head = _ENCODED.match(text, at, at + _MAX_HEAD)
        if head is not None:
            is_base64 = head[0].endswith(_MARK)
            payload_ends = end_of_run(_PAYLOAD if is_base64 else _PERCENT, text, head.end())
            held = text[head.end() : payload_ends]
            if len(held) >= _EDGE and (is_base64 or held.count("%") >= _MIN_PERCENT):
                marker = _media_marker(head[1], held) if is_base64 else _percents(head[1], held)
                parts += (text[done:at], marker)
                done = end = payload_ends
        at = text.find("data:", end, done + HASHED)
    return "".join([*parts, text[done:]]) if parts else text


def _media_marker(kind: str, payload: str) -> str:
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
    with loading:
        from urllib.parse import unquote_to_bytes

    size = len(payload) - 2 * payload.count("%")
    return _written(kind, size, unquote_to_bytes(payload[:HASHED]))


def _written(kind: str, size: int, data: bytes) -> str:
    with loading:
        from hashlib import sha256

    return f"<{kind.lower()} of {size} bytes, sha256 {sha256(data).hexdigest()[:16]}>"
