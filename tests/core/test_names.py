"""What is private is underscored by one rule in all rooms, and a name stands for one thing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import llmeval_sdk
from llmeval_sdk import registry


PACKAGE = Path(llmeval_sdk.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
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


ONE_OF_A_KIND = {
    "cli": "a command each, beside helpers with an underscore",
    "config": "an area of settings each, beside helpers with an underscore",
    "demo": "a program of its own, of which nothing is private",
    "estimates": "plain functions for everybody, area by area",
    "llms": "one way each to reach a model",
    "_bootstrap": "a name that Python gives",
}
"""Rooms whose modules without an underscore are no interface: why they have none all the same."""


def documented():
    """Everything that users read: pages, examples, the README, and what is run by its name."""
    yield from (ROOT / name for name in ("README.md", "pyproject.toml"))
    for folder in ("docs", "examples"):
        yield from (ROOT / folder).rglob("*.md")
        yield from (ROOT / folder).rglob("*.py")


def is_declared(module):
    """Whether a module, or one in its folder, has an ``__all__`` of its own."""
    return "__all__" in MODULES[module].read_text("utf-8")


@pytest.mark.parametrize("room", sorted({*ROOMS} - ONE_OF_A_KIND.keys()))
def test_what_only_its_room_uses_is_private(room):
    """A module has an underscore, unless another room or a page names it, or it has an ``__all__``."""
    texts = "\n".join(path.read_text("utf-8") for path in documented())
    texts += "\n".join([*registry.HEURISTICS.values(), *registry.EXPECTED.values()])
    texts += "\n".join(registry.JUDGES.values())
    public = {
        module
        for module in MODULES
        if any(module in used for user, used in uses().items() if room_of(user) != room)
        or is_declared(module)
        or re.search(rf"{re.escape(module)}(?![\w])", texts)
    }
    folders = {module.rpartition(".")[0] for module in public}
    mine = {module for module in MODULES if room_of(module) == room and module.count(".") > 1}
    assert not {module for module in mine - public - folders if not is_private(module)}


@pytest.fixture(scope="module")
def words():
    """The words of each file: of the package with its templates, of tests, pages and benchmarks."""
    readers = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html"), *documented()]
    readers += [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return {path: {*re.findall(r"\w+", path.read_text("utf-8"))} for path in readers}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_function_that_only_its_module_uses_is_private(room, words):
    """A function without an underscore is for another module, a test, a page or a template."""
    lonely = []
    for module, path in MODULES.items():
        if room_of(module) != room or is_declared(module):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if not is_function or node.name.startswith("_"):
                continue
            if not any(node.name in of for reader, of in words.items() if reader != path):
                lonely.append(f"{module}.{node.name}")
    assert not lonely


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
