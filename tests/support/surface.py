"""The public surface: what a release promises, as plain values that two releases are compared by.

    python tests/support/surface.py           # prints what is breaking since the last release

`current` reads the names of the Python API by griffe, and the rest from the golden files of
``tests/frozen``, which the tests beside them hold to what the code does. A release keeps all of it
as ``tests/frozen/<version>/surface.json`` (see ``.ci/release.py``).
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk import registry
from llmeval_sdk.store import _schema


if TYPE_CHECKING:
    import griffe


ROOT = Path(__file__).resolve().parents[2]
FROZEN = ROOT / "tests" / "frozen"
MODULES = ("", "errors", "model.protocols", "statistics", "testing", "tracing", "viewer")
"""The public modules, as `CONTRIBUTING.md` names them; the first one is the package itself."""
SHAPES = (
    "agreement", "doctor", "evaluate", "evaluate_compared", "evaluate_saved", "looking", "traffic",
)  # fmt: skip
"""The golden files with the shapes of what commands print or save as JSON."""
PROPERTIES = {"default", "takes", "required", "choices", "variables"}
"""The last words of what changed of an option or a setting, which a change log need not repeat."""
WITHOUT = {"docstring", "runtime", "labels", "analysis"}
"""What griffe writes of an object that does not matter to those who call it."""


def current() -> dict[str, Any]:
    """Return the surface of this checkout."""
    return {
        "api": {f"llmeval_sdk.{module}".rstrip("."): _names(module) for module in MODULES},
        "settings": _golden("settings"),
        "commands": _golden("commands"),
        "evaluators": sorted({*registry.heuristics(), *registry.judges()}),
        "json": {name: _golden(name) for name in SHAPES},
        "columns": {
            "evaluate": dict.fromkeys(_golden("evaluate_columns"), ""),
            "export": _golden("store_parquet"),
        },
        "store": _tables(),
        "otlp": exported_attributes(),
    }


def breaking(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return what somebody may rely on in ``old`` that ``new`` lacks or does otherwise.

    Returns:
        By the name that a change log would say it under, what happened to it.
    """
    return dict([*_broken_calls(old["api"], new["api"]), *_broken(old, new)])


def releases(folder: Path = FROZEN) -> list[Path]:
    """Return the folders of the releases that kept their surface, oldest first."""
    kept = [path.parent for path in folder.glob("*/surface.json")]
    return sorted(kept, key=lambda path: numbers(path.name))


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(map(int, version.split(".")))


def surface_of(release: Path) -> dict[str, Any]:
    """Return the surface that a release kept."""
    return json.loads((release / "surface.json").read_text("utf-8"))


def untold(changes: dict[str, str], section: str) -> list[str]:
    """Return the breaking changes whose names stand nowhere in a section of the change log."""
    words = {word.rstrip(".") for word in re.findall(r"[\w.-]+", section)}
    words |= {word.rpartition(".")[2] for word in words}  # of `Budget.per`, the parameter alone
    return [f"{name} ({what})" for name, what in changes.items() if word_of(name) not in words]


def word_of(name: str) -> str:
    """Return the word by which a change log has to name what changed."""
    words = [word for word in re.split(r"[ ,()]+", name) if word and word not in PROPERTIES]
    is_call = words[0].startswith("llmeval_sdk.")
    return words[-1].rpartition(".")[2] if is_call else words[-1]


def _golden(name: str) -> Any:
    return json.loads((FROZEN / "golden" / f"{name}.json").read_text("utf-8"))


_loaded: list[griffe.Module] = []


