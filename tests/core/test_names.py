"""What is private is underscored by one rule in all rooms, and a name stands for one thing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import llmeval_sdk


PACKAGE = Path(llmeval_sdk.__file__).parent
DOORS = ("llmeval_sdk.tracing._inner",)
"""The modules by which other rooms reach into a room whose names are for apps."""


def module_of(path):
    """The dotted name of a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
ROOMS = sorted({module.split(".")[1] for module in MODULES if module.count(".") > 1})


def room_of(module):
    return [*module.split("."), ""][1]


def named_in(path):
    """The modules that a file imports or names in a text, such as a table of the registry."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports name the whole path"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"llmeval_sdk(?:\.\w+)+", node.value)


@cache
def uses():
    """The modules of the package that each of its modules uses."""
    return {module: {*named_in(path)} & MODULES.keys() for module, path in MODULES.items()}


def is_private(module):
    """Whether a file or a folder on the way to a module is named with an underscore."""
    return any(part.startswith("_") for part in module.split(".")[2:])


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_private_is_used_in_its_own_room_only(room):
    """What another room uses has no underscore, or is passed on by the room's ``__init__``."""
    strangers = [
        f"{user} uses {used}"
        for user, names in uses().items()
        for used in names
        if room_of(used) == room != room_of(user) and is_private(used) and used not in DOORS
    ]
    assert not strangers


def test_the_rule_would_find_a_stranger():
    """The test above looks at every file, and at uses inside of functions and texts too."""
    assert len(ROOMS) > 20
    assert "llmeval_sdk.heuristics.context_relevance" in uses()["llmeval_sdk.registry"]
    assert is_private("llmeval_sdk.judges.ragas._where")
    assert not is_private("llmeval_sdk._values")


def classes():
    """Every class of the package, with or without an underscore: its plain name and its place."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name.lstrip("_"), f"{module}.{node.name}"


def test_a_class_name_stands_for_one_thing():
    """No two classes of the package have one name, not even where both are private."""
    places = {}
    for name, place in classes():
        places.setdefault(name, []).append(place)
    assert not {name: found for name, found in places.items() if len(found) > 1}
