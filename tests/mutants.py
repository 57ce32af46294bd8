"""Tests of the tests: change a random place of the code, and see whether a test notices.

    python tests/mutants.py [--rooms budget spool] [--number 150] [--seed 20261128]

In a copy of this folder, a room's tests run once with coverage, which says what each line's tests
are. Then mutants are drawn; each is one small change by the operators of mutmut. The tests that see
its line run against it, the quickest first, until one fails. mutmut's own runner changes functions
only, and none that is decorated: not the constants in which half of our statistics stand.

Left out is what no test could see: annotations, docstrings, names of types (aliases, ``TypeVar``,
``cast``), ``__all__``, what a ``raise`` says, and what is in a ``len()`` or ``isinstance()``, which
mutmut leaves alone. Nothing else is, whether it survives or not. A mutant that is equivalent to the
code counts as a survivor; why it is stands in ``tests/support/equivalent_mutants.json``. The
command fails where less than 70 % are killed; those that time out or have no test are not.
"""

import argparse
import contextlib
import datetime
import difflib
import hashlib
import importlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import coverage
import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode
from rich.progress import Progress


ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/mutants.json"
EQUIVALENT = ROOT / "tests/support/equivalent_mutants.json"
FLOOR = 0.7
NONE_RAN = 70
OUTCOMES = ("killed", "timed out", "survived", "no test")


