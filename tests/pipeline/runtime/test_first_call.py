"""What the first traced call of a process loads and does, where the environment sets the SDK up."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

import pytest

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation.scoring import Unloaded
from llmeval_sdk.evaluation.standing import standing_heuristics


MAX_MODULES, MAX_LINES = 90, 16_000
"""What the app's thread may import of ours until its first call has returned."""

FIRST_CALL = """
import json, sys, threading
app, imported = threading.get_ident(), []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() == app:
            imported.append(name)
sys.meta_path.insert(0, Finder())
import llmeval_sdk as llmeval
@llmeval.workflow
def answer(question):
    return "yes"
answer("q")
"""


NAMES = """
llmeval.flush(30)
import contextlib, sqlite3
with contextlib.closing(sqlite3.connect(".llmeval/llmeval.db")) as database:
    names = [row[0] for row in database.execute("SELECT name FROM evaluations")]
"""


@pytest.fixture
def counted(tmp_path):
    """Return a function that runs code after the first call and returns what it prints as JSON."""

    def run(code, **environment):
        ours = ("LLMEVAL_", "DD_", "OTEL_", "OPENAI_")
        clean = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CALL + code],
            cwd=tmp_path, env={**clean, **environment},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return run


def test_the_app_loads_little_until_its_first_call_has_returned(counted):
    """Two fifths of what OpenTelemetry's import takes: modules and lines are counted, no clock."""
    modules, lines = counted("""
ours = {name for name in imported if name.startswith("llmeval_sdk")}
files = [sys.modules[name].__file__ for name in ours]
print(json.dumps([len(ours), sum(len(open(file, encoding="utf-8").readlines()) for file in files)]))
""")
    assert 10 < modules <= MAX_MODULES
    assert 1_000 < lines <= MAX_LINES


@pytest.mark.parametrize("name", ["asyncio", "sqlite3", "ssl", "importlib.metadata", "email"])
def test_the_app_loads_nothing_that_only_the_worker_needs(counted, name):
    """The event loop of judges and the store are the worker's."""
    assert counted(f"print(json.dumps({name!r} in imported))") is False


def test_what_nobody_configured_is_never_loaded(counted):
    """Redis, sessions, the scores of agents and instrumentation cost nothing where none is used."""
    loaded = counted("""
assert llmeval.flush(30).complete
print(json.dumps([name for name in sys.modules if name.startswith("llmeval_sdk.")]))
""")
    for unused in ("agents.heuristics", "sessions.idle_sessions", "shared.limiter",
                   "instrument.patching", "datadog.source", "fleet._client"):  # fmt: skip
        assert f"llmeval_sdk.plugins.{unused}" not in loaded
    assert "llmeval_sdk.heuristics.extraction.risk" not in loaded  # no record had a structure
    assert "llmeval_sdk.store.writer" in loaded


def test_a_score_is_loaded_for_the_first_record_that_it_attaches_to(counted):
    """The record itself gets it, on the app's thread and in the worker."""
    before, names = counted(
        """
llmeval.flush(30)
before = "llmeval_sdk.heuristics.extraction.risk" in sys.modules
@llmeval.workflow
def extract(chunks):
    llmeval.annotate(extractions=[{"value": "1932", "chunk_number": 1}])
    return {"year": "1932"}
extract([{"content": "Built in 1932.", "score": 0.5}])
"""
        + NAMES
        + "print(json.dumps([before, names]))"
    )
    assert before is False
    assert {"context_relevance", "context_precision", "extraction_risk"} <= set(names)
    assert "multi_source_agreement" not in names  # it is loaded, and a single value is no agreement
    assert len(names) == len(set(names))


