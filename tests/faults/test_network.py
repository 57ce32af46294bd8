"""Whatever is wrong with the far end, the app does not notice, and every record is accounted for.

An app per exporter and fault, and one with a healthy far end beside them, all at once. ``make
faults`` runs all of them for longer, so that a minute of the log is a minute.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from far_ends import FAULTS, JUDGE_FAULTS, far_end


APP = pathlib.Path(__file__).parent / "apps" / "network.py"
SECONDS = float(os.environ.get("LLMEVAL_TEST_FAULT_SECONDS", "0"))
MINUTE = 60 if SECONDS > 120 else 0.4
PER_SECOND = 20 if SECONDS else 100
EXIT_SECONDS = 30.0
"""Where an exit takes about one and a half, longer than that is a hang."""
EXPORTERS = ("otlp", "phoenix", "mlflow", "langfuse")
WHOLE = {**dict.fromkeys(EXPORTERS, tuple(FAULTS)), "judge": tuple(JUDGE_FAULTS)}
QUICK = {
    "otlp": tuple(FAULTS),
    "phoenix": ("healthy", "hang", "garbage", "413"),
    "mlflow": ("healthy", "closed", "portal", "413"),
    "langfuse": ("healthy", "hang", "portal", "413"),
    "judge": ("healthy", "closed", "hang", "429", "portal"),
}
TAKEN = ("healthy", "413")
"""With these, all records arrive, if the app gives a busy machine the time."""
CASES = [(of, fault) for of, faults in (WHOLE if SECONDS else QUICK).items() for fault in faults]
every_case = pytest.mark.parametrize(("of", "fault"), CASES)


@dataclasses.dataclass
class Ran:
    """What an app told, how long its end took, and how much its far end took."""

    code: int
    errors: str
    told: dict
    exit_seconds: float
    took: int

    def latency(self, clock, percent):
        """Return a percentile of the calls in microseconds, by ``wall`` or ``cpu`` time."""
        times = sorted(self.told[clock])
        return times[min(len(times) - 1, len(times) * percent // 100)] / 1_000

    @property
    def lines(self):
        return self.told["lines"]

    @property
    def stats(self):
        return self.told["stats"]


@functools.cache
def ran(of):
    """Run an app for each fault, all at once; by fault, what became of it."""
    faults = [fault for name, fault in CASES if name == of]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(faults)) as pool:
        far_ends = {fault: stack.enter_context(far_end(of, fault)) for fault in faults}
        running = {
            fault: pool.submit(_run, *each, place, wait=fault in TAKEN)
            for place, (fault, each) in enumerate(far_ends.items())
        }
        return {fault: each.result() for fault, each in running.items()}


def _run(environment, took, place, *, wait):
    # They end one after the other: eleven processes that end at once wait for two processors.
    seconds = SECONDS + 2 * place if SECONDS else 3 * MINUTE + 0.4 * place
    ours = ("LLMEVAL_", "DD_", "OTEL_", "OPENAI_", "PHOENIX_", "MLFLOW_", "LANGFUSE_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, APP, str(seconds), str(MINUTE), str(PER_SECOND), *["--wait"] * wait],
        env={**clean, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    ended = time.monotonic()
    told = json.loads(done.stdout.splitlines()[-1])
    return Ran(done.returncode, done.stderr, told, ended - told["ended"], took())


@every_case
def test_nothing_is_raised_and_nothing_is_printed(of, fault):
    """Not in a call, not in a thread, not in a finaliser; and each call returns its own value."""
    app = ran(of)[fault]
    assert (app.code, app.errors, app.told["raised"]) == (0, "", [])


@every_case
def test_a_call_costs_what_it_costs_with_a_healthy_far_end(of, fault):
    """The caller's thread does no more work than then."""
    app, healthy = ran(of)[fault], ran(of)["healthy"]
    assert app.latency("cpu", 50) < 3 * healthy.latency("cpu", 50) + 100
    assert app.latency("cpu", 99) < 3 * healthy.latency("cpu", 99) + 500


