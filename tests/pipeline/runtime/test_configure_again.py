"""The same `configure()` again changes nothing, as a rerun of a Streamlit script has it."""

import os
import runpy
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.runtime import in_force
from llmeval_sdk.process import threads
from llmeval_sdk.store.state import HostLedger


ROOT = Path(llmeval.__file__).parent.parent
GOOD = '{"rationale": "fine", "rating": "yes"}'
SCRIPT = """
import functools
import llmeval_sdk as llmeval

SHORTEST = 3
WORDS = ["roof", "slate"]


def mentions(text, words=("roof",)):
    return any(word in text for word in words)


def at_least(count):
    def long_enough(record):
        return len(record.response) >= count

    return llmeval.heuristic(long_enough)


def model(prompt, reply='{"rationale": "fine", "rating": "yes"}'):
    return reply


@llmeval.heuristic
def is_short(record):
    return len(record.response) < SHORTEST


@llmeval.judge
def polite(record, llm):
    return mentions(record.response) and (lambda: bool(WORDS))()


llmeval.configure(
    exporters=["local"],
    evaluators=[
        polite,
        at_least(3),
        "relevance_to_query",
        llmeval.LLMJudge("kind", "Is it kind? {response}"),
    ],
    escalations=[llmeval.Escalation("groundedness", when=llmeval.below("context_relevance", 0.4))],
    sampling_rules=[llmeval.SamplingRule(1.0, evaluator="polite", where={"tag:who": ["a", "b"]})],
    budget=llmeval.Budget(calls_per_minute=1000, judges={"kind": llmeval.Budget()}),
    llm=functools.partial(model),
    redact=lambda text: text.replace("secret", "*"),
)


@llmeval.heuristic
def declared_after(record):
    return True


@llmeval.workflow(evaluators=["safety"])
def answer(question):
    return "A roof of slate."


answer(question)
"""


@pytest.fixture
def rerun(tmp_path):
    """Run the script anew, as Streamlit does at each click, and return the pipeline in force."""

    def rerun(text=SCRIPT, question="Why?"):
        path = tmp_path / "script.py"
        path.write_text(text)
        runpy.run_path(str(path), init_globals={"question": question})
        return in_force.pipeline

    return rerun


def test_a_script_that_runs_25_times_has_one_pipeline(rerun):
    """Its requests are all judged, although its functions and judges are made anew each time."""
    pipelines = {rerun(question=f"{number}?") for number in range(25)}
    assert len(pipelines) == 1
    assert in_force.retired == []
    stats = llmeval.flush(60)
    assert stats.judged["polite"] == stats.judged["kind"] == 25