class Room(NamedTuple):
    """What is changed, the tests that run it, and those of them that run it in other processes."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()


def evaluation(*names):
    """Return the paths of tests of the evaluation."""
    return tuple(f"tests/evaluation/test_{name}.py" for name in names)


def pipeline(*names):
    """Return the paths of tests of the pipeline."""
    return tuple(f"tests/pipeline/test_{name}.py" for name in names)


SHARES = evaluation("sampling", "escalation", "groups", "gate", "quota", "share", "between")
MONEY = (*evaluation("budget", "ledger", "groups", "usage", "calls"), *pipeline("judge_budget"))
SURVIVAL = "tests/pipeline/spool/test_survival.py"
ROOMS = {
    "statistics": Room(
        ("llmeval_sdk/statistics/*.py",),
        ("tests/statistics", "tests/store/test_selection.py", "tests/store/test_populations.py",
         *evaluation("calibrations")),
    ),
    "budget": Room(
        ("llmeval_sdk/evaluation/budget.py", "llmeval_sdk/evaluation/limiter.py"),
        (*MONEY, "tests/store/test_state.py", *evaluation("decisions")),
    ),
    "sampling": Room(("llmeval_sdk/evaluation/sampling.py",), SHARES),
    "escalation": Room(
        ("llmeval_sdk/evaluation/escalation.py", "llmeval_sdk/evaluation/groups.py"),
        (*SHARES, *pipeline("judging", "judge_budget")),
    ),
    "spool": Room(
        ("llmeval_sdk/pipeline/spool.py", "llmeval_sdk/pipeline/recovery.py"),
        ("tests/pipeline/spool", f"--deselect={SURVIVAL}::test_random_kills_lose_nothing"),
        (SURVIVAL,),
    ),
    "accounting": Room(
        ("llmeval_sdk/evaluation/books.py", "llmeval_sdk/pipeline/stats.py"),
        (*MONEY, *pipeline("delivery", "dropped_spans", "judging"), "tests/statistics/test_funnel.py"),
    ),
}  # fmt: skip
"""Accounts are kept in two places: the books of calls, tokens and money, and the counters of what
was made, delivered and dropped."""


class Mutant(NamedTuple):
    """One small change of a file."""

    name: str
    """A few digits that stay the same when the code elsewhere changes."""
    file: str
    line: int
    before: str
    source: str
    """The whole file, and as it is changed."""
    lines: frozenset[int]
    """The lines whose tests run; none where the place runs when the module is loaded."""

    @property
    def diff(self):
        """The lines that differ."""
        texts = self.before.splitlines(), self.source.splitlines()
        found = list(difflib.unified_diff(*texts, n=0, lineterm=""))[3:]
        kept = {sign: [line[1:] for line in found if line[0] == sign] for sign in "-+"}
        return "\n".join(
            textwrap.indent(textwrap.dedent("\n".join(lines)), f"{sign} ", lambda _: True)
            for sign, lines in kept.items()
            if lines
        )


class Places(MutationVisitor):
    """Finds all mutants of a file, in decorated functions too, because the file itself changes."""

    METADATA_DEPENDENCIES = (PositionProvider, *MutationVisitor.METADATA_DEPENDENCIES)

    def __init__(self):
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))

    def _skip_node_and_children(self, node):
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return False
        if isinstance(node, cst.Raise):
            return True
        if isinstance(node, cst.Call) and getattr(node.func, "value", "") in {"cast", "TypeVar"}:
            return True
        at_the_margin = self.get_metadata(PositionProvider, node).start.column == 0
        if isinstance(node, cst.Assign) and at_the_margin:
            name = getattr(node.targets[0].target, "value", "")
            if name == "__all__" or (name.lstrip("_")[:1].isupper() and not name.isupper()):
                return True
        return super()._skip_node_and_children(node)


def draw(files, number, seed, known=()):
    """Return a random sample of the mutants of some files, and how many there are.

    Those whose names are known already are not made.

    Each mutant has a place in the order by a hash of what it changes, so that a change of the code
    elsewhere leaves the sample as it is.
    """
    found, seen = [], {}
    for path in sorted(path for pattern in files for path in ROOT.glob(pattern)):
        file = str(path.relative_to(ROOT))
        wrapper = MetadataWrapper(cst.parse_module(path.read_text("utf-8")))
        places = Places()
        wrapper.visit(places)
        positions, parents = map(wrapper.resolve, (PositionProvider, ParentNodeProvider))
        for mutation in places.mutations:
            old, new = mutation.original_node, mutation.mutated_node
            function = mutation.contained_by_top_level_function
            inside = isinstance(function, cst.FunctionDef)
            words = [file, function.name.value if inside else ""]
            words += [wrapper.module.code_for_node(node) for node in (old, new)]
            seen[tuple(words)] = seen.get(tuple(words), 0) + 1
            words += [str(seen[tuple(words)]), str(seed)]
            order = hashlib.sha256("\0".join(words).encode()).hexdigest()
            statement = old
            while not isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                statement = parents[statement]
            first, end = positions[statement].start.line, positions[statement].end.line + 1
            if isinstance(statement, cst.BaseCompoundStatement):
                body = getattr(statement, "body", statement)  # a ``match`` has cases
                end = max(positions[body].start.line, first + 1)
            lines = range(first, end) if inside and statement is not function else ()
            found.append((order, file, positions[old].start.line, wrapper.module, old, new, lines))
    drawn = []
    for order, file, line, module, old, new, lines in sorted(found, key=lambda each: each[0]):
        if len(drawn) == number:
            break
        if order[:10] in known:
            drawn.append(Mutant(order[:10], file, line, "", "", frozenset(lines)))
            continue
        source = module.deep_replace(old, new).code
        with contextlib.suppress(SyntaxError):
            compile(source, file, "exec")
            drawn.append(Mutant(order[:10], file, line, module.code, source, frozenset(lines)))
    return drawn, len(found)


def names_of(item):
    """Return by what names a test can be chosen: with its parameters, or for all of them."""
    return {item.nodeid, item.nodeid.partition("[")[0]}


class Watch:
    """Lets the chosen tests run in their order; notes each one's time, and which failed."""

    def __init__(self, chosen=(), measured=None):
        self.chosen = {test: rank for rank, test in enumerate(chosen)}
        self.measured, self.seconds, self.failed = measured, {}, []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Leave out what was not chosen."""
        if self.chosen:
            items[:] = [item for item in items if self.chosen.keys() & names_of(item)]
            items.sort(key=lambda item: min(self.chosen.get(one, 1e9) for one in names_of(item)))

    def pytest_runtest_logstart(self, nodeid):
        """Tell the coverage whose lines follow."""
        if self.measured:
            self.measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report):
        """Add up the time of a test with that of its fixtures."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, arguments):
        """Run pytest; return its exit, and what was noted."""
        if self.measured:
            self.measured.start()
        code = int(pytest.main(arguments, plugins=[self]))
        if self.measured:
            self.measured.stop()
            self.measured.save()
        paths = {name: getattr(module, "__file__", "") for name, module in sys.modules.items()}
        loaded = [name for name, path in paths.items() if "site-packages" in (path or "")]
        return code, {"seconds": self.seconds, "failed": self.failed, "loaded": loaded}


