"""Copies a value as it is when the call is made, within bounds and without running its code.

The app's thread must never run a ``__repr__``, ``__getattr__``, ``__class__`` or ``__hash__`` that
somebody wrote. Therefore the reader of a value is chosen by its exact type. Subclasses of builtins
are read by the builtin's own C methods, and other objects by the C descriptors of their class, from
the instance dictionary and the slots. Of everything else only the name of its type is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from llmeval_sdk.model.fields import TRUNCATED
from llmeval_sdk.tracing._media import SHORTEST, data_url, marker_of, without_media
from llmeval_sdk.tracing._state import state


# Reads the attributes of a class without running code of its metaclass.

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
dict_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_HEAP_TYPE = 1 << 9


def _is_written_in_python(cls: type) -> bool:
    """Return whether a class was made by Python code, so that its instances may have fields."""
    return bool(_flags_of(cls) & _HEAP_TYPE)


# Reads dates, numbers and paths of well-known libraries, each by one of its own C methods.

Reading = Callable[[Any], Any]
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

    def read(value: Any) -> Any:
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
    return lambda value: f"<{name_of(cls)} of shape {tuple(shape(value))}>"


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
"""How much a span may still hold: ``[characters, values]``, a list that the recursion shares."""


def new_room() -> Room:
    """Return the room of a new span."""
    return [ROOM, NODES]


def used(room: Room) -> int:
    """Return about how many bytes were captured."""
    return ROOM - room[0] + (NODES - room[1]) * NODE_BYTES


Reader = Callable[[Any, Room, int], Any]


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


def rows(value: Any, room: Room) -> Any:
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
    return not state.keeps_images and without_media(text) is not text


def _long(text: str, room: Room) -> str:
    """Keep a long text as far as there is room; of images, sounds and files in it only markers."""
    if not state.keeps_images:
        text = without_media(text)
    if len(text) <= MAX_TEXT and len(text) <= room[0]:
        room[0] -= len(text)
        return text
    keep = max(0, min(MAX_TEXT, room[0]))
    room[0] -= keep
    return f"{text[:keep]}{TRUNCATED}{len(text) - keep} characters>"


def _int(value: int, room: Room, depth: int) -> Any:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return f"<int of {int.bit_length(value)} bits>"


def _list(value: Any, room: Room, depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return "<too deep>"
    size = len(value)
    taken = min(size, MAX_ITEMS, room[1])
    room[1] -= taken
    depth += 1
    # ``list(islice(…))`` copies in C, so that no other thread changes the list in between.
    items = [capture(item, room, depth) for item in list(islice(iter(value), taken))]
    if size > taken:
        items.append(f"<{size - taken} more>")
    return items


def _dict(value: Any, room: Room, depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return "<too deep>"
    size = dict.__len__(value)
    taken = min(size, MAX_ITEMS, room[1])
    room[1] -= taken
    depth += 1
    copy: dict[str, Any] = {}
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
        copy["<more>"] = size - taken
    return copy


def _bytes(value: Any, room: Room, depth: int) -> Any:
    """Keep of bytes a marker, or as many of them as of a text, as a data URL."""
    if not state.keeps_images:
        return marker_of(value)
    kept = min(MAX_TEXT, room[0]) * 3 // 4
    text = data_url(value[:kept])
    room[0] -= min(len(text), room[0])
    left_out = len(value) - kept
    return f"{text}{TRUNCATED}{left_out} bytes>" if left_out > 0 else text


def _marker(value: Any, room: Room, depth: int) -> Any:
    return f"<{name_of(type(value))}>"


def _class(value: Any, room: Room, depth: int) -> Any:
    return f"<class {name_of(value)}>"


def _reads(method: Callable[[Any], Any]) -> Reader:
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


def _new_reader(cls: type) -> Reader:
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
    if not _is_written_in_python(cls):
        return _marker
    return _object_reader(cls, bases)


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

    def read(value: Any, room: Room, depth: int) -> Any:
        fields: dict[str, Any] = {}
        if instance_dict is not None:
            own = instance_dict(value, cls)
            if type(own) is dict:
                for name, item in list(islice(dict.items(own), MAX_ITEMS)):
                    if type(name) is str and (name[:1] != "_" or name == "_value_"):
                        fields[name] = item  # noqa: PERF403
        for name, get in slots:
            try:
                fields[name] = get(value, cls)
            except AttributeError:  # a slot that was never filled
                continue
        if "_value_" in fields:  # an Enum member
            return capture(fields["_value_"], room, depth)
        return _dict(fields, room, depth) if fields else _marker(value, room, depth)

    return read