CHANGES = {
    "a constant": ("SHORTEST = 3", "SHORTEST = 4"),
    "a list": ('["roof", "slate"]', '["roof", "tin"]'),
    "a default": ('words=("roof",)', 'words=("tin",)'),
    "a keyword's default": ('"rating": "yes"}', '"rating": "no"}'),
    "a closure": ("at_least(3)", "at_least(4)"),
    "code": ("len(record.response) >= count", "len(record.response) > count"),
    "the code of a helper": ("any(word in text", "all(word in text"),
    "an inner function": ("bool(WORDS)", "not WORDS"),
    "a judge's prompt": ("Is it kind?", "Is it rude?"),
    "an escalation": ("0.4", "0.5"),
    "a sampling rule": ('["a", "b"]', '["a"]'),
    "a budget": ("=1000", "=1001"),
    "a budget of a judge": ('{"kind": llmeval.Budget()}', "{}"),
    "redaction": ('"*"', '"+"'),
    "a partial": ("partial(model)", "partial(model, reply='no')"),
    "an exporter": ('["local"]', '["local", "memory"]'),
    "a setting": ("    redact=", "    judge_timeout=9.0,\n    redact="),
    "a judge that is declared after": (
        "    return True",
        "    return True\n\n@llmeval.judge\ndef late(record, llm):\n    return True",
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_in_the_script_is_in_force(rerun, change):
    """Whatever the call depends on, a change of it makes a pipeline, and the same again none."""
    old, new = change
    assert SCRIPT.count(old) >= 1
    first = rerun()
    changed = SCRIPT.replace(old, new)
    rerun(changed)
    second = rerun(changed)
    assert second is not first
    assert rerun(changed) is second


def test_a_variable_of_the_environment_counts(rerun, monkeypatch):
    """A setting that only the environment has is part of what is compared."""
    first = rerun()
    monkeypatch.setenv("LLMEVAL_JUDGE_TIMEOUT", "9")
    second = rerun()
    assert second is not first
    assert rerun() is second


def test_an_object_that_cannot_be_compared_makes_a_new_pipeline(rerun):
    """The app's own model is the one that is asked, even if it looks like the one before."""
    script = SCRIPT.replace("functools.partial(model)", "testing.FakeLLM()").replace(
        "import functools", "from llmeval_sdk import testing"
    )
    assert rerun(script) is not rerun(script)


def test_a_value_in_a_circle_is_compared(rerun):
    """A structure that holds itself ends the comparison in no recursion."""
    script = SCRIPT.replace(
        "SHORTEST = 3", "SHORTEST = 3\nWORDS = []\nWORDS.append(WORDS)"
    ).replace('WORDS = ["roof", "slate"]', "")
    assert rerun(script) is rerun(script)


def test_after_shutdown_the_same_call_begins_anew(rerun):
    """What was shut down is not in force."""
    first = rerun()
    llmeval.shutdown(10)
    second = rerun()
    assert second is not first
    assert llmeval.flush(30).spans >= 1


def test_what_the_environment_has_set_up_is_replaced():
    """The first span may come before `configure()`, which then says more than the environment."""
    with llmeval.workflow("early"):
        pass
    first = in_force.pipeline
    llmeval.configure()
    assert in_force.pipeline is not first


def test_a_mistake_is_told_each_time(rerun):
    """A decorator that names an unknown evaluator since then raises although all else is the same."""
    rerun()

    @llmeval.workflow(evaluators=["grounddness"])
    def misspelt(question):
        return question

    with pytest.raises(llmeval.errors.ConfigurationError, match="groundedness"):
        rerun()


def test_threads_that_configure_at_once_get_one_pipeline():
    """Sessions of an app begin at the same moment: one call puts its pipeline in force."""
    begin = threading.Barrier(8)

    def configure():
        begin.wait()
        llmeval.configure(exporters=["memory"], budget=llmeval.Budget(usd_per_day=3.0))

    callers = [threading.Thread(target=configure) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert in_force.retired == []


FORK = """
import os, sys
import llmeval_sdk as llmeval
from llmeval_sdk.pipeline.runtime import in_force

llmeval.configure(exporters=["memory"])
child = os.fork()
if not child:
    inherited = in_force.pipeline
    llmeval.configure(exporters=["memory"])
    os._exit(0 if in_force.pipeline is not inherited else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_a_pipeline_of_its_own(tmp_path):
    """What the parent was given is not what the child has."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=tmp_path, env=env, timeout=60, check=False
    )
    assert done.returncode == 0


def test_the_threads_of_a_replaced_pipeline_end(until):
    """Ten configurations leave the threads of one, and their judgements are all made."""
    release = threading.Event()

    def model(prompt):
        release.wait(60)
        return GOOD

    for number in range(10):
        llmeval.configure(
            exporters=["memory"],
            evaluators=["relevance_to_query"],
            llm=model,
            judge_timeout=30.0 + number,
        )
        with llmeval.workflow("answer", request=f"{number}?") as span:
            span.response = "Slate."
    release.set()
    until(lambda: llmeval.stats().judged == {"relevance_to_query": 10})
    ours = ("llmeval-worker", "llmeval-judges", "llmeval-memory", "llmeval-aside")
    until(lambda: max(map([each.name for each in threading.enumerate()].count, ours)) <= 1)
    assert runtime.RETIRING_SECONDS + threads.IDLE_SECONDS <= 10


@pytest.fixture
def judged(tmp_path):
    """Configure a judge whose books lie in a ledger, and ask once."""

    def ask():
        llmeval.configure(
            exporters=["local"],
            store=str(tmp_path / "store.db"),
            evaluators=["relevance_to_query"],
            escalations=[],
            llm=testing.FakeLLM(GOOD),
        )
        with llmeval.workflow("answer", request="Why?") as span:
            span.response = "Slate."

    return ask


def test_a_busy_ledger_is_waited_for(judged, tmp_path, monkeypatch, until):
    """Another process holds its lock for longer than SQLite waits; the judgement is made all the same."""
    ledger, failed = tmp_path / "store.ledger", []
    update = HostLedger.update

    def noting(self, change):
        try:
            return update(self, change)
        except sqlite3.OperationalError as error:
            failed.append(error)
            raise

    monkeypatch.setattr(HostLedger, "update", noting)
    with closing(HostLedger(ledger)) as books:
        books.update(lambda text: (text, None))
    with closing(sqlite3.connect(ledger, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        judged()
        until(lambda: failed)
    stats = llmeval.flush(60)
    assert stats.judged == {"relevance_to_query": 1}
    assert not stats.not_run


def test_a_broken_ledger_is_not_called_a_budget(judged, tmp_path, caplog):
    """Nothing is spent unchecked, and the advice is not to allow more spending."""
    (tmp_path / "store.ledger").write_text("of something else " * 100)
    judged()
    assert llmeval.flush(60).not_run == {"relevance_to_query": {"no_ledger": 1}}
    (line,) = [each for each in caplog.messages if "no_ledger" in each]
    assert "BUDGET" not in line


def test_a_relative_store_lies_in_the_working_folder_of_the_call(tmp_path, monkeypatch):
    """The same call in another folder makes another pipeline."""
    monkeypatch.delenv("LLMEVAL_STORE")
    with runtime.isolated():
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            monkeypatch.chdir(tmp_path / name)
            llmeval.configure(exporters=["local"], store="here/llmeval.db")
            with llmeval.workflow("answer", request="roof?"):
                pass
            assert llmeval.flush(20).complete
    assert (tmp_path / "second" / "here" / "llmeval.db").exists()


def test_a_store_that_was_kept_in_memory_is_tried_again(tmp_path):
    """The same call is what mends it, once the file can be made."""
    blocker = tmp_path / "blocker"
    blocker.touch()
    with runtime.isolated():
        for there in (True, False):
            if not there:
                blocker.unlink()
            llmeval.configure(exporters=["local"], store=blocker / "llmeval.db")
            with llmeval.workflow("answer", request="roof?"):
                pass
            assert llmeval.flush(20).complete
        assert (blocker / "llmeval.db").exists()
