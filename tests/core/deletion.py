"""The core stays small: delete every other part of the package, and the core's tests pass.

    python tests/core/deletion.py           # what `make core` runs: all parts at once
    python tests/core/deletion.py viewer    # one part, with what is built upon it
    python tests/core/deletion.py --each    # all at once, then each part in turn (20 minutes)
    python tests/core/deletion.py --count   # only the figures beside their ceilings

Core is what runs between the decorator and the verdict, plus Datadog, OTLP and the local store. A
part of `PARTS` is everything else: files that can be deleted together. With a part goes what is
built upon it, as the imports say, and every test file that uses what is gone. The core without any
part runs all its tests but those that have to be alone; the core without one part runs `SMOKE`.
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


sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from cutting import without
from deletable import CEILINGS, PARTS, built_upon, core_figures, core_imports_of_parts


ROOT = Path(__file__).resolve().parents[2]
SMOKE = ("tests/tracing", "tests/runtime", "tests/exporters")
LEFT_OUT = (
    "tests/test_examples.py", "tests/test_peers.py", "tests/servers", "tests/backends",
    "tests/faults", "tests/core", "tests/matrix.py", "tests/docs", "tests/frozen",
    "tests/spool/test_survival.py", "tests/estimates/test_coverage.py",
    "tests/heuristics/test_work_budget.py", "tests/heuristics/test_contract.py",
)  # fmt: skip
"""Tests of other folders of the repository, of other environments, of the package as a whole, or
that take minutes each."""
TESTS_FAILED = 1
"""What pytest exits with then. They run again by themselves: a busy machine fails a bar of time."""
FEWEST_SMOKE, FEWEST_WHOLE = 60, 2_500
"""Tests that have to be left: with fewer, the tests were deleted and not the part."""


def main() -> int:
    """Print the figures, then delete; return 1 where a ceiling or a test fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="run no tests")
    parser.add_argument("--each", action="store_true", help="then delete each part in turn")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(
            f"no part is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}"
        )
    failed = show_figures()
    if not arguments.count:
        for name in arguments.parts or ["all", *(PARTS if arguments.each else ())]:
            failed |= not holds_without(name)
    return int(failed)


def show_figures() -> bool:
    """Print the core's size beside its ceilings; return whether one is broken."""
    figures = core_figures()
    for what, number in figures.items():
        bound = f" of at most {CEILINGS[what]:,}" if what in CEILINGS else ""
        print(f"{what:<42} {number:>7,}{bound}")
    imports = core_imports_of_parts()
    for importer, imported in imports:
        print(f"the core imports a part: {importer} -> {imported}")
    return bool(imports) or any(figures[what] > most for what, most in CEILINGS.items())


def holds_without(name: str) -> bool:
    """Delete a part, or all, from a copy and run the tests that are left."""
    deleted = set(PARTS) if name == "all" else built_upon(name)
    with tempfile.TemporaryDirectory(prefix="llmeval-core-") as folder:
        copy = Path(folder)
        for part in ("llmeval_sdk", "tests", "docs"):  # tests follow recipes of pages
            ignore = shutil.ignore_patterns("__pycache__", "deletion.py")
            shutil.copytree(ROOT / part, copy / part, ignore=ignore)
        for file in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / file, copy / file)
        for place in (copy / "llmeval_sdk" / place for part in deleted for place in PARTS[part]):
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        without(copy, deleted)
        for place in LEFT_OUT:
            path = copy / place
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        chosen = [] if name == "all" else [part for part in SMOKE if (copy / part).exists()]
        done = tests_of(copy, "-n", "2", "--dist", "loadfile", *chosen)
        failed_once = done.returncode == TESTS_FAILED
        again = tests_of(copy, "--last-failed", *chosen) if failed_once else done
    summary = next((line for line in reversed(done.stdout.splitlines()) if " in " in line), "")
    passed = int(match[1]) if (match := re.search(r"(\d+) passed", summary)) else 0
    enough = passed >= (FEWEST_WHOLE if name == "all" else FEWEST_SMOKE)
    also = "" if name == "all" else "".join(f", {part}" for part in sorted(deleted - {name}))
    print(f"without {name}{also}: {summary or done.stderr[-500:]}", flush=True)
    if done.returncode or not enough:
        print(done.stdout[-6_000:] if done.returncode else f"{passed} tests are too few")
    if failed_once:
        print(f"those that failed, by themselves: {again.stdout[-6_000:]}")
    return again.returncode == 0 and enough


def tests_of(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests that are left in a copy; without xdist where it is not asked for."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not alone", "-p", "no:llmeval", "--color=no",
         *arguments],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