def test_a_retrieval_is_scored_at_once_without_the_plugins(counted):
    """Their manifests are the worker's to load; the app's thread needs one score of the core."""
    plugins, score = counted("""
@llmeval.retrieval
def retrieve(question):
    return [{"content": "The roof is made of slate.", "score": 0.5}]
with llmeval.workflow("look up", request="What is the roof made of?") as span:
    retrieve("What is the roof made of?")
    score = span.evaluations["context_relevance"].value
plugins = [name for name in imported if name.startswith("llmeval_sdk.plugins")]
print(json.dumps([plugins, score]))
""")
    assert (plugins, score) == ([], 0.25)


def test_a_score_asked_for_by_name_is_there_for_the_first_record(counted):
    """A span that ends before the worker has made its plan gets what the plan asks for."""
    asked = {"LLMEVAL_EVALUATORS": "latency_seconds"}
    assert counted(NAMES + "print(json.dumps(names))", **asked) == ["latency_seconds"]


def test_the_account_is_right_before_anything_can_deliver(counted):
    """What waits for the worker to be ready is undelivered, and nothing is waited for."""
    early, late = counted(
        """
early = llmeval.stats()
late = llmeval.flush(30)
print(json.dumps([[stats.spans, stats.exporters["local"].balanced,
                   stats.exporters["local"].undelivered] for stats in (early, late)]))
""",
        LLMEVAL_EXPORTERS="local",
    )
    assert early == [1, True, 1]
    assert late == [1, True, 0]


def test_an_app_that_imports_meanwhile_sees_no_half_made_module(counted):
    """Three threads import what the worker loads at that moment."""
    errors = counted("""
import importlib
errors = []
def load(names):
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            errors.append(repr(error))
names = ["asyncio", "sqlite3", "llmeval_sdk.evaluation.limiter", "llmeval_sdk.judges.base",
         "llmeval_sdk.offline", "llmeval_sdk.pipeline.work", "llmeval_sdk.exporters.redaction"]
threads = [threading.Thread(target=load, args=(names[n:] + names[:n],)) for n in (0, 3, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
complete = llmeval.flush(30).complete
print(json.dumps([errors, complete]))
""")
    assert errors == [[], True]


def test_what_an_attachment_says_is_what_the_heuristic_says():
    """The table of what each needs cannot differ from the heuristics themselves."""
    unloaded = [one for one in standing_heuristics(Settings()) if isinstance(one, Unloaded)]
    assert len(unloaded) > 10
    for heuristic in unloaded:
        own = registry.evaluator(heuristic.name)
        assert (heuristic.needs, heuristic.inline, heuristic.per) == (
            own.needs, own.inline, getattr(own, "per", "answer"),
        ), heuristic.name  # fmt: skip
        assert own.automatic


def test_a_configuration_that_comes_meanwhile_stays_in_force(counted):
    """The plan of the environment is made for the records before it, and changes nothing else."""
    found = counted("""
llmeval.configure(exporters=["memory"], judge_timeout=7)
answer("later")
complete = llmeval.flush(30).complete
from llmeval_sdk.exporters import memory
from llmeval_sdk.pipeline import runtime
import contextlib, sqlite3
with contextlib.closing(sqlite3.connect(".llmeval/llmeval.db")) as database:
    stored = database.execute("SELECT count(*) FROM spans").fetchone()[0]
print(json.dumps([complete, runtime.settings().judge_timeout, len(memory.spans()), stored]))
""")
    assert found == [True, 7.0, 1, 1]


def test_a_script_that_ends_at_once_is_judged(tmp_path):
    """From 3.12 on, Python starts no thread for the judges once the script has ended."""
    script = """
import llmeval_sdk as llmeval
@llmeval.judge
def always_right(record, llm):
    return 1.0
@llmeval.workflow(evaluators=["always_right"])
def answer(question):
    return "yes"
answer("q")
"""
    own = {
        "LLMEVAL_JUDGE_MODEL": "gpt-4o", "OPENAI_API_KEY": "no-key",
        "LLMEVAL_STORE": str(tmp_path / "store.db"), "LLMEVAL_SHUTDOWN_TIMEOUT": "50",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **own},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM evaluations")]
    assert names == ["always_right"]
