"""An app that runs for long, with a far end that comes and goes, holds what it held before.

``make soak`` runs ten minutes of it and looks at the process's resident memory; the short form
counts the blocks that Python holds, because an allocator keeps more than a short run uses.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading

import pytest
from otlp_collector import running_collector


APP = pathlib.Path(__file__).parent / "apps" / "soak.py"
SECONDS = int(os.environ.get("LLMEVAL_TEST_SOAK_SECONDS", "0"))
ROUNDS, ROUND, QUESTIONS = (20, SECONDS / 20, 1_000_000) if SECONDS else (8, 1.2, 37)
WARM_UP = 4
OUTAGE = 5.0 if SECONDS else 0.4
BYTES_PER_SPAN, BLOCKS_PER_SPAN = 10, 0.1
"""A megabyte for 100,000 spans, and as many blocks of a hundred bytes."""


@pytest.fixture(scope="module")
def soaked(tmp_path_factory):
    """Run the app beside a collector that comes and goes; gives its rounds, account and intake."""
    ours = ("LLMEVAL_", "DD_", "OTEL_", "OPENAI_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    over = threading.Event()
    with running_collector() as collector:
        collector.decode = False

        def flap():
            while not over.wait(2 * OUTAGE):
                collector.always = (503, {}, b"")
                over.wait(OUTAGE)
                collector.always = None

        flapping = threading.Thread(target=flap)
        flapping.start()
        try:
            done = subprocess.run(
                [sys.executable, APP, str(ROUNDS), str(ROUND), str(QUESTIONS)],
                env={
                    **clean,
                    "LLMEVAL_EXPORTERS": "otlp,local",
                    "LLMEVAL_STORE": str(tmp_path_factory.mktemp("soak") / "store.db"),
                    "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                },
                capture_output=True, text=True, check=True, timeout=SECONDS * 2 + 60,
            )  # fmt: skip
        finally:
            over.set()
            flapping.join()
        *rounds, account = map(json.loads, done.stdout.splitlines())
        yield rounds, account, collector.span_count + collector.log_count


@pytest.fixture(scope="module", autouse=True)
def _figures(pytestconfig, request):
    """Print what was measured, after the long form."""
    if not SECONDS:
        yield
        return
    rounds, account, _ = request.getfixturevalue("soaked")
    yield
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for each in rounds:
            about = f"{each['spans']:>8} spans  {each['resident'] / 2**20:6.1f} MiB"
            print(f"{about}  {each['blocks']} blocks  {each['files']} files")
        print(account["exporters"], account["judged"], account["not_run"])


def test_memory_does_not_grow(soaked):
    """Less than a megabyte for 100,000 spans, generators given up half-way among them."""
    rounds, _, _ = soaked
    measure, most = ("resident", BYTES_PER_SPAN) if SECONDS else ("blocks", BLOCKS_PER_SPAN)
    later = rounds[WARM_UP:]
    slope, _ = statistics.linear_regression(
        [each["spans"] for each in later], [each[measure] for each in later]
    )
    assert later[-1]["spans"] - later[0]["spans"] > 200 * ROUND * (len(later) - 1)
    assert slope < most, [each[measure] for each in rounds]


def test_threads_are_few_and_stay_the_same(soaked):
    """The worker, one for each exporter, and one for all judges."""
    rounds, _, _ = soaked
    expected = ["MainThread", "llmeval-judges", "llmeval-local", "llmeval-otlp", "llmeval-worker"]
    assert [each["threads"] for each in rounds] == [expected] * ROUNDS


def test_open_files_stay_the_same(soaked):
    """Whatever was connected and cut in between."""
    rounds, _, _ = soaked
    found = [each["files"] for each in rounds[WARM_UP:]]
    assert max(found) - min(found) <= 1


def test_nothing_was_lost(soaked):
    """Every record arrived at the collector that came and went, and at the store."""
    rounds, account, taken = soaked
    assert all(each["complete"] for each in rounds)
    assert account["judged"]["agrees"] > 0
    for each in account["exporters"].values():
        assert each["delivered"] == each["created"]
    assert account["exporters"]["otlp"]["delivered"] == taken


def test_by_default_there_are_two_threads(app):
    """The worker and the store's; every further exporter adds one, judges add one."""
    ended = app("""
trace(10)
llmeval.flush(10)
print(sorted(thread.name for thread in threading.enumerate()))
""")
    assert ended.out == "['MainThread', 'llmeval-local', 'llmeval-worker']\n"
