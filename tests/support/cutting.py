"""Cuts out of a copy's tests what uses a deleted part of the package, function by function.

What the code of a test names is seen here. A test that uses a part in another way says so with the
mark ``part("viewer")``.
"""

import ast
import re
import shutil
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module

from deletable import PACKAGE, PARTS, homes, modules, part_of


STARTS_THE_COMMAND = ('"-m", "llmeval_sdk"', "python -m llmeval_sdk", "} -m llmeval_sdk")


@dataclass(frozen=True)
class _Gone:
    """What is deleted: parts, their modules, the public names and the settings that live in them."""

    parts: set[str]
    modules: set[str]
    names: set[str]
    settings: set[str]
    variables: re.Pattern[str]


def without(copy, deleted):
    """Cut what uses the deleted parts out of the tests of a copy.

    What is gone by name is also gone for whoever uses that name: in the same file, in the folder of
    a ``conftest.py``, or by import from ``tests/support``. Tests mirror the rooms, so that a room
    takes the folder of its tests with it.
    """
    tests, gone = copy / "tests", _gone_with(deleted)
    for folder in _folders_of_rooms(tests, deleted):
        shutil.rmtree(folder, ignore_errors=True)
    helpers = {}
    for path in sorted((tests / "support").glob("*.py")) * 2:
        helpers[path.stem] = helpers.get(path.stem, set()) | _cut(path, gone, helpers, set())
    lost = {}
    for path in sorted(tests.rglob("conftest.py"), key=lambda path: len(path.parts)):
        above = set().union(*(lost.get(folder, set()) for folder in path.parents))
        lost[path.parent] = _cut(path, gone, helpers, above)
    for path in sorted(tests.rglob("test_*.py")):
        _cut(path, gone, helpers, set().union(*(lost.get(p, set()) for p in path.parents)))


def _gone_with(deleted):
    gone = {module for module in modules() if part_of(module) in deleted}
    names = {
        name for name, home in homes().items() if any(_is_below(home, module) for module in gone)
    }
    rows = [row for module in gone if ".config." in module for row in _settings_of(module)]
    variables = "|".join(name for row in rows for name in row.metadata["env"])
    return _Gone(
        parts=set(deleted),
        modules=gone,
        names=names,
        settings={row.name for row in rows},
        variables=re.compile(rf"\b({variables})\b" if variables else r"(?!)"),
    )


def _settings_of(module):
    """Return the rows of the table of settings that a module holds, if it holds one."""
    tables = [
        value
        for value in vars(import_module(module)).values()
        if is_dataclass(value) and value.__module__ == module
    ]
    return [row for table in tables for row in fields(table) if "env" in row.metadata]


def _folders_of_rooms(tests, deleted):
    """Return the folders of tests that mirror a folder of the package that is gone."""
    rooms = [place for part in deleted for place in PARTS[part] if (PACKAGE / place).is_dir()]
    names = {room.replace("/", "_") for room in rooms} | {room.split("/")[-1] for room in rooms}
    return [path for path in tests.rglob("*") if path.is_dir() and path.name in names]


def _cut(path, gone, helpers, lost):
    """Cut what is gone out of a file; return the names that are lost with it."""
    text = path.read_text("utf-8")
    body = ast.parse(text).body
    lines = text.splitlines(keepends=True)
    sources = {part: "".join(lines[part.lineno - 1 : part.end_lineno]) for part in body}
    own, cut = set(), []
    while True:
        more = [
            statement
            for statement in body
            if statement not in cut
            and (
                any(_is_gone(node, gone, lost | own, helpers) for node in ast.walk(statement))
                or (
                    "llmeval_sdk.cli" in gone.modules
                    and any(words in sources[statement] for words in STARTS_THE_COMMAND)
                )
            )
        ]
        if not more:
            break
        cut += more
        own |= {name for statement in more for name in _names_of(statement)}
    if "pytestmark" in own:  # the whole file is marked
        cut, own = body, {name for statement in body for name in _names_of(statement)}
    for statement in cut:
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        lines[first - 1 : statement.end_lineno] = ["\n"] * (statement.end_lineno - first + 1)
    path.write_text("".join(lines), "utf-8")
    return own


def _names_of(statement):
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(name.asname or name.name).partition(".")[0] for name in statement.names}
    if isinstance(statement, ast.Assign):
        return {
            node.id
            for target in statement.targets
            for node in ast.walk(target)
            if isinstance(node, ast.Name)
        }
    name = getattr(statement, "name", None)
    return {name} if name else set()


def _is_gone(node, gone, lost, helpers):
    """Say whether a piece of code imports, names, sets or runs something that is gone."""
    if isinstance(node, ast.Attribute):
        is_public = isinstance(node.value, ast.Name) and node.value.id == "llmeval"
        return is_public and node.attr in gone.names
    if isinstance(node, ast.Import | ast.ImportFrom):
        return _imports(node, gone, helpers)
    if isinstance(node, ast.Name):
        return node.id in lost
    if isinstance(node, ast.arg):
        return node.arg in lost
    if isinstance(node, ast.keyword):
        return node.arg in gone.settings
    if isinstance(node, ast.Call):
        is_mark = isinstance(node.func, ast.Attribute) and node.func.attr == "part"
        return is_mark and not gone.parts.isdisjoint(name.value for name in node.args)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (
            _is_named(node.value, gone.modules)
            or _home_by_name().get(node.value) in gone.modules
            or gone.variables.search(node.value) is not None
        )
    return False


def _imports(node, gone, helpers):
    """Say whether an import takes something that is gone."""
    module = getattr(node, "module", None)
    imported = {name.name for name in node.names}
    whole = {f"{module}.{name}" for name in imported} | {module} | imported
    if (module or "").startswith("benchmarks"):  # they are no part of the copy
        return True
    public = gone.names if module == "llmeval_sdk" else helpers.get(module, set())
    lazy = {f"{module}.{home}" for home in map(_lazy_homes(module).get, imported) if home}
    return bool(whole & gone.modules or imported & public or lazy & gone.modules)


@cache
def _lazy_homes(module):
    """Return the module of each name that a package like ``llmeval_sdk.estimates`` loads late."""
    if module not in modules() or module == "llmeval_sdk":
        return {}
    return getattr(import_module(module), "_HOME_OF", {})


@cache
def _home_by_name():
    """Return the module of each evaluator and exporter that the registry knows by name."""
    from llmeval_sdk import registry

    tables = registry.HEURISTICS, registry.JUDGES, registry.EXPORTERS
    return {name: path.partition(":")[0] for table in tables for name, path in table.items()}


def _is_below(home, module):
    return home == module or module.startswith(f"{home}.")


def _is_named(text, gone):
    """Say whether a string is, or runs, code that names a module that is gone."""
    return "llmeval_sdk." in text and any(
        text == module or f"{module} " in text or f"{module}:" in text or f"{module}\n" in text
        for module in gone
        if module != "llmeval_sdk"
    )
