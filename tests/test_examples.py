"""Every example is one idea in at most sixty lines, runs offline and prints something."""

import ast
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import llmeval_sdk


EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))
LAUNCHER = """
import gc, importlib, json, os, pkgutil, sys, types
import llmeval_sdk

ours = [module.name for module in pkgutil.walk_packages(llmeval_sdk.__path__, "llmeval_sdk.")]
for name in ("openai", "opentelemetry.sdk.trace", "rapidfuzz", "uvicorn", *ours):
    if name.endswith((".auto", ".__main__")):
        continue  # they act when they are imported
    try:
        importlib.import_module(name)
    except ImportError:
        pass
gc.freeze()  # so that no example looks through all that they made

while line := sys.stdin.readline():
    path, folder = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(folder)
    os.environ["LLMEVAL_STORE"] = f"{folder}/llmeval.db"
    for descriptor, name, way in ((0, "/dev/null", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        with open(name, way) as file:
            os.dup2(file.fileno(), descriptor)
    sys.argv, sys.path[0] = [path], os.path.dirname(path)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = path
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), vars(main))
    break
"""
"""Starts each example in a fork of its own, so that libraries and the package, which take most of
the time, are imported once. What an example has to import itself its source has to show."""


@pytest.fixture(scope="module")
def run():
    """Return what runs an example in a folder, and gives its exit status and what it printed."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("LLMEVAL_", "DD_", "OPENAI_", "OTEL_", "LANGFUSE_"))
    }
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", LAUNCHER],
        env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as launcher:  # fmt: skip

        def run(path, folder):
            launcher.stdin.write(f"{json.dumps([str(path), str(folder)])}\n")
            launcher.stdin.flush()
            status = int(launcher.stdout.readline())
            return status, *((folder / name).read_text() for name in ("stdout", "stderr"))

        yield run
        os.killpg(launcher.pid, signal.SIGKILL)  # with an example that hangs


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(run, path, tmp_path):
    """The file says what it shows, is short, and works as it stands."""
    text = path.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 60
    assert _used_without_import(ast.parse(text)) == set()
    if (needs := [line for line in text.splitlines() if line.startswith("# needs: ")]) and any(
        not _installed(name.strip()) for name in needs[0].removeprefix("# needs: ").split(",")
    ):
        pytest.skip(needs[0].removeprefix("# "))
    status, output, errors = run(path, tmp_path)
    assert status == 0, errors
    assert output.strip()
    assert "Traceback" not in errors


def _used_without_import(tree):
    """Return what a program takes from the package that is neither public nor imported there."""
    imports = [
        (name, module)
        for module in ast.walk(tree)
        if isinstance(module, ast.Import)
        for name in module.names
        if name.name.partition(".")[0] == "llmeval_sdk"
    ]
    aliases = {name.asname or "llmeval_sdk" for name, _ in imports}
    imported = {name.name.split(".")[1] for name, _ in imports if "." in name.name}
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
    } - {*llmeval_sdk.__all__, *imported}


def _installed(name):
    from importlib.util import find_spec

    return find_spec(name) is not None
