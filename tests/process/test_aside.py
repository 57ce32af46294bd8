"""The app's heuristics, redactor and judges may hang: one runner, one policy for all of them."""

import asyncio
import contextvars
import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.exporters.redaction import FAILED, Redactor
from llmeval_sdk.pipeline import evaluating
from llmeval_sdk.process import threads as runner
from llmeval_sdk.process.shield import caught
from llmeval_sdk.process.threads import (
    MAX_ABANDONED,
    HelperThreads,
    NoAnswerError,
    NotCalledError,
)
from llmeval_sdk.testing import capture


RECORDS = 12


class Hanging:
    """A function of the app that hangs until it is released, and knows its threads."""

    def __init__(self):
        self.release = threading.Event()
        self.threads = []

    def __call__(self, *_):
        self.threads.append(threading.current_thread())
        self.release.wait(60)
        return "the answer"

    @property
    def left_behind(self):
        return len(self.threads)


@pytest.fixture
def hanging():
    function = Hanging()
    yield function
    function.release.set()


def eventually(holds, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


class Counted:
    """How often a site was counted since this was made; the counters are the process's."""

    def __init__(self, site):
        self.site = site
        self.before = dict(caught.snapshot())

    def __getitem__(self, what):
        key = f"{self.site}: {what}"
        return llmeval.stats().problems.get(key, 0) - self.before.get(key, 0)


def requests(number):
    for each in range(number):
        with llmeval.workflow("w", request=f"question {each}") as span:
            span.response = "answer"


def as_heuristic(hanging, monkeypatch):
    monkeypatch.setattr(evaluating, "PATIENCE_SECONDS", 0.05)
    mine = llmeval.heuristic(name="mine")(lambda record: hanging(record))
    return {"evaluators": [mine]}, "heuristic mine"


def as_redactor(hanging, monkeypatch):
    short = Redactor.__init__
    monkeypatch.setattr(
        Redactor,
        "__init__",
        lambda self, names=(), custom=None: short(self, names, custom, timeout=0.05),
    )
    return {"redact": lambda text: hanging(text)}, "redact"


def as_judge(hanging, monkeypatch):
    mine = llmeval.judge(name="mine")(lambda record, llm: hanging(record))
    return {"evaluators": [mine], "judge_timeout": 0.05, "judge_concurrency": 1}, "judge mine"


PLACES = {"heuristic": as_heuristic, "redact": as_redactor, "judge": as_judge}


@pytest.mark.parametrize("place", PLACES)
def test_three_places_have_one_policy(place, hanging, monkeypatch):
    """A hanging function leaves three threads behind; further calls are refused and counted."""
    options, site = PLACES[place](hanging, monkeypatch)
    counted = Counted(site)
    try:
        with capture(**options, raise_again=False) as seen:
            requests(RECORDS)
            seen.drain()
            assert hanging.left_behind == MAX_ABANDONED
            assert all(thread.daemon for thread in hanging.threads)
            assert counted["abandoned"] == MAX_ABANDONED
            assert counted["refused"] == RECORDS - MAX_ABANDONED
    finally:
        registry.forget("mine")


@pytest.mark.parametrize("place", PLACES)
def test_three_places_call_again_once_a_call_has_come_back(place, hanging, monkeypatch):
    """What comes back frees its place: the function is called again and its answer counts."""
    monkeypatch.setattr(runner, "REST_FACTOR", 0)
    options, site = PLACES[place](hanging, monkeypatch)
    counted = Counted(site)
    try:
        with capture(**options, raise_again=False) as seen:
            requests(RECORDS)
            seen.drain()
            assert hanging.left_behind == MAX_ABANDONED
            hanging.release.set()
            deadline = time.monotonic() + 60
            while hanging.left_behind == MAX_ABANDONED:
                requests(1)
                seen.drain()
                assert time.monotonic() < deadline
            assert counted["abandoned"] == MAX_ABANDONED
    finally:
        registry.forget("mine")


ENDINGS = {
    "heuristic": "llmeval.configure(evaluators=[llmeval.heuristic(name='h')(lambda record: hang())])",
    "redact": "llmeval.configure(redact=lambda text: hang())",
    "judge": "llmeval.configure(evaluators=[llmeval.judge(name='j')(lambda record, llm: hang())], llm=lambda prompt: '')",
}


@pytest.mark.parametrize("place", ENDINGS)
def test_three_places_never_hold_up_the_exit(place, tmp_path):
    """The process ends within its deadline although the function never returns."""
    code = f"""
    import threading
    import llmeval_sdk as llmeval

    begun = threading.Event()

    def hang():
        begun.set()
        threading.Event().wait()

    {ENDINGS[place]}
    with llmeval.workflow("w", request="q") as span:
        span.response = "a"
    assert begun.wait(30)
    """
    environment = {
        **os.environ,
        "LLMEVAL_STORE": str(tmp_path / "s.db"),
        "LLMEVAL_SHUTDOWN_TIMEOUT": "0.5",
    }
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
        env=environment, timeout=50, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def test_a_function_that_is_always_late_rests(monkeypatch):
    """Its calls do come back, and yet it does not cost whoever waits its deadline every time."""
    monkeypatch.setattr(runner, "REST_FACTOR", 1_000_000)
    late, finished = HelperThreads("late"), []

    def slow():
        threading.Event().wait(0.03)
        finished.append(1)

    for number in range(MAX_ABANDONED):
        with pytest.raises(NoAnswerError):
            late.call(slow, patience=lambda: 0.001)
        eventually(lambda number=number: len(finished) == number + 1)
    eventually(lambda: late.abandoned == 0)
    with pytest.raises(NotCalledError, match="rests"):
        late.call(slow, patience=lambda: 10.0)
    monkeypatch.setattr(late, "_rests_until", 0.0)
    late.call(slow, patience=lambda: 10.0)
    late.call(slow, patience=lambda: 10.0)  # an answer in time ends the row
    assert len(finished) == MAX_ABANDONED + 2


def test_threads_are_reused_and_begin_with_the_context_of_the_caller():
    """Hundred calls in a row need one thread; context variables are those of each call."""
    variable = contextvars.ContextVar("variable")
    threads, values = set(), []
    mine = HelperThreads("mine")

    def look():
        threads.add(threading.current_thread())
        values.append(variable.get())
        variable.set("changed")

    for number in range(100):
        variable.set(number)
        mine.call(look, patience=lambda: 10.0)
    assert len(threads) == 1
    assert values == list(range(100))


def test_an_idle_thread_ends(monkeypatch):
    """Nothing is kept of a burst."""
    monkeypatch.setattr(runner, "IDLE_SECONDS", 0.01)
    mine, threads = HelperThreads("mine"), []
    mine.call(lambda: threads.append(threading.current_thread()), patience=lambda: 10.0)
    mine.call(lambda: threads.append(threading.current_thread()), patience=lambda: 10.0)
    for thread in threads:
        runner._idle and mine.call(lambda: None, patience=lambda: 10.0)
        thread.join(15)
    assert not any(thread.is_alive() for thread in threads)


ERRORS = [
    (ValueError("x"), ValueError),
    (SystemExit(3), RuntimeError),
    (KeyboardInterrupt(), RuntimeError),
    (StopIteration(1), RuntimeError),
]


@pytest.mark.parametrize(("raised", "expected"), ERRORS)
def test_what_a_function_raises_reaches_the_caller(raised, expected):
    """Both kinds of callers get it; what would end a thread or a loop becomes an Exception."""

    def fails():
        raise raised

    with pytest.raises(expected):
        HelperThreads("mine").call(fails, patience=lambda: 10.0)
    with pytest.raises(expected):
        asyncio.run(HelperThreads("mine").call_async(fails))


def test_an_event_loop_is_never_blocked_and_a_cancelled_call_is_abandoned(hanging):
    """The loop goes on; who stops waiting leaves the call behind."""
    mine = HelperThreads("mine")

    async def go():
        call = asyncio.ensure_future(mine.call_async(hanging))
        await asyncio.sleep(0)
        eventually_hangs = asyncio.get_running_loop().run_in_executor(
            None, eventually, lambda: hanging.left_behind == 1
        )
        await eventually_hangs
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return mine.abandoned

    assert asyncio.run(go()) == 1
    hanging.release.set()
    eventually(lambda: mine.abandoned == 0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_begins_anew(hanging):
    """Calls and threads of the parent are none of the child's."""
    mine = HelperThreads("mine")
    for _ in range(MAX_ABANDONED):
        with pytest.raises(NoAnswerError):
            mine.call(hanging, patience=lambda: 0.01)
    with pytest.raises(NotCalledError):
        mine.call(str, patience=lambda: 10.0)
    child = os.fork()
    if child == 0:
        os._exit(0 if mine.call(lambda: 5, patience=lambda: 10.0) == 5 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_begins_without_a_history(hanging):
    """A judge that is pickled or copied takes no threads along."""
    mine = HelperThreads("mine", 1)
    with pytest.raises(NoAnswerError):
        mine.call(hanging, patience=lambda: 0.01)
    for twin in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):
        assert (twin.site, twin.abandoned) == ("mine", 0)
        assert twin.call(lambda: 5, patience=lambda: 10.0) == 5


def test_a_redactor_that_hangs_lets_nothing_through(hanging):
    """Neither the texts it hangs on nor, while too many calls hang, any other."""
    redactor = Redactor(
        custom=lambda text: hanging(text) if text == "hang" else text + "!", timeout=0.02
    )
    for _ in range(MAX_ABANDONED):
        assert redactor.call_custom(["a", "hang"]) == ([FAILED, FAILED], False)
    assert redactor.call_custom(["a"]) == ([FAILED], False)
