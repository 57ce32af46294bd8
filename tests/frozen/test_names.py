"""The public names and what can be passed to them stay as they are.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` accepts a change.
"""

import contextvars
import dataclasses
import inspect
import types

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import errors, statistics, testing, tracing, viewer
from llmeval_sdk.model import protocols


def parameters(of):
    """Write parameters as in a call, without their types, which are no promise at run time."""
    try:
        signature = inspect.signature(of)
    except ValueError:  # an exception that keeps the constructor of its base
        return "(*args)"
    plain = [
        each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


def described(value):
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        names = [name for name in vars(value) if not name.startswith("_")]
        fields = [each.name for each in dataclasses.fields(value)] if is_noun(value) else []
        return {
            "call": parameters(value),
            "bases": [base.__name__ for base in value.__mro__[1:-1] if base.__module__ != "typing"],
            "fields": fields,
            "members": {
                name: parameters(vars(value)[name])
                if inspect.isfunction(vars(value)[name])
                else "value"
                for name in sorted(set(names) - set(fields))
            },
        }
    if isinstance(value, contextvars.ContextVar) or not callable(value):
        return type(value).__name__
    return parameters(value)


def is_noun(value):
    return dataclasses.is_dataclass(value)


def test_public_names_keep_their_signatures(frozen):
    """Every name of `llmeval_sdk.__all__` can be called as it was called before."""
    frozen("names.json", {name: described(getattr(llmeval, name)) for name in llmeval.__all__})


@pytest.mark.parametrize(
    "module",
    [errors, statistics, protocols, testing, tracing, viewer],
    ids=lambda each: each.__name__,
)
def test_names_of_public_submodules_keep_their_signatures(module, frozen):
    """The submodules that are part of the public surface keep theirs, too."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    found = {name: described(getattr(module, name)) for name in sorted(names)}
    frozen(f"names_{module.__name__.rpartition('.')[2]}.json", found)
