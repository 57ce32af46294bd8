"""Forked and spawned processes trace and deliver; nothing twice, nobody hangs."""

import sys

import pytest


def test_a_child_delivers_its_own_and_nothing_twice(app):
    """What waited in the parent at the fork stays the parent's."""
    ended = app("""
trace(50, "parent")
pid = os.fork()
if pid == 0:
    trace(50, "child")
    sys.exit(0)
os.waitpid(pid, 0)
trace(50, "after")
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    found = ended.requests()
    assert len(found) == len(set(found)) == 150


def test_a_fork_storm_under_threads_deadlocks_nobody(app):
    """300 forks while two threads trace: every child traces, flushes and ends."""
    ended = app(
        """
import faulthandler
trace(1, "first")
stop = threading.Event()
def load():
    while not stop.is_set():
        answer("parent")
        time.sleep(0.001)
threads = [threading.Thread(target=load) for _ in range(2)]
for thread in threads: thread.start()
stuck = 0
for number in range(300):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        answer(f"child{number}")
        done = llmeval.flush(15).complete
        os._exit(0 if done else 1)
    _, status = os.waitpid(pid, 0)
    stuck += status != 0
stop.set()
for thread in threads: thread.join()
print(stuck)
""",
        timeout=120,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "0\n"
    children = [request for request in ended.requests() if "child" in request]
    assert len(children) == len(set(children)) == 300


def test_a_fork_does_not_wait_for_a_send_that_hangs(app):
    """Nothing waits for the exporter, which never returns."""
    ended = app("""
class Hanging:
    name = "hanging"
    def __init__(self): self.entered = threading.Event()
    def export(self, batch): self.entered.set(); threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
exporter = Hanging()
llmeval.configure(exporters=[exporter])
answer("q"); exporter.entered.wait(10)
for _ in range(20):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
print("forked", flush=True)
os._exit(0)
""")
    assert ended.out == "forked\n", ended.err


def test_a_fork_leaves_no_import_of_ours_half_done(app, tmp_path):
    """The child would wait for ever for a lock that a thread of ours held in the parent."""
    (tmp_path / "slow.py").write_text("import sys, time\nsys.begun.set()\ntime.sleep(0.3)")
    ended = app(
        """
import faulthandler
sys.begun = threading.Event()
@llmeval.heuristic
def late(record):
    import slow
answer("q")
sys.begun.wait(20)
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(10, exit=True)
    import slow
    os._exit(0)
print(os.waitpid(pid, 0)[1])
""",
        PYTHONPATH=str(tmp_path),
    )
    assert (ended.code, ended.out) == (0, "0\n"), ended.err


FIRST_CALLS = """
import faulthandler
barrier = threading.Barrier(9)
def begin():
    barrier.wait()
    answer("parent")
threads = [threading.Thread(target=begin) for _ in range(8)]
for thread in threads: thread.start()
barrier.wait()
time.sleep(MOMENT)
def child():
    faulthandler.dump_traceback_later(40, exit=True)
    answer("child")
    return llmeval.flush(30).complete
"""
FORKS = {
    "os.fork": """
pid = os.fork()
if pid == 0:
    os._exit(0 if child() else 1)
print(os.waitpid(pid, 0)[1])
""",
    "multiprocessing": """
import multiprocessing
process = multiprocessing.get_context("fork").Process(target=child)
process.start(); process.join(45)
print(process.exitcode)
""",
}
MOMENTS = [number * 0.008 for number in range(50)]
"""Seconds after the first call has begun; loading takes some tenths of a second."""


@pytest.mark.parametrize("fork", FORKS)
@pytest.mark.parametrize("offset", range(5))
def test_a_fork_at_any_moment_of_loading_hangs_nobody(app, fork, offset):
    """While eight threads make the first call of the process, each child records and ends."""
    for number, moment in enumerate(MOMENTS[offset::5], 1):
        ended = app(FIRST_CALLS.replace("MOMENT", str(moment)) + FORKS[fork])
        assert (ended.code, ended.out, ended.quiet) == (0, "0\n", True), (moment, ended.err)
        children = [request for request in ended.requests() if "child" in request]
        assert len(children) == number, moment


WORK = """
import llmeval_sdk as llmeval
@llmeval.workflow
def answer(question): return question
def work(name):
    for n in range(20): answer(f"{name}{n}")
"""
METHODS = "fork", "spawn", "forkserver"
CHILDREN = {
    "Process": """
    child = context.Process(target=work.work, args=("child",))
    child.start(); child.join(30)
    assert child.exitcode == 0
""",
    "Pool": """
    pool = context.Pool(2, maxtasksperchild=1)
    pool.map(work.work, ["child"], chunksize=1)
    pool.close(); pool.join()
""",
    "ProcessPoolExecutor": """
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(work.work, ["child"]))
""",
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("children", CHILDREN)
def test_multiprocessing_children_deliver(app, tmp_path, method, children):
    """They leave by ``os._exit``, after multiprocessing's own finalizers, of which ours is one."""
    (tmp_path / "work.py").write_text(WORK)
    ended = app(
        f"""
import multiprocessing
import work
if __name__ == "__main__":
    work.work("parent")
    context = multiprocessing.get_context({method!r})
    leaving = os._exit
{CHILDREN[children]}
    assert os._exit is leaving
""",
        PYTHONPATH=str(tmp_path),
        LLMEVAL_SHUTDOWN_TIMEOUT="20",
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    found = ended.requests()
    assert len(found) == len(set(found)) == 40


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there the finalizers wait for the threads")
def test_threads_of_a_multiprocessing_child_may_outlive_its_work(app):
    """Its finalizers run before the app's last threads end; what those record is still taken."""
    ended = app("""
import multiprocessing
from multiprocessing.util import Finalize
def work():
    trace(20, "first")
    over = threading.Event()
    Finalize(None, over.set, exitpriority=-1_000)
    threading.Thread(target=lambda: (over.wait(), trace(20, "late"), llmeval.flush(10))).start()
child = multiprocessing.get_context("fork").Process(target=work)
child.start(); child.join(30)
print(child.exitcode)
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "0\n"), ended.err
    assert len(ended.requests()) == 40


def test_a_multiprocessing_child_ends_in_time_although_a_backend_hangs(app):
    """Its end has the same deadline as that of any other process."""
    ended = app("""
import multiprocessing
class Hanging:
    name = "hanging"
    def export(self, batch): threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=[Hanging()])
child = multiprocessing.get_context("fork").Process(target=trace, args=(10,))
child.start(); child.join(50)
print(child.exitcode)
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "0\n"), ended.err


