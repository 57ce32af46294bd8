"""Reads the attributes of a class without running code of its metaclass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
dict_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_HEAP_TYPE = 1 << 9


def is_written_in_python(cls: type) -> bool:
    """Return whether a class was made by Python code, so that its instances may have fields."""
    return bool(_flags_of(cls) & _HEAP_TYPE)
