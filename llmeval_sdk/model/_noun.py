"""Makes the frozen dataclasses of this room, quickly: when the package is loaded, and per request.

`dataclasses` compiles six functions for every frozen class, which cost the first traced call of a
process 15 of its 60 ms, mostly for classes that it never makes an object of. Here comparing,
hashing, printing and pickling are written once, and ``__init__`` is compiled when a class makes its
first object.

That ``__init__`` is also twice to three times as fast. The one of a frozen dataclass calls
``object.__setattr__`` for each field, and a Record has 24 of them. This one makes the new object
one of an open class with the same slots, so that its fields are plain assignments, and then one of
its own class.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable


def noun(*, frozen: bool, slots: bool) -> Callable[[type], type]:
    """Make a class a frozen dataclass with slots; both are said where it is used.

    It takes what `dataclasses.field` says but for ``init`` and ``kw_only``, and no ``InitVar``. A
    ``__post_init__`` is called as usual. Type checkers and the documentation see a dataclass.
    """
    assert frozen
    assert slots

    def make(cls: type) -> type:
        made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        params = made.__dataclass_params__
        params.init = params.repr = params.eq = params.frozen = True  # as subclasses ask
        made._compared = staticmethod(_values([row.name for row in fields(made) if row.compare]))
        for function in (_eq, _hash, _repr, _setattr, _delattr, _getstate, _setstate):
            setattr(made, f"__{function.__name__[1:]}__", function)
        made.__init__ = _Init(made)
        return made  # type: ignore[no-any-return]

    return make


def _values(names: list[str]) -> Callable[[Any], Any]:
    if len(names) == 1:
        read = attrgetter(names[0])
        return lambda self: (read(self),)
    return attrgetter(*names)


class _Init:
    """Stands in the place of ``__init__`` until somebody asks for it."""

    def __init__(self, cls: type) -> None:
        self._cls: Any = cls

    def __get__(self, instance: object, owner: type) -> Any:
        init = _make_init(self._cls)
        self._cls.__init__ = init
        return init.__get__(instance, owner)


def _make_init(cls: Any) -> Any:
    """Compile the ``__init__`` of a noun; its parameters are the fields, in their order."""
    names: dict[str, Any] = {"_own": cls, "_set": object.__setattr__}
    names["_open"] = type(cls.__name__, (), {"__slots__": cls.__slots__})
    parameters, values, annotations = [], [], {}
    for row in fields(cls):
        name = value = row.name
        annotations[name] = row.type
        if row.default is not MISSING:
            names[f"_default_{name}"] = row.default
            parameters.append(f"{name}=_default_{name}")
        elif row.default_factory is not MISSING:
            names[f"_make_{name}"] = row.default_factory
            names["_made"] = _MADE
            parameters.append(f"{name}=_made")
            value = f"_make_{name}() if {name} is _made else {name}"
        else:
            parameters.append(name)
        values.append((name, value))
    after = [" self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    lines = [
        f"def __init__(self, {', '.join(parameters)}):",
        " if self.__class__ is not _own:",  # an app's subclass has slots of its own, or a dict
        *(f"  _set(self, {name!r}, {value})" for name, value in values),
        *(f" {line}" for line in after),
        "  return",
        " _set(self, '__class__', _open)",
        *(f" self.{name} = {value}" for name, value in values),
        " self.__class__ = _own",
        *after,
    ]
    exec("\n".join(lines), names)  # noqa: S102 - made of field names only, as dataclasses do
    init = names["__init__"]
    init.__annotations__ = {**annotations, "return": None}
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


class _Made:
    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()
"""The default of a field whose value a factory makes."""


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == other._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = (f"{row.name}={getattr(self, row.name)!r}" for row in fields(self) if row.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: Any, name: str, value: object) -> None:
    if name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, row.name) for row in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for row, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, row.name, value)
