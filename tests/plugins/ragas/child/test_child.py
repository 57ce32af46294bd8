"""The helper process: found or started, shared, restarted, given up on."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.plugins.ragas.child import child


ECHO = {"do": "echo"}


def test_jobs_are_answered_by_one_process_that_is_not_this_one(spec, ask):
    """The first job starts the child and the next ones find it."""
    first, second = ask(spec(), {"do": "echo", "say": "é\n☃"}, ECHO)
    assert first["said"] == "é\n☃"
    assert first["pid"] == second["pid"] != os.getpid()


def test_jobs_run_side_by_side(spec):
    """A job that waits does not hold up another."""

    async def run():
        access = child(spec())
        waiting = asyncio.create_task(access.call({"do": "wait", "say": "x"}, seconds=30))
        await access.call(ECHO, seconds=5)
        done = waiting.done()
        waiting.cancel()
        access.close()
        return done

    assert asyncio.run(run()) is False


def test_who_asks_for_the_same_child_shares_it(spec, ask):
    """Loops on threads and other processes meet at one address."""
    shared = spec(idle_seconds=3.0)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(shared, ECHO)[0]["pid"])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    code = f"""
        import asyncio, tempfile
        tempfile.tempdir = {str(shared.address().parent.parent)!r}
        from llmeval_sdk.plugins.ragas.child import ChildSpec, child
        async def main():
            spec = ChildSpec(handler={shared.handler!r}, python={shared.python!r},
                             paths={shared.paths!r}, idle_seconds=3.0)
            print((await child(spec).call({{"do": "echo"}}, seconds=5))["pid"])
        asyncio.run(main())
    """
    others = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    found += [int(other.communicate(timeout=30)[0]) for other in others]
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(found)) == 1


def test_a_child_that_outlives_its_starter_is_no_warning(spec):
    """Nothing is written at the end, where warnings are errors and the child still serves."""
    shared = spec()
    code = f"""
        import asyncio, atexit, sys, tempfile
        atexit.register(lambda: sys.modules["llmeval_sdk.plugins.ragas.child"]._started.clear())
        tempfile.tempdir = {str(shared.address().parent.parent)!r}
        from llmeval_sdk.plugins.ragas.child import ChildSpec, child
        async def main():
            spec = ChildSpec(handler={shared.handler!r}, python={shared.python!r},
                             paths={shared.paths!r}, idle_seconds=3.0)
            print((await child(spec).call({{"do": "echo"}}, seconds=20))["pid"])
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert int(done.stdout)
    assert done.stderr == ""


def test_different_options_mean_different_children(spec, ask):
    """Nobody gets a child that was set up otherwise."""
    (one,), (other,) = ask(spec(), ECHO), ask(spec(options={"setup": "x"}), ECHO)
    assert one["pid"] != other["pid"]


def test_a_crash_loses_the_job_in_hand_and_pauses_before_the_next_start(spec):
    """The loss is said, a restart waits a moment, and then a new process answers."""

    async def run():
        access = child(spec())
        before = (await access.call(ECHO, seconds=5))["pid"]
        with pytest.raises(JudgeError, match="ended") as lost:
            await access.call({"do": "crash"}, seconds=5)
        with pytest.raises(JudgeError) as paused:
            await access.call(ECHO, seconds=5)
        deadline = time.monotonic() + 60
        after = None
        while after is None and time.monotonic() < deadline:
            try:
                after = (await access.call(ECHO, seconds=5))["pid"]
            except JudgeError:
                await asyncio.sleep(0.05)
        access.close()
        return lost.value.type, paused.value.type, before, after

    lost, paused, before, after = asyncio.run(run())
    assert lost == paused == "worker_lost"
    assert after not in (None, before)


def test_pauses_grow_with_every_loss(spec):
    """A child that always crashes is not started over and over."""

    async def run():
        access = child(spec())
        starts = []
        for _ in range(3):
            with pytest.raises(JudgeError):
                while True:
                    await access.call({"do": "crash"}, seconds=5)
            starts.append(access._not_before - time.monotonic())
            access._not_before = 0.0
        access.close()
        return starts

    first, second, third = asyncio.run(run())
    assert first < second < third


def test_a_child_that_does_not_answer_is_killed_at_the_deadline(spec, gone):
    """A blocked child ends with its process; every job in it is lost and says so."""

    async def run():
        access = child(spec())
        process = (await access.call(ECHO, seconds=5))["pid"]
        jobs = [access.call({"do": "hang"}, seconds=0.3), access.call(ECHO, seconds=50)]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        access.close()
        return process, results

    process, results = asyncio.run(run())
    assert [getattr(result, "type", None) for result in results] == ["worker_lost"] * 2
    assert gone(process)


def test_a_cancelled_job_is_cancelled_in_the_child(spec, ask):
    """Nobody pays for an answer that nobody waits for."""
    kept = spec(idle_seconds=5.0)

    async def run():
        access = child(kept)
        await access.call(ECHO, seconds=5)
        waiting = asyncio.create_task(access.call({"do": "wait", "say": "stop me"}, seconds=30))
        await asyncio.sleep(0.05)
        waiting.cancel()
        seen = await access.call({"do": "cancelled"}, seconds=5)
        process = (await access.call(ECHO, seconds=5))["pid"]
        access.close()
        os.kill(process, signal.SIGKILL)
        return seen["said"]

    assert asyncio.run(run()) == ["stop me"]


