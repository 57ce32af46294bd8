"""The core runs without its plugins: delete their folders, and its tests pass.

    python tests/core/deletion.py           # what `make core` runs
    python tests/core/deletion.py ragas     # only without these plugins and what requires them

Once with all folders of `llmeval_sdk/plugins` gone, the tests of the core run in full. Then once
without each plugin, together with those that require it: the package is imported, ``doctor`` runs,
and one call is traced, scored and reported.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from llmeval_sdk import registry


ROOT = Path(__file__).resolve().parents[2]
PLUGINS = {plugin.name: plugin.requires for plugin in registry.plugins()}
LEFT_OUT = (
    "tests/plugins", "tests/test_examples.py", "tests/test_peers.py", "tests/servers",
    "tests/backends", "tests/benchmarks", "tests/faults", "tests/core", "tests/matrix.py",
    "tests/docs",
    "tests/frozen/test_*.py",
    "tests/typing", "tests/viewer", "tests/test_distribution.py",
    "tests/pipeline/spool/test_survival.py", "tests/statistics/test_coverage.py",
    "tests/heuristics/test_work_budget.py", "tests/heuristics/test_contract.py",
    "tests/heuristics/test_pauses.py", "tests/config/test_wrong_values.py",
)  # fmt: skip
"""Tests of plugins, of other folders of the repository, of other environments, of the package as a
whole, or that take minutes each."""
FEWEST = 2_500
"""Tests that have to be left: with fewer, the tests were deleted and not the plugins."""
TESTS_FAILED = 1
"""What pytest exits with then. They run again by themselves: a busy machine fails a bar of time."""
SMOKE = """
import llmeval_sdk as llmeval

llmeval.configure(exporters=["local"], llm=lambda messages, **_: '{"rating": "yes", "rationale": ""}')


@llmeval.workflow(evaluators=["groundedness"])
def answer(question):
    llmeval.annotate(retrieved_context=[{"content": "The roof is of slate.", "score": 0.9}])
    return "Slate."


answer("What is the roof made of?")
stats = llmeval.flush(timeout=20)
assert stats.exporters["local"].balanced, stats
assert not stats.problems, stats.problems
assert stats.judged == {"groundedness": 1}, stats
print(llmeval.evaluate([{"request": "q", "response": "a"}], progress=False).counts)
"""


def main() -> int:
    """Delete and run; return 1 where something fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plugins", nargs="*", metavar="PLUGIN", help=f"of {', '.join(PLUGINS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.plugins) - set(PLUGINS):
        parser.error(f"no plugin is called {', '.join(sorted(unknown))}")
    holds = [runs_without(name) for name in arguments.plugins or PLUGINS]
    if not arguments.plugins:
        holds.append(core_holds())
    return int(not all(holds))


def requiring(name: str) -> set[str]:
    """Return a plugin with all that require it, directly or not."""
    gone = {name}
    while more := {other for other, needs in PLUGINS.items() if gone & {*needs}} - gone:
        gone |= more
    return gone


def copied(folder: str, gone: set[str], *places: str) -> Path:
    """Copy the package, and what else is wanted, without some plugins."""
    copy = Path(folder)
    for place in ("llmeval_sdk", *places):
        if (ROOT / place).is_dir():
            shutil.copytree(
                ROOT / place, copy / place, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / place, copy / place)
    for name in gone:
        shutil.rmtree(copy / "llmeval_sdk" / "plugins" / name)
    return copy


def runs_without(name: str) -> bool:
    """Say whether the package is imported, diagnosed and used without one plugin."""
    gone = requiring(name)
    with tempfile.TemporaryDirectory(prefix="llmeval-core-") as folder:
        copy = copied(folder, gone)
        environment = {
            **os.environ, "PYTHONPATH": folder, "LLMEVAL_STORE": str(copy / "store" / "traces.db"),
        }  # fmt: skip
        for arguments in (
            ("-c", SMOKE),
            ("-m", "llmeval_sdk", "doctor", "--offline"),
            ("-m", "llmeval_sdk", "report"),
        ):
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=copy, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode or "left out" in done.stderr or "Traceback" in done.stderr:
                print(f"without {', '.join(sorted(gone))}: {' '.join(arguments)[:60]} fails")
                print(done.stdout[-3_000:], done.stderr[-3_000:])
                return False
    print(f"without {', '.join(sorted(gone))}: ok", flush=True)
    return True


def core_holds() -> bool:
    """Say whether the core's tests pass with the folders of all plugins gone."""
    with tempfile.TemporaryDirectory(prefix="llmeval-core-") as folder:
        copy = copied(
            folder, set(PLUGINS), "tests", "docs", "examples", "pyproject.toml", "README.md"
        )
        for place in LEFT_OUT:
            for path in copy.glob(place):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        done = tests_of(copy, "-n", "2", "--dist", "loadfile")
        failed_once = done.returncode == TESTS_FAILED
        again = tests_of(copy, "--last-failed") if failed_once else done
    summary = next((line for line in reversed(done.stdout.splitlines()) if " in " in line), "")
    passed = int(match[1]) if (match := re.search(r"(\d+) passed", summary)) else 0
    print(f"without any plugin: {summary or done.stderr[-500:]}", flush=True)
    if done.returncode or passed < FEWEST:
        print(done.stdout[-6_000:] if done.returncode else f"{passed} tests are too few")
    if failed_once:
        print(f"those that failed, by themselves: {again.stdout[-6_000:]}")
    return again.returncode == 0 and passed >= FEWEST


def tests_of(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests that are left in a copy; without xdist where it is not asked for."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:llmeval", "--color=no",
         *arguments],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
