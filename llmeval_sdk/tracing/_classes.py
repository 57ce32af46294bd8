"""What a class says of itself, read past any code that its metaclass may bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
dict_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_HEAP_TYPE = 1 << 9


def is_written_in_python(cls: type) -> bool:
    """Say whether instances may have fields that Python code gave them."""
    return bool(_flags_of(cls) & _HEAP_TYPE)
