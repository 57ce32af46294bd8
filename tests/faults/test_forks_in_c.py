"""A fork in C, such as uWSGI's, calls none of Python's hooks; the child begins anew all the same."""

import sqlite3
from contextlib import closing

import pytest


FORK = """
import ctypes
fork = ctypes.PyDLL(None).fork
"""
WAYS_TO_END = {
    "an ordinary end": "sys.exit(0)",
    "a flush and os._exit": "os._exit(0 if llmeval.flush(20).complete else 1)",
    "shutdown": "llmeval.shutdown(20); os._exit(0)",
    "a span left open": "scope = llmeval.workflow('open'); scope.__enter__(); trace(1, 'last'); sys.exit(0)",
}


def ids_of(store):
    with closing(sqlite3.connect(store)) as database:
        return database.execute("SELECT trace_id, span_id FROM spans").fetchall()


@pytest.mark.parametrize("end", WAYS_TO_END.values(), ids=WAYS_TO_END.keys())
@pytest.mark.parametrize("before", ["", "llmeval.configure()"])
def test_children_of_a_fork_in_c_deliver_their_own(app, before, end):
    """Each has ids of its own, whether the parent has set the SDK up or only imported it."""
    ended = app(
        f"""{FORK}
{before}
children = []
for name in "abc":
    if (pid := fork()) == 0:
        trace(40, name)
        {end}
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
trace(1, "after")
print(codes)
""",
        LLMEVAL_SHUTDOWN_TIMEOUT="20",
    )
    assert (ended.code, ended.quiet, ended.out) == (0, True, "[0, 0, 0]\n"), ended.err
    requests = [request for request in ended.requests() if not request.startswith('"last')]
    assert len(requests) == len(set(requests)) == 121
    ids = ids_of(ended.store)
    assert len({trace for trace, _ in ids}) == len({span for _, span in ids}) == len(ids)


def test_children_of_a_parent_that_has_stored_something_say_what_they_cannot_store(app):
    """SQLite cannot be used there: a line says that the records end with the process."""
    ended = app(f"""{FORK}
trace(20, "parent")
llmeval.flush()
children = []
for name in "ab":
    if (pid := fork()) == 0:
        trace(40, name)
        sys.exit(0)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children])
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "[0, 0]\n"), ended.err
    assert ended.err.count("40 records kept in memory only") == 2
    assert len(ended.requests()) == 20


def test_a_child_of_a_fork_in_c_that_records_nothing_delivers_nothing(app):
    """Records of the parent are not the child's, neither at its end nor in stats()."""
    ended = app(f"""{FORK}
trace(50, "parent")
llmeval.flush()
if (pid := fork()) == 0:
    print(llmeval.stats().spans, llmeval.flush(10).spans, flush=True)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "0 0\n"), ended.err
    requests = ended.requests()
    assert len(requests) == len(set(requests)) == 50


def test_scores_of_an_app_are_the_first_record_after_a_fork_in_c(app):
    """A child that submits an evaluation, and traces nothing, delivers it."""
    ended = app(f"""{FORK}
trace(1, "parent")
with llmeval.workflow("answer") as span: span.request = "kept"
where = llmeval.export_span(span)
llmeval.flush()
if (pid := fork()) == 0:
    llmeval.submit_evaluation(span=where, label="mine", metric_type="score", value=0.5)
    print(llmeval.flush(20).evaluations, flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "1\n"), ended.err


@pytest.mark.parametrize("jump", ["clock_jump(3_600)", "clock_jump(-3_600)"])
def test_a_snapshot_that_is_started_again_makes_ids_of_its_own(app, jump):
    """Two processes that go on from the same memory with another wall clock share no id."""
    ended = app(f"""
import multiprocessing, random
from llmeval_sdk.tracing import _span, ids
from _random import Random

def clock_jump(seconds):
    now = _span.time_ns
    _span.time_ns = lambda: now() + seconds * 1_000_000_000

trace(1, "before")
state = ids._random.getstate()
made = []
for _ in range(2):
    ids._random.setstate(state)  # the memory of the snapshot
    {jump}
    with llmeval.workflow("answer") as span: made.append((span.trace_id, span.span_id))
    with llmeval.workflow("answer") as span: made.append((span.trace_id, span.span_id))
print(len(set(made)))
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "4\n"), ended.err