def test_an_idle_child_ends_and_the_next_job_starts_another(spec, gone):
    """Ending while idle is no loss: no error, no pause."""

    async def run():
        access = child(spec(idle_seconds=0.3))
        before = (await access.call(ECHO, seconds=5))["pid"]
        assert gone(before)
        after = (await access.call(ECHO, seconds=5))["pid"]
        access.close()
        return before, after

    before, after = asyncio.run(run())
    assert before != after


def test_a_busy_child_does_not_end(spec):
    """What counts as idle is the time without a job."""

    async def run():
        access = child(spec(idle_seconds=0.3))
        waiting = asyncio.create_task(access.call({"do": "wait", "say": ""}, seconds=1.2))
        begun = (await access.call(ECHO, seconds=5))["pid"]
        await asyncio.sleep(0.9)
        still = (await access.call(ECHO, seconds=5))["pid"]
        waiting.cancel()
        access.close()
        return begun == still

    assert asyncio.run(run())


def test_what_cannot_be_opened_says_why_and_is_not_tried_again_at_once(spec, ask):
    """A missing library is its own reason, for every job that wants it."""

    async def run():
        access = child(spec("open_fatal"))
        types = []
        for _ in range(3):
            with pytest.raises(JudgeError, match="the library is not there") as error:
                await access.call(ECHO, seconds=5)
            types.append(error.value.type)
        return types, access._not_before - time.monotonic()

    types, pause = asyncio.run(run())
    assert types == ["not_installed"] * 3
    assert pause > 10


def test_an_interpreter_that_is_not_there_is_a_lost_worker(spec, ask):
    """A wrong path raises the counted reason and nothing else."""
    from dataclasses import replace

    with pytest.raises(JudgeError, match="cannot be started") as error:
        ask(replace(spec(), python="/nowhere/python"), ECHO)
    assert error.value.type == "worker_lost"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory in use")
def test_memory_has_a_limit(spec, ask, gone):
    """A child that wants too much ends; the app's process is not asked for it."""
    small = spec(memory_bytes=64 << 20)
    process = ask(small, ECHO)[0]["pid"]
    with pytest.raises(JudgeError) as error:
        ask(small, {"do": "eat", "bytes": 1 << 30})
    assert error.value.type == "worker_lost"
    assert gone(process)


def test_an_exception_in_a_handler_is_an_answer(spec, ask):
    """One bad job does not take the child away from the others."""
    failed, fine = ask(spec(), {"do": "fail"}, ECHO)
    assert failed["error"]["type"] == "ZeroDivisionError"
    assert fine["pid"]


def test_a_child_sees_none_of_the_apps_bootstraps(spec, ask, monkeypatch, tmp_path):
    """PYTHONPATH and a sitecustomize in it stay outside, as do packages nobody asked for."""
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    look = {"do": "look", "modules": ["pytest", "openai", "tenacity", "rapidfuzz"]}
    (seen,) = ask(spec(environment={"EXTRA": "1"}), look)
    assert not (tmp_path / "ran").exists()
    assert str(tmp_path) not in seen["path"]
    assert seen["modules"] == []
    assert seen["variable"] == "1"


def test_a_child_ends_with_the_process_that_started_it(spec, gone):
    """Kill -9 leaves no orphan behind."""
    wanted = spec()
    code = f"""
        import asyncio, os, signal, sys, tempfile
        tempfile.tempdir = {str(wanted.address().parent.parent)!r}
        from llmeval_sdk.plugins.ragas.child import ChildSpec, child
        async def main():
            spec = ChildSpec(handler={wanted.handler!r}, python={wanted.python!r},
                             paths={wanted.paths!r}, idle_seconds=0.6)
            print((await child(spec).call({{"do": "echo"}}, seconds=5))["pid"], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))


def test_a_fork_neither_uses_nor_keeps_the_parents_child(spec):
    """A forked process lets go of the socket and makes a connection of its own."""
    wanted = spec(idle_seconds=5.0)
    code = f"""
        import asyncio, os, signal, sys, tempfile
        tempfile.tempdir = {str(wanted.address().parent.parent)!r}
        from llmeval_sdk.plugins.ragas.child import ChildSpec, child, _connections
        spec = ChildSpec(handler={wanted.handler!r}, python={wanted.python!r},
                         paths={wanted.paths!r}, idle_seconds=5.0)
        async def ask():
            return (await child(spec).call({{"do": "echo"}}, seconds=5))["pid"]
        loop = asyncio.new_event_loop()
        here = loop.run_until_complete(ask())
        (mine,) = _connections
        forked = os.fork()
        if not forked:
            same = os.path.samestat(os.fstat(mine.number), os.stat(os.devnull))
            there = asyncio.run(ask())
            os._exit(0 if same and there == here else 1)
        _, status = os.waitpid(forked, 0)
        still = loop.run_until_complete(ask())
        os.kill(here, signal.SIGKILL)
        sys.exit(0 if status == 0 and still == here else 1)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_meeting_place_is_private(spec):
    """A folder that others may enter is refused: somebody else could answer from there."""
    folder = Path(tempfile.gettempdir()) / f"llmeval-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(PermissionError, match="private"):
        spec().address()
