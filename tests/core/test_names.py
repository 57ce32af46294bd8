"""What is private is underscored by one rule in all rooms, and a name stands for one thing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import llmeval_sdk


PACKAGE = Path(llmeval_sdk.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


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


def is_private_to(module, user):
    """Whether a file or folder on the way to a module is private to a folder that the user is not in."""
    parts = module.split(".")
    first = next((n for n, part in enumerate(parts) if part.startswith("_")), None)
    return first is not None and user.split(".")[:first] != parts[:first]


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_private_is_used_in_its_own_folder_only(room):
    """An underscore means: not outside this folder."""
    strangers = [
        f"{user} uses {used}"
        for user, names in uses().items()
        for used in names
        if room_of(used) == room and is_private_to(used, user)
    ]
    assert not strangers


def documented():
    """Everything that users read: pages, examples, the README, and what is run by its name."""
    yield from (ROOT / name for name in ("README.md", "pyproject.toml"))
    for folder in ("docs", "examples"):
        yield from (ROOT / folder).rglob("*.md")
        yield from (ROOT / folder).rglob("*.py")


def is_declared(module):
    """Whether a module, or one in its folder, has an ``__all__`` of its own."""
    return "__all__" in MODULES[module].read_text("utf-8")


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
            if not is_function or node.name.startswith(("_", "pytest_")):
                continue
            if not any(node.name in of for reader, of in words.items() if reader != path):
                lonely.append(f"{module}.{node.name}")
    assert not lonely


def test_the_rule_would_find_a_stranger():
    """The test above looks at every file, and at uses inside of functions and texts too."""
    assert len(ROOMS) > 15
    assert is_private_to("llmeval_sdk.store._schema", "llmeval_sdk.cli.report")
    assert not is_private_to("llmeval_sdk.store._schema", "llmeval_sdk.store.writer")
    assert is_private_to("llmeval_sdk.store._x.rows", "llmeval_sdk.store.writer") is False