@every_case
def test_the_log_says_it_and_stays_quiet(of, fault):
    """At most three lines in the first minute and one in each later one, and one at the end."""
    app = ran(of)[fault]
    last = [line for _, line in app.lines if line.startswith("llmeval at exit: ")]
    first = [line for at, line in app.lines if at < MINUTE and line not in last]
    later = [line for at, line in app.lines if at >= MINUTE and line not in last]
    minutes = app.told["ended"] - app.told["begun"] + app.exit_seconds - MINUTE
    assert len(first) <= 3
    assert len(later) <= 1 + minutes // MINUTE
    assert len(last) <= 1
    if fault not in TAKEN:
        assert app.lines


@pytest.mark.parametrize(("of", "fault"), [case for case in CASES if case[0] != "judge"])
def test_the_last_line_says_how_much_was_lost(of, fault):
    """The whole number, whatever was said on the way; nothing where nothing was lost."""
    app = ran(of)[fault]
    last = [line for _, line in app.lines if line.startswith("llmeval at exit: ")]
    if fault in TAKEN:
        assert not last
    else:
        (line,) = last
        assert sum(map(int, re.findall(r"(\d+) (?:records|dropped)", line))) == sum(
            app.stats[what] for what in ("spans", "evaluations")
        )


@every_case
def test_the_process_ends_in_time(of, fault):
    """The exit waits for no far end."""
    assert ran(of)[fault].exit_seconds < EXIT_SECONDS


@pytest.mark.parametrize(("of", "fault"), [case for case in CASES if case[0] != "judge"])
def test_every_record_is_accounted_for(of, fault):
    """Created is delivered, dropped, undelivered and unknown; delivered is what the server took."""
    app = ran(of)[fault]
    each = app.stats["exporters"][of]
    dropped = sum(each["dropped"].values())
    assert each["created"] == app.stats["spans"] + app.stats["evaluations"]
    assert each["created"] == each["delivered"] + dropped + each["undelivered"] + each["unknown"]
    assert each["delivered"] == app.took
    if fault in TAKEN:
        assert each["delivered"] == each["created"]
    else:
        assert each["delivered"] == 0


@pytest.mark.parametrize("fault", [fault for of, fault in CASES if of == "judge"])
def test_every_judgement_has_an_outcome(fault):
    """Judged or not run for a reason: together they are the calls."""
    app = ran("judge")[fault]
    judged = app.stats["judged"].get("agrees", 0)
    not_run = app.stats["not_run"].get("agrees", {})
    calls = len(app.told["wall"]) + 1
    assert judged + sum(not_run.values()) == calls
    if fault in ("healthy", "drip"):  # what drips arrives in the end
        assert judged <= app.took <= judged + not_run.get("shutdown", 0)
    else:
        assert judged == 0


@pytest.fixture(scope="module", autouse=True)
def _table(pytestconfig):
    """Print what was measured, after the long form."""
    yield
    if not SECONDS:
        return
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(
            "\n| exporter | fault | raised | p50 µs | p99 µs | added p99 | lines | exit s | account |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for of, fault in CASES:
            print(_row(of, fault, ran(of)[fault], ran(of)["healthy"]))


def _row(of, fault, app, healthy):
    if of == "judge":
        account = f"judged {app.stats['judged']}, not run {app.stats['not_run'].get('agrees', 0)}"
    else:
        each = app.stats["exporters"][of]
        account = ", ".join(f"{name} {count}" for name, count in each.items() if count)
    p50, p99 = app.latency("wall", 50), app.latency("wall", 99)
    return (
        f"| {of} | {fault} | {len(app.told['raised'])} | {p50:.0f} | {p99:.0f} "
        f"| {p99 - healthy.latency('wall', 99):+.0f} | {len(app.lines)} "
        f"| {app.exit_seconds:.2f} | {account} |"
    )
