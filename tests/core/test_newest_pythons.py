"""Nothing here uses what the newest Pythons remove, and no Python is declared that CI never ran."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from removals import removals_in


ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("llmeval_sdk", "examples", "benchmarks", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_no_source_uses_what_is_going():
    """Neither the package nor its examples, benchmarks and tests."""
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        for line, name in removals_in(path.read_text("utf-8"))
    ]
    assert uses == []


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasyncio.get_event_loop()",
        "from asyncio import iscoroutinefunction as is_async",
        "import asyncio as aio\naio.iscoroutinefunction(print)",
        "from datetime import datetime\ndatetime.utcnow()",
        "import datetime\ndatetime.datetime.utcnow()",
        "import ast\nast.Num(1)",
        "import pkgutil\npkgutil.find_loader('json')",
        "import imp",
        "from distutils.core import setup",
        "import codecs\ncodecs.open('x')",
        "import shutil\nshutil.rmtree('x', onerror=None)",
        "from typing import NamedTuple\nNamedTuple('Pair', a=int)",
        "import threading\nthreading.RLock(1)",
        "import threading\nthreading.Thread().setDaemon(True)",
        "def f(code):\n    return code.co_lnotab",
        "from asyncio import WindowsSelectorEventLoopPolicy",
        "def f():\n    try:\n        pass\n    finally:\n        return 1",
        "for _ in ():\n    try:\n        pass\n    finally:\n        if 1:\n            break",
    ],
)
def test_a_use_of_what_is_going_is_seen(source):
    """By whatever name it was imported."""
    assert len(removals_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasyncio.get_running_loop()",
        "import inspect\ninspect.iscoroutinefunction(print)",
        "class Num: ...\nNum()",
        "def f():\n    try:\n        pass\n    finally:\n        for _ in ():\n            break",
        "def f():\n    try:\n        pass\n    finally:\n        g = lambda: 1",
        "from typing import NamedTuple\nNamedTuple('Pair', [('a', int)])",
    ],
)
def test_what_stays_is_not_taken_for_it(source):
    """Such as a loop that is left inside ``finally``."""
    assert removals_in(source) == []


def test_warnings_are_errors():
    """A deprecation that only shows when it runs fails the test that runs it."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.search(r'^filterwarnings = \["error"\]$', settings, re.MULTILINE)


def test_each_declared_python_runs_in_ci():
    """A version is declared once CI has run on it, and not before."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    declared = set(re.findall(r"Programming Language :: Python :: (3\.\d+)", settings))
    suites = (ROOT / ".ci" / "suites.py").read_text("utf-8")
    run = set(re.findall(r'"(3\.\d+)"', suites))
    first = re.search(r'requires-python = ">=(3\.\d+)"', settings)
    assert first is not None
    assert first[1] in declared
    assert declared - run <= {"3.11"}, "the suites of .ci/run use 3.11"
    assert run <= declared


LOAD_ALL = """
import importlib, pkgutil, llmeval_sdk
names = [one.name for one in pkgutil.walk_packages(llmeval_sdk.__path__, "llmeval_sdk.")]
loaded = 0
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
            loaded += 1
        except ImportError as error:
            if (error.name or "llmeval_sdk").partition(".")[0] == "llmeval_sdk":
                raise  # what is missing is our own, and no library that is not installed
print(loaded, llmeval_sdk.flush(5.0).complete)
"""


def test_every_module_loads_without_a_warning():
    """In development mode, with each warning an error, on the Python that runs this test."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", LOAD_ALL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    loaded, _, complete = done.stdout.strip().partition(" ")
    assert (done.returncode, complete) == (0, "True"), done.stderr
    modules = list((ROOT / "llmeval_sdk").rglob("*.py"))
    assert int(loaded) > 0.8 * len(modules)
