"""What ``configure()`` was given, and whether it was given the same before.

A notebook and Streamlit run the same call again and again. A new pipeline for each would be new
threads, an empty cache and a ledger that many use at a time. A rerun makes functions and objects of
the script anew, so they are compared by what they are. Where that cannot be told, they differ: one
pipeline too many costs little, and a change that nobody notices costs trust.
"""

from __future__ import annotations

import dataclasses
import dis
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

from llmeval_sdk import config, registry
from llmeval_sdk.config import DefaultLimit, Secret, Settings
from llmeval_sdk.judges.base import BaseJudge
from llmeval_sdk.judges.prompt import Template
from llmeval_sdk.model.protocols import Evaluator
from llmeval_sdk.process.threads import HelperThreads


MAX_COMPARED = 20_000
"""Two configurations with more values than this count as different."""
_PLAIN = frozenset((type(None), bool, int, float, DefaultLimit, str, bytes, Secret, CodeType))
"""Types whose values have no parts and compare by themselves."""
_BY_PARTS = (BaseJudge, Template)
"""Classes whose objects are the same if their attributes are, beside data classes of ours."""
_READS_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))


class Given(NamedTuple):
    """What a pipeline was made of, as far as ``configure()`` knows it."""

    process: int
    folder: str
    """The working folder, from which relative paths start."""
    environment: int
    """A hash of the variables, which may hold secrets."""
    settings: Settings
    options: Mapping[str, Any]
    """The keywords of `make_plan`."""
    own: Mapping[str, Evaluator]
    """The evaluators that the app had declared."""

    @classmethod
    def now(cls, settings: Settings, options: Mapping[str, Any]) -> Given:
        """Return what a call gets at this moment."""
        own = {evaluator.name: evaluator for evaluator in registry.own_evaluators()}
        environment = hash(frozenset(config.snapshot().items()))
        try:
            folder = str(Path.cwd())
        except OSError:  # it was deleted
            folder = ""
        return cls(os.getpid(), folder, environment, settings, options, own)

    def is_same(self, later: Given) -> bool:
        """Return whether a pipeline made of a later one would do the same as that of this one.

        In doubt it would not. Heuristics that were declared since have been added to the pipeline.
        """
        own = {
            name: evaluator
            for name, evaluator in later.own.items()
            if name in self.own or evaluator.kind != "heuristic"
        }
        if self[:3] != later[:3]:
            return False
        try:
            is_resolved_so = self.settings == later.settings
            return is_resolved_so and _Comparison().same(
                (self.options, self.own), (later.options, own)
            )
        except Exception:  # an object of the app, or values too deep to be compared
            return False


class _Comparison:
    """Compares two values part by part."""

    def __init__(self) -> None:
        self._compared: dict[tuple[int, int], tuple[object, object]] = {}
        """Pairs by their ids, which are theirs as long as they are held here. One that comes again,
        as in a circle, is the same if all the others are."""

    def same(self, old: Any, new: Any) -> bool:
        if old is new:
            return True
        if type(old) is not type(new) or len(self._compared) > MAX_COMPARED:
            return False
        if type(old) in _PLAIN:
            return bool(old == new)
        pair = (id(old), id(new))
        if pair in self._compared:
            return True
        self._compared[pair] = (old, new)
        return self._has_same_parts(old, new)

    def _has_same_parts(self, old: Any, new: Any) -> bool:  # noqa: PLR0911 - one for each kind
        kind = type(old)
        if kind is tuple or kind is list or (isinstance(old, tuple) and _is_ours(kind)):
            return len(old) == len(new) and all(map(self.same, old, new))
        if kind is dict or kind is MappingProxyType:
            return self.same(list(old), list(new)) and all(
                self.same(old[key], new[key]) for key in old
            )
        if kind is frozenset or kind is set:
            return all(type(each) in _PLAIN for each in (*old, *new)) and bool(old == new)
        if kind is FunctionType:
            return self._is_same_function(old, new)
        if kind is partial:
            return self.same((old.func, old.args, old.keywords), (new.func, new.args, new.keywords))
        if kind is re.Pattern or isinstance(old, PurePath):
            return bool(old == new)
        if kind is HelperThreads:  # threads are no part of what a judge asks
            return True
        if isinstance(old, _BY_PARTS) or (_is_ours(kind) and dataclasses.is_dataclass(kind)):
            return self.same(dict(_attributes(old)), dict(_attributes(new)))
        return False

    def _is_same_function(self, old: FunctionType, new: FunctionType) -> bool:
        if old.__globals__ is not new.__globals__:
            for name in _globals_of(old.__code__):
                if not self.same(_held(old, name), _held(new, name)):
                    return False
        return self.same(_parts_of(old), _parts_of(new))


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("llmeval_sdk.")


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, in its dictionary and its slots."""
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield name, getattr(thing, name, None)


def _parts_of(function: FunctionType) -> tuple[object, ...]:
    return (
        (function.__module__, function.__qualname__, function.__code__),
        (function.__defaults__, function.__kwdefaults__, function.__dict__),
        tuple(cell.cell_contents for cell in function.__closure__ or ()),
    )


def _globals_of(code: CodeType) -> set[str]:
    """Return the names that code reads from its module, inner functions included."""
    names = {
        str(step.argval) for step in dis.get_instructions(code) if step.opname in _READS_GLOBAL
    }
    return names.union(
        *(_globals_of(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _held(function: FunctionType, name: str) -> object:
    """Return what a function finds under a name; a built-in stands elsewhere, and is its own."""
    return function.__globals__.get(name)