LOCKED_AT_THE_FORK = """
import faulthandler
from llmeval_sdk.heuristics.risk import _context
class Key(str):
    def __hash__(self):
        inside.set(); forked.wait(20)
        return 1
class Slow(str):
    def isascii(self):
        if not inside.is_set():
            inside.set(); forked.wait(20)
        return True
inside, forked = threading.Event(), threading.Event()
thread = threading.Thread(target=hold, daemon=True)
thread.start()
assert inside.wait(20)
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(5, exit=True)
    ask()
    os._exit(0)
forked.set()
print(os.waitpid(pid, 0)[1])
"""


IMPORT_EVIDENCE = "from llmeval_sdk.text.support import EvidenceText\n    "


@pytest.mark.parametrize(
    ("hold", "ask"),
    [
        (
            "_context._contexts.get(Key('a'), lambda key: _context.Context([key]))",
            "_context.context_of(['The roof is of slate.'])",
        ),
        (
            f"{IMPORT_EVIDENCE}EvidenceText(Slow('The roof')).plain",
            f"{IMPORT_EVIDENCE}EvidenceText('The roof').plain",
        ),
    ],
    ids=["contexts", "evidence"],
)
def test_a_child_scores_although_the_parent_was_scoring(app, hold, ask):
    """No lock of a heuristic that a thread of the parent held hangs its child."""
    ended = app(f"def hold():\n    {hold}\ndef ask():\n    {ask}\n" + LOCKED_AT_THE_FORK)
    assert (ended.code, ended.out) == (0, "0\n"), ended.err


def test_a_child_begins_without_the_problems_of_its_parent(app):
    """What failed in the parent is in the parent's stats alone, and in its log alone."""
    ended = app("""
from llmeval_sdk.process import shield
answer("q"); llmeval.flush(15)
llmeval.annotate(request="of no span")
assert sum(llmeval.stats().problems.values()) == 1
shield.tell("parent", "waits")
pid = os.fork()
if pid == 0:
    answer("child")
    print(dict(llmeval.stats().problems), list(shield.notices), flush=True)
    llmeval.annotate(request="of no span")
    print(sum(llmeval.stats().problems.values()), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(sum(llmeval.stats().problems.values()))
""")
    assert (ended.code, ended.out) == (0, "{} []\n1\n1\n"), ended.err


def test_ragas_runs_in_a_child_of_a_process_where_it_ran(app):
    """Its thread is the parent's; a child starts one of its own."""
    ended = app("""
import asyncio
from llmeval_sdk.plugins.ragas import runner
async def ask():
    loop = runner._loop_of_thread()
    future = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "answer"), loop)
    return await asyncio.wait_for(asyncio.wrap_future(future), 10)
print(asyncio.run(ask()), flush=True)
runner._lock.acquire()
pid = os.fork()
if pid == 0:
    print(asyncio.run(ask()), flush=True)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
""")
    assert (ended.code, ended.out) == (0, "answer\nanswer\n0\n"), ended.err
