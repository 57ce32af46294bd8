"""Evaluators, redactors and exporters of the app may do anything: the app and the rest go on."""

import sys
import threading
import time

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model.protocols import BaseExporter, LiveSpans
from llmeval_sdk.pipeline import evaluating
from llmeval_sdk.process import threads as helper_threads
from llmeval_sdk.process.shield import caught
from llmeval_sdk.process.threads import MAX_ABANDONED
from llmeval_sdk.testing import capture


@llmeval.workflow
def answer(question, options):
    llmeval.annotate(metadata={"tier": [1]})
    return {"said": [question]}


def run(count=3, first=0):
    """Call the app; its values are its own, whatever was done to copies of them."""
    options = {"top": [5]}
    for number in range(first, first + count):
        assert answer(str(number), options) == {"said": [str(number)]}
    assert options == {"top": [5]}


def heuristic(function, **options):
    return llmeval.heuristic(name="mine", **options)(function)


def judge(function):
    def mine(record, llm):
        return function(record)

    return llmeval.judge(mine)


def async_judge(function):
    async def mine(record, llm):
        return function(record)

    return llmeval.judge(mine)


KINDS = {
    "background": heuristic,
    "inline": lambda function: heuristic(function, inline=True),
    "judge": judge,
    "async judge": async_judge,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def everything_arrived(seen, count=3):
    """Flush; all spans arrived unchanged, the account adds up and our threads live."""
    stats = seen.drain()
    spans = [span for span in seen.spans if span.name == "answer"]
    assert [span.response for span in spans] == [{"said": [str(n)]} for n in range(count)]
    assert all(span.attributes == {"tier": [1]} for span in spans)
    assert all(each.balanced for each in stats.exporters.values())
    assert "llmeval-worker" in {thread.name for thread in threading.enumerate()}
    return [each.evaluation for each in seen.evaluations if each.evaluation.name == "mine"]


@every_kind
def test_an_evaluator_that_exits_ends_nothing(kind):
    """``sys.exit()`` in it is a failed evaluation, each time."""
    mine = KINDS[kind](lambda record: sys.exit(3))
    with capture(evaluators=[mine], raise_again=False) as seen:
        run()
        found = everything_arrived(seen)
    assert [each.value for each in found] == [None] * 3
    assert all(each.error is not None for each in found)


@every_kind
def test_an_evaluator_that_calls_evaluated_code_runs_once(kind):
    """What it calls is the plain function."""
    runs = []

    def again(record):
        runs.append(record)
        return answer("again", {}) == {"said": ["again"]}

    with capture(evaluators=[KINDS[kind](again)], raise_again=False) as seen:
        run()
        found = everything_arrived(seen)
    assert len(runs) == len(found) == 3
    assert all(each.error is None for each in found)


@every_kind
def test_an_evaluator_that_changes_what_it_gets_changes_nothing_else(kind):
    """Neither what the app holds, nor what exporters and other evaluators see."""

    def vandal(record):
        record.value["said"].append("evil")
        record.attributes["tier"].append("evil")
        return True

    seen_by_others = []

    @llmeval.judge
    def other(record, llm):
        seen_by_others.append(record.value)
        return True

    mine = KINDS[kind](vandal)
    with capture(evaluators=[mine, other], raise_again=False) as seen:
        run()
        found = everything_arrived(seen)
    assert len(found) == 3
    assert all(each.error is None for each in found)
    assert sorted(map(repr, seen_by_others)) == [repr({"said": [str(n)]}) for n in range(3)]


class Odd:
    def __float__(self):
        raise ZeroDivisionError


NONSENSE = {
    "object": object(),
    "class": Odd,
    "no number": float("nan"),
    "infinite": float("inf"),
    "huge": 10**400,
    "raises": Odd(),
    "set": {1},
    "generator": (n for n in ()),
    "bytes": b"0.5x",
}


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("kind", ["background", "inline", "judge"])
def test_nonsense_is_an_error_and_never_a_score(kind, what):
    """Whatever is no finite number, bool, text or ``None``."""
    mine = KINDS[kind](lambda record: NONSENSE[what])
    with capture(evaluators=[mine], raise_again=False) as seen:
        run()
        found = everything_arrived(seen)
    assert [each.value for each in found] == [None] * 3
    assert all(each.error is not None for each in found)


@pytest.fixture
def impatient(monkeypatch):
    """Wait for heuristics of the app only so long; gives what releases those that hang."""
    monkeypatch.setattr(evaluating, "PATIENCE_SECONDS", 0.1)
    released = threading.Event()
    yield released
    released.set()


def test_a_heuristic_that_hangs_is_left_behind(impatient):
    """It times out three times, is counted after that, and the others score every record."""
    begun, before = threading.Event(), caught.snapshot()

    def hangs(record):
        begun.set()
        impatient.wait(30)

    @llmeval.heuristic
    def quick(record):
        return 0.5

    with capture(evaluators=[heuristic(hangs), quick], raise_again=False) as seen:
        run(20)
        assert begun.wait(10)
        found = everything_arrived(seen, 20)
        stats = llmeval.stats()
        quick_ones = [e for e in seen.evaluations if e.evaluation.name == "quick"]
    assert [each.error.type for each in found] == ["timeout"] * MAX_ABANDONED
    assert len(quick_ones) == 20
    for what, times in (("abandoned", MAX_ABANDONED), ("refused", 20 - MAX_ABANDONED)):
        site = f"heuristic mine: {what}"
        assert stats.problems[site] - before.get(site, 0) == times


def test_a_heuristic_that_comes_back_is_used_again_but_not_always(impatient, monkeypatch):
    """After three missed deadlines in a row it rests for a while, and is then used again."""
    monkeypatch.setattr(helper_threads, "REST_FACTOR", 1_000)
    finished = []

    def slow(record):
        impatient.wait(0.3)
        finished.append(record)
        return 1.0

    with capture(evaluators=[heuristic(slow)], raise_again=False) as seen:
        for strike in range(5):
            run(1)
            seen.drain()
            deadline = time.monotonic() + 60
            while len(finished) < min(strike + 1, 3) and time.monotonic() < deadline:
                time.sleep(0.01)
        found = [e.evaluation for e in seen.evaluations if e.evaluation.name == "mine"]
        assert [each.error.type for each in found] == ["timeout"] * 3
        assert len(finished) == 3
        monkeypatch.setattr(helper_threads, "monotonic", lambda: time.monotonic() + 1_000_000)
        run(1)
        seen.drain()
        assert len([e for e in seen.evaluations if e.evaluation.name == "mine"]) == 4


def test_threads_left_behind_are_few(impatient):
    """However often they are called, each heuristic that hangs leaves three threads behind."""
    hanging, stuck = [], []
    for number in range(4):

        def hangs(record):
            stuck.append(threading.current_thread())
            impatient.wait(30)

        hanging.append(llmeval.heuristic(name=f"hangs_{number}")(hangs))
    with capture(evaluators=hanging, raise_again=False) as seen:
        run(6)
        everything_arrived(seen, 6)
        assert all(thread.is_alive() and thread.daemon for thread in stuck)
    timeouts = [e for e in seen.evaluations if e.evaluation.error is not None]
    assert len(timeouts) == len(set(stuck)) == 4 * MAX_ABANDONED
    for each in hanging:
        registry.forget(each.name)


def test_a_hanging_heuristic_takes_no_other_record_with_it_at_the_end(app):
    """Its five seconds end with the process: what came after it is delivered in time."""
    ended = app("""
@llmeval.heuristic
def hangs(record):
    if record.request == "0": threading.Event().wait()
trace(50)
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len(ended.requests()) == 50


class Evil(BaseExporter, LiveSpans):
    """Does something in each method of an exporter but ``export``."""

    name = "evil"

    def __init__(self, act):
        self.act = act
        self.spans = []
        self.live = self

    def export(self, batch):
        self.spans += batch.spans

    def flush(self, timeout):
        self.act()

    def close(self, timeout):
        self.act()

    def on_start(self, span):
        self.act()

    def on_end(self, span):
        self.act()

    def on_drop(self, span):
        self.act()


class FailsToExport(Evil):
    def export(self, batch):
        self.act()

    on_start = on_end = on_drop = flush = close = lambda self, *_: None


ACTS = {"raises": lambda: 1 / 0, "exits": lambda: sys.exit(3), "recurses": lambda: answer("x", {})}


@pytest.mark.parametrize("act", ACTS)
def test_an_exporter_may_fail_in_every_method(act):
    """The other exporters get everything, and the calls their results."""
    evil = FailsToExport(ACTS[act])
    with capture(exporters=[evil], raise_again=False) as seen:
        run()
        everything_arrived(seen)
        each = llmeval.stats().exporters["evil"]
    assert each.balanced
    assert each.undelivered == 0


@pytest.mark.parametrize("act", ["raises", "exits"])
def test_an_exporters_hooks_may_fail(act):
    """On the app's thread, too."""
    evil = Evil(ACTS[act])
    with capture(exporters=[evil], raise_again=False) as seen:
        run()
        everything_arrived(seen)
        assert len(evil.spans) == 3
        llmeval.shutdown(5)
        run(2)
        assert llmeval.stats().dropped == {"shutdown": 2}


@pytest.mark.parametrize("act", ["raises", "exits", "recurses"])
def test_a_redactor_may_fail(act):
    """Nothing leaves unredacted, and everything else goes on."""

    def redact(text):
        ACTS[act]()
        return text

    with capture(redact=redact, raise_again=False) as seen:
        run()
        stats = seen.drain()
        spans = [span for span in seen.spans if span.name == "answer"]
    assert len(spans) == stats.exporters["captured"].created - stats.evaluations == 3


@pytest.mark.parametrize("act", ["raises", "exits"])
def test_a_judge_model_of_the_app_may_fail(act):
    """A callable that is the judge's model: each judgement says why there is none."""

    def model(prompt):
        ACTS[act]()

    with capture(llm=model, evaluators=["relevance_to_query"], raise_again=False) as seen:
        with llmeval.workflow("w", request="q") as span:
            span.response = "a"
        stats = seen.drain()
    assert stats.not_run["relevance_to_query"] == {"error": 1}


RAISING = {
    "heuristic": """
@llmeval.heuristic(inline=False)
def mine(record):
    if record.request == "bad1": raise problem()
    return 1.0
llmeval.configure(exporters=["memory"])
""",
    "judge": """
@llmeval.judge
async def mine(record, llm):
    if record.request == "bad1": raise problem()
    return True
llmeval.configure(exporters=["memory"], evaluators=[mine])
""",
    "exporter": """
class Mine:
    name = "mine"
    def export(self, batch):
        if any(span.request == "bad1" for span in batch.spans): raise problem()
    def flush(self, timeout): raise problem()
    def close(self, timeout): raise problem()
llmeval.configure(exporters=["memory", Mine()])
""",
}


@pytest.mark.parametrize("problem", ["KeyboardInterrupt", "GeneratorExit", "Own", "SystemExit"])
@pytest.mark.parametrize("what", RAISING)
def test_no_exception_of_a_guest_ends_a_thread_of_ours(app, what, problem):
    """Not even one that no ``except Exception`` would stop: what comes after it is dealt with."""
    ended = app(
        f"class Own(BaseException): pass\nproblem = {problem}\n"
        + RAISING[what]
        + """
from llmeval_sdk.exporters import memory
for name in ("good", "bad", "better"):
    trace(2, name)
    assert llmeval.flush(20).complete, name
print(sum(span.name == "answer" for span in memory.spans()))
print(sum(each.evaluation.name == "mine" and each.evaluation.error is None for each in memory.evaluations()))
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out.split() == ["6", "0" if what == "exporter" else "5"]
