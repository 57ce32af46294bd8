"""Work that pages wait for: one thread, a bounded line, and nothing remembered that failed."""

import threading

import pytest

from llmeval_sdk.viewer._site import MAX_TASKS, Background, BusyError, StoppedError


DEADLINE = 20


@pytest.fixture
def background():
    """Return a background whose tasks are stopped after the test."""
    background = Background()
    yield background
    background.close()


@pytest.fixture
def gate():
    """Return an event that holds up a task, and that is set after the test."""
    gate = threading.Event()
    yield gate
    gate.set()


def held_up(background, gate, key="held up"):
    """Start a task that waits at the gate, and return it once it runs."""
    running = threading.Event()

    def work(tick):
        running.set()
        assert gate.wait(DEADLINE)
        tick(1)
        return key

    task = background.start(key, work)
    assert running.wait(DEADLINE)
    return task


def test_many_tasks_need_one_thread(background, gate):
    """Three hundred keys, most of them refused, do not make three hundred waiting threads."""
    before = set(threading.enumerate())
    held_up(background, gate)
    for key in range(300):
        try:
            background.start(key, lambda tick: None)
        except BusyError:
            assert key >= MAX_TASKS - 1
    ours = [
        thread for thread in set(threading.enumerate()) - before if thread.name == "llmeval-view"
    ]
    assert len(ours) <= 1


def test_pages_that_reload_do_not_evict_each_others_tasks(background, gate):
    """Every page of twice as many as fit is shown in the end, though all of them reload."""
    pages = list(range(2 * MAX_TASKS))
    held_up(background, gate)
    starts = dict.fromkeys(pages, 0)
    shown = {}

    def work(page):
        def count(_):
            starts[page] += 1
            return page

        return count

    def reload():
        for page in set(pages) - set(shown):
            try:
                task = background.start(page, work(page))
            except BusyError:
                continue
            if task.is_done(0 if not gate.is_set() else DEADLINE):
                shown[page] = task.result()

    for _ in range(3):
        reload()
    assert not shown
    gate.set()
    for _ in range(len(pages)):
        reload()
    assert shown == {page: page for page in pages}
    assert set(starts.values()) == {1}


def test_a_full_line_is_busy_and_leaves_the_running_task_alone(background, gate):
    """A page that finds no room is told to try again; no unfinished task makes way for it."""
    first = held_up(background, gate)
    waiting = [background.start(key, lambda tick: 7) for key in range(MAX_TASKS - 1)]
    with pytest.raises(BusyError, match="try again"):
        background.start("one too many", lambda tick: None)
    gate.set()
    assert first.is_done(DEADLINE)
    assert first.result() == "held up"
    for task in waiting:
        assert task.is_done(DEADLINE)
        assert task.result() == 7


def test_a_waiting_task_that_its_page_left_makes_way(background, gate, monkeypatch):
    """It is removed from the line and never runs; the running task stays."""
    first = held_up(background, gate)
    ran = []
    waiting = [background.start(key, lambda tick: ran.append(1)) for key in range(MAX_TASKS - 1)]
    monkeypatch.setattr("llmeval_sdk.viewer._site.LEFT_SECONDS", -1.0)
    newer = background.start("newer", lambda tick: 8)
    assert waiting[0].is_done(0)
    with pytest.raises(StoppedError):
        waiting[0].result()
    gate.set()
    assert newer.is_done(DEADLINE)
    assert (first.result(), newer.result()) == ("held up", 8)
    assert len(ran) == MAX_TASKS - 2


@pytest.mark.parametrize("error", [StoppedError("it took too long"), ValueError("broken")])
def test_a_task_that_failed_is_tried_again_once_its_error_was_shown(background, error):
    """The error is shown once; the next reload starts the work anew."""
    outcomes = [error, "found"]

    def work(tick):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    task = background.start("page", work)
    assert task.is_done(DEADLINE)
    assert background.start("page", work) is task, "the error was not shown yet"
    with pytest.raises(type(error)):
        task.result()
    again = background.start("page", work)
    assert again.is_done(DEADLINE)
    assert again.result() == "found"
    assert background.start("page", work) is again


def test_a_task_is_over_whatever_ends_it(background):
    """Work that ends its thread is over as well, is never a result, and holds up no other."""

    def work(tick):
        raise SystemExit

    task = background.start("exits", work)
    assert task.is_done(DEADLINE)
    with pytest.raises(StoppedError):
        task.result()
    following = background.start("next", lambda tick: 1)
    assert following.is_done(DEADLINE)
    assert following.result() == 1


def test_closing_ends_what_runs_and_what_waits(background, gate):
    """After `close` neither a running nor a waiting task returns a result."""
    tasks = [held_up(background, gate), background.start("waiting", lambda tick: 1)]
    background.close()
    gate.set()
    for task in tasks:
        assert task.is_done(DEADLINE)
        with pytest.raises(StoppedError):
            task.result()
