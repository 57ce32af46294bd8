"""However a process ends: what was traced is delivered or counted, quietly and in time."""

import sqlite3
from contextlib import closing

import pytest

from llmeval_sdk.testing.judge_server import MODEL, JudgeServer


ENDS = {
    "normal": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "late non-daemon thread": (
        "threading.Thread(target=lambda: (time.sleep(0.2), trace(0))).start()",
        0,
    ),
    "app's own SIGTERM handler": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getpid(), signal.SIGTERM)",
        0,
    ),
    "asyncio.run": (
        "import asyncio\n@llmeval.workflow\nasync def last(): return 1\nasyncio.run(last())",
        0,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_everything_is_delivered_when_the_process_ends(app, end):
    """Normal exit, sys.exit, a handler that exits, the end of asyncio.run: nothing is lost."""
    code, expected = ENDS[end]
    ended = app(f"trace(100)\n{code}")
    assert (ended.code, ended.quiet) == (expected, True), ended.err
    assert sorted(ended.requests(), key=lambda text: int(text.strip('"'))) == [
        f'"{n}"' for n in range(100)
    ] or sorted(ended.requests(), key=int) == [str(n) for n in range(100)]


def test_an_uncaught_exception_loses_nothing(app):
    """The app's traceback is its own; the spans are delivered."""
    ended = app("trace(100)\nraise ValueError('the app itself')")
    assert ended.code == 1
    assert ended.err.count("Traceback") == 1
    assert len(ended.requests()) == 100


def test_the_apps_signal_handlers_are_untouched(app):
    """None is installed or replaced but the default action of SIGTERM; see `test_sigterm`."""
    ended = app(
        "before = {n: signal.getsignal(n) for n in signal.valid_signals()}\n"
        "trace(10); llmeval.flush(10)\n"
        "print([n.name for n, was in before.items() if signal.getsignal(n) is not was])"
    )
    assert ended.out == "['SIGTERM']\n"


@pytest.mark.parametrize("judges", ["", "llmeval.configure(evaluators=[slow])"])
@pytest.mark.parametrize("count", [500, 2_000])
def test_a_script_that_traces_in_a_loop_loses_nothing(app, count, judges):
    """Exit waits for as long as records are delivered, also beside a judge that takes seconds."""
    ended = app(f"""
@llmeval.judge
async def slow(record, llm):
    import asyncio
    await asyncio.sleep(30)
{judges}
@llmeval.workflow
def answer(question, context=["The roof is made of slate, and the walls of brick. " * 20] * 3):
    return f"The roof of {{question}} is made of slate."
trace({count})
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len(ended.requests()) == count
    assert "not delivered" not in ended.err


def test_a_dead_destination_does_not_live_on_what_another_one_takes(app):
    """The store gets everything, the other one is given up, and both are said."""
    ended = app("""
class Dead:
    name = "dead"
    def export(self, batch): threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=["local", Dead()])
trace(1_000)
atexit.register(lambda: None)
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len(ended.requests()) == 1_000
    assert "1000 records not delivered in time" in ended.err
    assert ended.lost() == {"dead": {"shutdown": 1_000}}


def test_ctrl_c_ends_the_wait_without_a_traceback(app):
    """Whoever does not want to wait need not, and is told what was lost."""
    ended = app(
        """
class Dead:
    name = "dead"
    def export(self, batch):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
signal.signal(signal.SIGINT, signal.default_int_handler)
gate = threading.Event()
class Late(Dead):
    def export(self, batch):
        gate.wait()
        super().export(batch)
llmeval.configure(exporters=[Late()], shutdown_timeout=60)
trace(10)
atexit.register(gate.set)
""",
        timeout=50,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert "10 records not delivered in time" in ended.err


LATE = {
    "atexit before ours": "atexit.register(trace, 5, 'late')\ntrace(10)",
    "atexit after ours": "trace(10)\natexit.register(trace, 5, 'late')",
    "__del__ at teardown": (
        "class Last:\n"
        "    def __del__(self): answer('late')\n"
        "trace(10)\n"
        "sys.modules['keeper'] = last = Last()\n"
        "last.cycle = last"
    ),
    "daemon thread": (
        "def forever():\n"
        "    while True: answer('late')\n"
        "trace(10)\n"
        "threading.Thread(target=forever, daemon=True).start()\n"
        "time.sleep(0.1)"
    ),
    "after shutdown": "trace(10)\nllmeval.shutdown(5)\ntrace(5, 'late')\nprint(llmeval.stats().dropped)",
}


@pytest.mark.parametrize("late", LATE)
def test_late_calls_raise_nothing(app, late):
    """Calls at interpreter shutdown, from finalisers and daemon threads are harmless."""
    ended = app(LATE[late])
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len([r for r in ended.requests() if "late" not in r]) == 10
    if late == "after shutdown":
        assert ended.out == "{'shutdown': 5}\n"


HANGS = {
    "exporter": """
class Hanging:
    name = "hanging"
    def export(self, batch): threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=[Hanging()])
trace(10)
""",
    "judge": """
@llmeval.judge
def hangs(record, llm): threading.Event().wait()
llmeval.configure(evaluators=[hangs])
trace(10)
""",
    "async judge that blocks its loop": """
@llmeval.judge
async def hangs(record, llm): threading.Event().wait()
llmeval.configure(evaluators=[hangs])
trace(10)
""",
    "heuristic": """
@llmeval.heuristic
def hangs(record): threading.Event().wait()
trace(10)
""",
    "close": """
class Hanging:
    name = "hanging"
    def export(self, batch): pass
    def flush(self, timeout): threading.Event().wait()
    def close(self, timeout): threading.Event().wait()
llmeval.configure(exporters=[Hanging()])
trace(10)
""",
}


@pytest.mark.parametrize("what", HANGS)
def test_what_hangs_does_not_keep_the_process(app, what):
    """The process ends although an exporter, judge or heuristic never returns."""
    ended = app(HANGS[what])
    assert (ended.code, ended.quiet) == (0, True), ended.err
    if what == "exporter":
        assert "not delivered in time" in ended.err
    elif what != "close":
        assert len(ended.requests()) == 10


def test_where_no_thread_can_start_the_app_runs_on(app):
    """The app can still read its scores; what cannot be delivered is counted."""
    ended = app("""
def refuse(self): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
with llmeval.workflow("w") as span:
    span.annotate(retrieved_context=[{"content": "a", "score": 0.5}])
print(span.evaluations["context_relevance"].value, llmeval.stats().dropped)
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "0.25 {'no_worker': 1}\n"


def test_os_exit_and_kill_lose_at_most_what_was_not_flushed(app):
    """What was flushed before os._exit or kill -9 is there."""
    for end in ("os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"):
        ended = app(f"trace(50); assert llmeval.flush(10).complete; {end}")
        assert len(ended.requests()) >= 50


def test_a_script_that_just_ends_is_judged_too(app):
    """With the time it needs, a judge starts at exit and finds its server by name."""
    pytest.importorskip("openai")
    with JudgeServer() as server:
        ended = app(
            f"""
llmeval.configure(llm={MODEL!r}, shutdown_timeout=30, judge_api_key="x",
                  judge_base_url={server.base_url.replace("127.0.0.1", "localhost")!r})
with llmeval.workflow("ask", request="roof?", evaluators=["relevance_to_query"]) as span:
    span.response = "The roof is made of slate."
"""
        )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    with closing(sqlite3.connect(ended.store)) as store:
        query = "SELECT value FROM evaluations WHERE name = 'relevance_to_query'"
        assert store.execute(query).fetchall() == [("yes",)]


@pytest.mark.parametrize("end", ["", "llmeval.shutdown(); os._exit(0)"])
def test_a_store_that_hangs_does_not_keep_the_process(app, end):
    """Not even for the note of what was lost; the line is written."""
    ended = app(f"""
from llmeval_sdk.store import writer
trace(3); llmeval.flush(10)
writer._insert = lambda *a, **k: threading.Event().wait()
trace(10)
{end}
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert "10 records not delivered in time" in ended.err


@pytest.mark.parametrize("dead", ["[Dead()]", "[Dead() for _ in range(100)]"])
@pytest.mark.parametrize(
    "then", ["", "time.sleep(0.3); llmeval.configure(exporters=['local']); trace(10)"]
)
def test_dead_destinations_cost_no_more_than_one(app, dead, then):
    """Also where another configuration has taken their place.

    With a deadline for each, a hundred would end later than anybody waits.
    """
    ended = app(f"""
class Dead:
    def __init__(self): self.name = f"dead-{{id(self)}}"
    def export(self, batch): threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters={dead})
trace(10)
{then}
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert "not delivered in time" in ended.err
