"""Reads dates, numbers and paths of well-known libraries, each by one of its own C methods."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from llmeval_sdk.tracing._classes import dict_of, name_of


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


def plain_reading(cls: type, base: type) -> Reading | None:
    """Return how a class is read if ``base`` is a well-known class; else ``None``.

    A library that is not loaded cannot have instances, so none is imported.
    """
    for module, name, only_itself, method in _WELL_KNOWN:
        loaded = sys.modules.get(module)
        if loaded is None or vars(loaded).get(name) is not base:
            continue
        return None if only_itself and cls is not base else method(base)
    return None
