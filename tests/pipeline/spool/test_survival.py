"""Whatever ends the process: what a call that returned had recorded is delivered afterwards."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.spool import Folder
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, listed_spans
from llmeval_sdk.testing import FakeLLM


TRIALS = os.environ.get("LLMEVAL_TEST_KILL_TRIALS", "40")
APP = """
import multiprocessing, os, signal, sys, threading, time
import llmeval_sdk as llmeval

@llmeval.retrieval
def find(question):
    return [{"content": "about " + question, "chunk_id": "1", "score": 0.5}]

@llmeval.workflow
def answer(question):
    find(question)
    return "yes"

def work(count=20, name="q"):
    for number in range(count):
        answer(f"{name}{number}")
    llmeval.submit_evaluation(label="mine", value=0.5)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("LLMEVAL_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("LLMEVAL_SHUTDOWN_TIMEOUT", "20")  # the deadline is not the subject
    return tmp_path


def app(code, *, expect=0, **variables):
    """Run an app to its end."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", APP + code],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def agent(*arguments):
    """Run ``llmeval agent`` to its end; return what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "agent", *arguments],
        capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def stored(folder):
    """Return how many workflows, retrievals and submitted scores the store holds."""
    path = folder / "store.db"
    if not path.exists():
        return (0, 0, 0)
    with closing(sqlite3.connect(path)) as store:
        try:
            spans = dict(store.execute("SELECT kind, count(*) FROM spans GROUP BY kind"))
            mine, *_ = store.execute(
                "SELECT count(*) FROM evaluations WHERE name = 'mine'"
            ).fetchone()
        except sqlite3.OperationalError:  # another process is making the tables
            return (0, 0, 0)
    return (spans.get("workflow", 0), spans.get("retrieval", 0), mine)


def files(folder):
    return sorted(path.name for path in (folder / "spool").iterdir())


