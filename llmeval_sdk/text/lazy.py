"""A property that is computed once and takes no lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload


Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - reads as a decorator
    """`functools.cached_property` without the lock that all objects of a class share until 3.12.

    A thread of the parent holds that lock when it forks, and the child waits for it for ever.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """Compute the value and leave it on the object, where it is read from then on."""
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._compute(owner)
        return value