def _names(module: str) -> dict[str, Any]:
    """Return what griffe knows of the names that a module exports, without their texts."""
    import griffe

    if not _loaded:
        logging.getLogger("griffe").setLevel(logging.ERROR)
        package = griffe.load("llmeval_sdk", search_paths=[ROOT], submodules=True)
        assert isinstance(package, griffe.Module)
        _loaded.append(package)
    package = _loaded[0]
    home = package[module] if module else package
    if home.exports is not None:
        members = {name: home[name] for name in map(str, home.exports) if name in home.members}
    else:
        members = {
            name: member
            for name, member in home.members.items()
            if member.is_public and not member.is_alias
        }
    names = {}
    for name, member in sorted(members.items()):
        target = member.final_target if isinstance(member, griffe.Alias) else member
        if not target.is_module:
            names[name] = _plain(json.loads(target.as_json()))
    return names


def _plain(value: Any) -> Any:
    """Return an object of griffe's without what does not matter, and without private members."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    plain = {name: _plain(one) for name, one in value.items() if name not in WITHOUT}
    lines = plain.keys() & {"lineno", "endlineno"}
    plain |= dict.fromkeys(lines)  # no matter, but griffe asks for them when it reads the object
    if isinstance(plain.get("members"), dict):
        plain["members"] = {
            name: member for name, member in plain["members"].items() if not _is_private(name)
        }
    return plain


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _tables() -> dict[str, dict[str, str]]:
    """Return the columns of the tables of the store, with their types."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as store:
        _schema.STORE.migrate(store)
        names = store.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {
            name: {
                column: kind for _, column, kind, *_ in store.execute(f"PRAGMA table_info({name})")
            }
            for (name,) in sorted(names)
        }


def exported_attributes() -> dict[str, dict[str, str]]:
    """Return the attributes in files of OTLP that `llmeval export` writes, by where, with types."""
    seen: dict[str, dict[str, str]] = {}
    for line in (FROZEN / "golden" / "store_export_otlp.jsonl").read_text("utf-8").splitlines():
        for where, attributes in _attributes_in(json.loads(line), ""):
            seen.setdefault(where, {}).update(attributes)
    return {where: dict(sorted(attributes.items())) for where, attributes in sorted(seen.items())}


def _attributes_in(value: Any, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    if isinstance(value, list):
        for one in value:
            yield from _attributes_in(one, where)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name == "attributes":
                yield where, one
            else:
                yield from _attributes_in(one, name)


def _broken_calls(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what griffe finds broken in the Python API, by the name of the object."""
    import griffe

    for module, names in old.items():
        before, after = _module(module, names), _module(module, new.get(module, {}))
        for change in griffe.find_breaking_changes(before, after):
            name = change.obj.path.removeprefix(f"{module}.")
            yield f"{module}.{name}", change.kind.value


def _module(path: str, names: Mapping[str, Any]) -> griffe.Module:
    """Make a module of griffe's that has some names."""
    import griffe

    module = griffe.Module(path)
    for name, plain in names.items():
        module.set_member(name, griffe.Object.from_json(json.dumps(plain)))
    return module


def _broken(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield where a plain value lost something, or has something else in its place.

    Options and settings may get defaults, and shapes may get keys; nothing may lose one.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name, value in old.items():
            below = f"{path} {name}".strip()
            if below == "api":
                continue
            if name not in new:
                yield below, "removed"
            else:
                yield from _broken(value, new[name], below)
    elif isinstance(old, list) and old and not new:
        yield path, "is empty"
    elif isinstance(old, list) and isinstance(new, list):
        if all(isinstance(value, str) for value in old):
            yield from ((f"{path} {value}", "removed") for value in old if value not in new)
        else:
            yield from _broken(old[0], new[0], path)
    elif old != new and old != "null":  # a shape that had no value may get one
        yield path, f"{old!r} became {new!r}"


def main() -> int:
    """Print what is breaking since the last release."""
    if not (known := releases()):
        print("nothing was released yet")
        return 0
    changes = breaking(surface_of(known[-1]), current())
    for name, what in changes.items():
        print(f"{name}: {what}")
    print(f"{len(changes)} breaking changes since {known[-1].name}")
    return int(bool(changes))


if __name__ == "__main__":
    sys.exit(main())