ENDS = {
    "os._exit": ("work(); os._exit(0)", 0),
    "kill -9": ("work(); os.kill(os.getpid(), 9)", -9),
    "SIGTERM": ("work(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -15),
    "segmentation fault": ("work(); os.kill(os.getpid(), signal.SIGSEGV)", -11),
    "thread": (
        "t = threading.Thread(target=work); t.start(); t.join(); os._exit(0)",
        0,
    ),
}


@pytest.mark.parametrize("worker", ["thread", "off"])
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_lost_whatever_ends_the_process(end, worker, folder):
    """Each record of a call that had returned stands in the store, once."""
    code, status = ENDS[end]
    app(code, expect=status, LLMEVAL_WORKER=worker)
    assert "ended in" in agent("--once")
    assert stored(folder) == (20, 20, 1)
    assert files(folder) == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_lose_nothing(method, folder, tmp_path):
    """They end by os._exit, after which nothing of theirs runs any more."""
    script = tmp_path / "app.py"
    script.write_text(
        APP + "if __name__ == '__main__':\n"
        f"    work(5, 'parent'); context = multiprocessing.get_context({method!r})\n"
        "    children = [context.Process(target=work, args=(10, f'c{n}-')) for n in range(3)]\n"
        "    [child.start() for child in children]; [child.join() for child in children]\n"
        "    assert not any(child.exitcode for child in children)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (0, "")
    agent("--once")
    assert stored(folder) == (35, 35, 4)
    assert files(folder) == []


def test_an_app_that_ends_by_itself_leaves_no_file(folder):
    """Delivered and acknowledged: the spool is empty, and the next process has nothing to do."""
    app("work()")
    assert stored(folder) == (20, 20, 1)
    assert files(folder) == []


def test_the_next_start_of_the_app_takes_over(folder):
    """No agent is needed: the same app, started again, delivers what the killed one left."""
    app("work(); os.kill(os.getpid(), 9)", expect=-9, LLMEVAL_WORKER="off")
    assert files(folder)
    app(
        "answer('again')\n"
        "end = time.monotonic() + 60\n"
        "while llmeval.stats().spool.get('adopted') != 41 and time.monotonic() < end:\n"
        "    time.sleep(0.01)\n"
        "assert llmeval.flush(30).complete"
    )
    assert stored(folder) == (21, 21, 1)
    assert files(folder) == []


def test_a_living_app_without_a_worker_is_served_by_the_agent(folder):
    """The agent drains while the app runs, and ends in good order on SIGTERM."""
    serving = subprocess.Popen(
        [sys.executable, "-m", "llmeval_sdk", "agent"], stdout=subprocess.PIPE, text=True
    )
    with serving:
        assert "draining" in serving.stdout.readline()
        program = "work(); print(threading.active_count(), flush=True); sys.stdin.read()"
        living = subprocess.Popen(
            [sys.executable, "-c", APP + program],
            env={**os.environ, "LLMEVAL_WORKER": "off"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with living:
            assert living.stdout.readline() == "1\n"
            wait_for(lambda: stored(folder) == (20, 20, 1))
            assert living.poll() is None
            living.stdin.close()
        wait_for(lambda: files(folder) == [])
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(20) == 0
        assert "took 41 records" in serving.stdout.read()


def test_an_exporter_that_is_down_leaves_the_records_to_the_next_process(folder):
    """What could not be delivered before the exit is delivered after the next start."""

    class Down:
        name = "down"

        def export(self, batch):
            raise ExportError("connection refused", retryable=True)

        def flush(self, timeout):
            pass

        def close(self, timeout):
            pass

    llmeval.configure(exporters=[Down()])
    for number in range(10):
        with llmeval.workflow("w", request=str(number)):
            pass
    ended = llmeval.shutdown(1.0)
    assert ended.spool == {"kept": 10, "left": 10}
    assert ended.dropped == {}
    assert len(files(folder)) == 1
    agent("--once")
    assert stored(folder) == (10, 0, 0)
    assert files(folder) == []


def test_a_judge_that_the_exit_cut_off_is_asked_by_the_next_process(folder):
    """The record stays in the spool with its judge; the next process runs it."""

    class Never(FakeLLM):
        async def complete(self, messages, **options):
            import asyncio

            await asyncio.sleep(60)

    def configure(llm):
        llmeval.configure(llm=llm, evaluators=["relevance_to_query"], exporters=["local"])

    configure(Never("yes"))
    with llmeval.workflow("w", request="why?") as span:
        span.response = "because"
    wait_for(lambda: llmeval.stats().pending_judgements)
    assert llmeval.shutdown(0.5).spool == {"kept": 1, "left": 1}
    with runtime.isolated():
        configure(FakeLLM('{"rationale": "r", "rating": "yes"}'))
        runtime.pipeline().start()
        wait_for(lambda: runtime.pipeline().is_idle)
        stats = llmeval.shutdown(5)
    assert stats.judged == {"relevance_to_query": 1}
    assert stored(folder)[0] >= 1
    assert files(folder) == []


def test_a_full_spool_lets_records_go_their_normal_way(folder):
    """What finds no room is counted, and delivered by this process as without a spool."""
    llmeval.configure(exporters=["local"])
    change_plan(spool=Folder(runtime.settings().spool, file_bytes=1 << 17))
    with llmeval.workflow("w", request="x" * 400_000):
        pass
    stats = llmeval.flush(30)
    assert stats.complete
    assert stats.spool == {"full": 1}
    assert stored(folder)[0] == 1


@pytest.mark.parametrize("worker", ["thread", "off"])
def test_a_folder_that_cannot_be_used_is_told_once_and_counted(worker, folder, caplog):
    """The app runs on; records without a worker are counted as such."""
    (folder / "spool").mkdir()
    (folder / "spool").chmod(0o777)
    llmeval.configure(exporters=["local"] if worker == "thread" else None, worker=worker)
    for _ in range(3):
        with llmeval.workflow("w"):
            pass
    stats = llmeval.flush(30)
    assert stats.spool == {"folder": 3}
    assert stats.dropped == ({} if worker == "thread" else {"no_worker": 3})
    assert sum("other users can write" in each.message for each in caplog.records) == 1


def test_a_process_without_a_worker_needs_a_spool(monkeypatch):
    """Told at configure(), with what to do."""
    with pytest.raises(ConfigurationError, match="LLMEVAL_SPOOL"):
        llmeval.configure(worker="off")


def test_what_no_worker_handled_is_counted_as_spooled(folder):
    """The account of a process that leaves its records to the agent."""
    llmeval.configure(worker="off")
    with llmeval.workflow("w"):
        pass
    stats = llmeval.shutdown()
    assert (stats.spans, stats.dropped, stats.spool) == (
        1, {"spooled": 1}, {"kept": 1, "left": 1},
    )  # fmt: skip
    assert stats.complete


def test_a_torn_record_is_counted_and_the_others_are_delivered(folder):
    """After a crash of the machine, what is whole is still used."""
    app("work(); os.kill(os.getpid(), 9)", expect=-9, LLMEVAL_WORKER="off")
    (path,) = (folder / "spool").iterdir()
    content = bytearray(path.read_bytes())
    at = content.rindex(b"about q7")
    content[at : at + 4] = b"ABOU"
    path.write_bytes(content)
    llmeval.configure(worker="agent", exporters=["local"])
    runtime.pipeline().start()
    wait_for(lambda: runtime.pipeline().is_idle)
    stats = llmeval.shutdown(5)
    assert stats.spool == {"adopted": 40, "torn": 1}
    assert sum(stored(folder)) == 40
    assert files(folder) == []


@pytest.mark.timeout(60 + 3 * int(TRIALS))
def test_random_kills_lose_nothing(tmp_path):
    """Processes killed at random moments, and sometimes those that take over: none lost or twice.

    ``LLMEVAL_TEST_KILL_TRIALS=1000`` runs the long form.
    """
    script = Path(__file__).with_name("kill_trials.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path / "trials"), TRIALS],
        capture_output=True, text=True, timeout=40 + 3 * int(TRIALS),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result.pop("calls") > 5 * int(TRIALS)
    assert result == {
        "trials": int(TRIALS), "lost": 0, "twice": 0, "unscored": 0, "retrievals_missing": 0,
        "left": 0,
    }  # fmt: skip


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_request_below_another_service_is_still_one_after_a_kill(folder):
    """The spool holds how a span began, so that the process that adopts it lists the request."""
    app(
        "from llmeval_sdk.tracing import extract\n"
        "with extract({'traceparent': f\"00-{'ab' * 16}-{'cd' * 8}-01\"}):\n"
        "    answer('which roof?')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        expect=-signal.SIGKILL,
    )
    app("work(1)")
    with closing(StoreReader(folder / "store.db")) as reader:
        names = [item.request for item in listed_spans(reader, Query(), 10)]
    assert sum("which roof?" in name for name in names) == 1
    assert len(names) == 2
