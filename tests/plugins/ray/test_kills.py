"""Killed workers and drivers: what was paid for is found again, and the report is whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.testing.judge_server import JudgeServer


ROWS = 60
JUDGES = 2
AT_A_TIME = 4
"""Calls that may be under way when a process is killed, and are made again."""


def rows(count=ROWS):
    return [
        {
            "request_id": f"q{n}",
            "request": f"What is roof {n} made of?",
            "response": f"Slate {n}.",
            "expected_response": f"Slate {n}.",
            "retrieved_context": [{"content": f"Roof {n} is made of slate {n}."}],
        }
        for n in range(count)
    ]


@pytest.fixture
def slow_judge():
    with JudgeServer(default="slow", delay=0.1) as server:
        yield server


def until(condition, what, seconds=280):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


def workers_below(process):
    """Return the ids of the processes below one that evaluate blocks."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    table = [line.split(None, 2) for line in listed.splitlines()]
    children, found = {process}, []
    while more := {int(pid) for pid, above, _ in table if int(above) in children} - children:
        children |= more
    for pid, _, name in table:
        if int(pid) in children and name.startswith("ray::MapWorker"):
            found.append(int(pid))
    return found


def test_a_killed_worker_repeats_no_paid_verdict(ray_here, slow_judge, tmp_path):
    """Its block goes on with another process from the verdicts that were made."""
    import threading

    data = ray_here.data.from_items(rows(), override_num_blocks=4)
    results = []

    def run():
        results.append(
            llmeval.evaluate(
                data,
                evaluators=["correctness", "groundedness"],
                concurrency=AT_A_TIME,
                cache=False,
                llm=OpenAILLM("stand-in", base_url=slow_judge.base_url, api_key="k"),
                save=tmp_path / "run",
                progress=False,
            )
        )

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: slow_judge.calls >= 30, "thirty judgements")
    victim = workers_below(os.getpid())[0]
    os.kill(victim, signal.SIGKILL)
    thread.join(280)
    (report,) = results
    whole = {"evaluated": ROWS, "not_applicable": 0, "no_answer": 0, "failed": 0}
    assert report.counts == {"correctness": whole, "groundedness": whole}
    assert ROWS * JUDGES <= slow_judge.calls <= ROWS * JUDGES + AT_A_TIME


def test_a_killed_driver_is_resumed_and_repeats_no_paid_verdict(slow_judge, tmp_path):
    """Kill -9 in the middle; the same command with resume makes the calls that are left."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows()), path)
    command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), str(path)]
    env = {
        **os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "RAY_USAGE_STATS_ENABLED": "0",
        "LLMEVAL_STORE": str(tmp_path / "store.db"),
    }  # fmt: skip
    arguments = [str(tmp_path / "run"), slow_judge.base_url]
    driver = subprocess.Popen([*command, *arguments, "anew"], env=env, start_new_session=True)
    try:
        until(lambda: slow_judge.calls >= 50, "fifty judgements")
        workers = workers_below(driver.pid)
        driver.kill()
        driver.wait(30)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers' end")
    finally:
        driver.kill()
    before = slow_judge.calls
    done = subprocess.run(
        [*command, *arguments, "resume"], env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert f"'evaluated': {ROWS}" in done.stdout
    assert f" {ROWS} " in done.stdout
    assert before >= 50
    assert ROWS * JUDGES <= slow_judge.calls <= ROWS * JUDGES + AT_A_TIME


def test_a_row_that_kills_its_worker_ends_the_run_with_a_reason(ray_here, tmp_path):
    """Not for ever: a block is begun four times."""

    @llmeval.heuristic(name="deadly")
    def deadly(record) -> float:
        if record.request_id == "q7":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0

    data = ray_here.data.from_items(rows(20), override_num_blocks=2)
    with pytest.raises(ConfigurationError, match="a worker died 4 times over one block of 10 rows"):
        llmeval.evaluate(data, evaluators=[deadly], save=tmp_path / "run", progress=False)


def test_other_partitions_are_refused_before_anything_is_paid(ray_here, slow_judge, tmp_path):
    """What was paid for would not be found again."""
    options = {
        "evaluators": ["correctness"], "cache": False, "save": tmp_path / "run", "progress": False,
        "llm": OpenAILLM("stand-in", base_url=slow_judge.base_url, api_key="k"),
    }  # fmt: skip
    llmeval.evaluate(ray_here.data.from_items(rows(12), override_num_blocks=2), **options)
    assert slow_judge.calls == 12
    again = ray_here.data.from_items(rows(12), override_num_blocks=2)
    assert len(llmeval.evaluate(again, resume=True, **options).rows) == 12
    assert slow_judge.calls == 12
    other = ray_here.data.from_items(rows(12), override_num_blocks=3)
    with pytest.raises(ConfigurationError, match="the same partitions, or start anew"):
        llmeval.evaluate(other, resume=True, **options)
    assert slow_judge.calls == 12