def run_tests(copy, arguments, *, watch, limit):
    """Run tests in a process of their own.

    Returns its exit, which is ``None`` where it took too long, and what it noted.
    """
    noted = copy.parent / "noted.json"
    noted.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        code = NONE_RAN
        try:
            os.setsid()
            out = os.open(copy.parent / "output.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(out, stream)
            base = ["-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
            base += ["--timeout=0", f"--basetemp={copy.parent / 'tmp'}"]
            base += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # it was loaded before
            code, said = watch.run([*base, *arguments])
            noted.write_text(json.dumps(said), "utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline, status = time.monotonic() + limit, None
    while status is None and time.monotonic() < deadline:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return None, {}
    said = json.loads(noted.read_text("utf-8")) if noted.exists() else {}
    return os.waitstatus_to_exitcode(status), said


def warm(copy, arguments, chosen=(), measured=None):
    """Run tests of the unchanged code, which have to pass; return the time of each."""
    watch = Watch(chosen, measured)
    code, said = run_tests(copy, arguments, watch=watch, limit=1800)
    if code != 0:
        print((copy.parent / "output.txt").read_text("utf-8", "replace")[-5000:])
        sys.exit(f"tests fail without any change (exit {code})")
    for name in said["loaded"]:  # what each mutant's process then need not load itself
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return said["seconds"]


def measure(copy, rooms):
    """Return which tests run each line of some rooms, and the time of each test."""
    data = copy.parent / "coverage.data"
    patterns = [pattern for room in rooms for pattern in room.files]
    files = [str(path.resolve()) for pattern in patterns for path in copy.glob(pattern)]
    measured = coverage.Coverage(data_file=str(data), include=files, config_file=False)
    tests = dict.fromkeys(test for room in rooms for test in room.tests)
    seconds = warm(copy, [*tests], measured=measured)
    found = coverage.CoverageData(str(data))
    found.read()
    by_line = {str(Path(file).relative_to(copy)): found.contexts_by_lineno(file) for file in files}
    return by_line, seconds


def tests_of(mutant, room, by_line, seconds, most):
    """Return the tests that see a mutant, the quickest first, as many as fit into some seconds."""
    lines = by_line[mutant.file]
    seen = {test for line in mutant.lines for test in lines.get(line, ())}
    if not mutant.lines or "" in seen:
        seen = {test for tests in lines.values() for test in tests}
    seen &= seconds.keys()
    seen |= {test for test in seconds if not seen and test.startswith(room.elsewhere or ("-",))}
    chosen, total = [], 0.0
    for test in sorted(seen, key=lambda test: (seconds[test], test)):
        total += seconds[test]
        if total > most and chosen:
            break
        chosen.append(test)
    return chosen


def outcome_of(mutant, chosen, copy, limit):
    """Run a mutant's tests in the copy, and put the file back; also say which test failed."""
    if not chosen:
        return "no test", []
    path = copy / mutant.file
    before, unchanged = path.stat(), path.read_bytes()
    path.write_text(mutant.source, "utf-8")
    files = sorted({test.partition("::")[0] for test in chosen})
    try:
        code, said = run_tests(copy, ["-x", *files], watch=Watch(chosen), limit=limit)
    finally:
        path.write_bytes(unchanged)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    if code in {5, NONE_RAN}:
        print((copy.parent / "output.txt").read_text("utf-8", "replace")[-5000:])
        raise RuntimeError(f"{mutant.file}:{mutant.line}: none of its tests could run ({code})")
    outcome = "timed out" if code is None else "killed" if code else "survived"
    return outcome, said.get("failed", [])


def try_room(name, copy, measured, options, progress, before):
    """Draw a room's mutants, try each, and return the account.

    With ``before``, the account of an earlier run, only what was not killed then is tried, against
    the tests of ``options.again``.
    """
    room, (by_line, seconds) = ROOMS[name], measured
    known = before.get("killed_names", "").split()
    earlier = {row["name"]: row for row in before.get("survivors", ())}
    drawn, possible = draw(room.files, options.number, options.seed, known)
    task = progress.add_task(name, total=len(drawn))
    rows, outcomes, failed = {}, {}, {}

    def attempt(mutant, but=()):
        tests = options.again or tests_of(mutant, room, by_line, seconds, options.seconds)
        tests = [test for test in tests if test not in but]
        limit = 60 if options.again else 10 + 4 * sum(seconds[test] for test in tests)
        outcomes[mutant], failed[mutant] = outcome_of(mutant, tests, copy, limit)
        rows[mutant.name] = row_of(mutant, outcomes[mutant], len(tests))
        if earlier and outcomes[mutant] != "killed":
            rows[mutant.name] = earlier[mutant.name]
            outcomes[mutant] = earlier[mutant.name]["outcome"]

    for mutant in drawn:
        if mutant.name in known:
            outcomes[mutant] = "killed"
        elif before and mutant.name not in earlier:
            sys.exit(f"{mutant.file} has changed: run it without --again")
        else:
            attempt(mutant)
            if options.verbose:
                progress.print(f"{mutant.file}:{mutant.line} {outcomes[mutant]}")
        counts = Counter(outcomes.values())
        said = ", ".join(f"{counts[each]} {each}" for each in OUTCOMES)
        progress.update(task, advance=1, description=f"{name}: {said}", refresh=True)
    killers = dict.fromkeys(test for tests in failed.values() for test in tests)
    if killers:  # a test that fails in this order without any change has killed nothing
        files = sorted({test.partition("::")[0] for test in killers})
        _, said = run_tests(copy, files, watch=Watch(killers), limit=1800)
        fooled = set(said["failed"])
        for mutant in [each for each, tests in failed.items() if fooled.intersection(tests)]:
            attempt(mutant, but=fooled)
        for test in sorted(fooled):
            progress.print(f"left out, since it fails without any change: {test}")
    return account_of(drawn, possible, outcomes, rows)


def row_of(mutant, outcome, tests):
    """Return what is kept of one mutant that was not killed."""
    row = {"name": mutant.name, "file": mutant.file, "line": mutant.line}
    return row | {"diff": mutant.diff, "outcome": outcome, "tests": tests}


def account_of(drawn, possible, outcomes, rows):
    """Return what is kept of a room."""
    table = json.loads(EQUIVALENT.read_text("utf-8"))
    why = {(one["file"], one["diff"]): one["why"] for one in table}
    survivors = []
    for mutant in drawn:
        if outcomes[mutant] != "killed":
            row = rows[mutant.name] | {"line": mutant.line, "outcome": outcomes[mutant]}
            row.pop("equivalent", None)
            if (row["file"], row["diff"]) in why:
                row["equivalent"] = why[row["file"], row["diff"]]
            survivors.append(row)
    counts = Counter(outcomes.values())
    killed = [mutant.name for mutant in drawn if outcomes[mutant] == "killed"]
    return {
        "date": today(), "drawn": len(drawn), "possible": possible,
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "killed_share": round(len(killed) / len(drawn), 3),
        "survivors": survivors, "killed_names": " ".join(killed),
    }  # fmt: skip


def today():
    """Return the date of this machine."""
    return f"{datetime.datetime.now().astimezone():%Y-%m-%d}"


def main():
    """Try the rooms, keep the result, and say which are below the floor."""
    form = argparse.RawTextHelpFormatter
    files = "\n".join(f"{name}: {', '.join(room.files)}" for name, room in ROOMS.items())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help=files)
    parser.add_argument("--number", type=int, default=150, help="mutants a room")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--seconds", type=float, default=20, help="of tests a mutant, at most")
    again = "after new tests: try what was not killed, against these tests only"
    parser.add_argument("--again", nargs="+", metavar="FILE::TEST", help=again)
    parser.add_argument("--verbose", action="store_true", help="print each mutant")
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    result = json.loads(options.json.read_text("utf-8")) if options.json.exists() else {}
    if (result.get("seed"), result.get("number")) != (options.seed, options.number):
        result = {"rooms": {}}
    with tempfile.TemporaryDirectory() as folder, Progress(auto_refresh=False) as progress:
        copy = Path(folder).resolve() / "copy"
        ignored = shutil.ignore_patterns(".venv*", ".git", "artifacts", "*_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=ignored)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        progress.print("first the tests run without any change")
        measured = {}, {}
        if options.again:
            warm(copy, sorted({test.partition("::")[0] for test in options.again}), options.again)
        else:
            measured = measure(copy, [ROOMS[name] for name in options.rooms])
        sys.dont_write_bytecode = True  # a changed file must leave nothing behind
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        for name in options.rooms:
            before = result["rooms"][name] if options.again else {}
            result["rooms"][name] = try_room(name, copy, measured, options, progress, before)
            rooms = {each: result["rooms"][each] for each in ROOMS if each in result["rooms"]}
            result = {
                "date": today(), "seed": options.seed, "number": options.number,
                "python": platform.python_version(), "mutmut": version("mutmut"),
                "llmeval-inprocess": version("llmeval-inprocess"), "rooms": rooms,
            }  # fmt: skip
            text = json.dumps(result, indent=1, ensure_ascii=False)
            options.json.write_text(f"{text}\n", "utf-8")
        os.chdir(ROOT)
    below = [name for name in options.rooms if result["rooms"][name]["killed_share"] < FLOOR]
    if below:
        sys.exit(f"less than {FLOOR:.0%} of the mutants are killed in {', '.join(below)}")


if __name__ == "__main__":
    main()
