"""What traces an app's own databases does not see the store, the ledger and the file of state."""

import sqlite3
from contextlib import closing
from sqlite3 import dbapi2

import pytest
from command_line import run_command
from served import serving

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.viewer import app


GOOD = '{"rationale": "fine", "rating": "yes"}'
GOOD_SESSION = '{"rationale": "fine", "steps": [], "rating": "yes"}'


@pytest.fixture
def seen(monkeypatch):
    """Replace both names of `sqlite3.connect`, as ddtrace and OpenTelemetry do, and record."""
    seen = []

    def traced(*arguments, **keywords):
        seen.append(arguments)
        return sqlite3.Connection(*arguments, **keywords)

    monkeypatch.setattr(sqlite3, "connect", traced)
    monkeypatch.setattr(dbapi2, "connect", traced)
    return seen


def record(store, judge="relevance_to_query", answer=GOOD, **settings):
    """Record and judge requests of a session, with a budget that all processes share."""
    llmeval.configure(
        exporters=["local"],
        store=str(store),
        evaluators=[judge],
        escalations=[],
        llm=testing.FakeLLM(answer),
        budget=Budget(calls_per_minute=1000),
        **settings,
    )
    for number in range(3):
        with llmeval.workflow("chat", request=f"{number}?", session_id="s") as span:
            span.response = "A roof of slate."
    assert llmeval.flush(30).complete


def test_recording_judging_and_ending_are_not_seen(seen, tmp_path):
    """An app's request is one span of its own, however often its record is stored and judged."""
    record(tmp_path / "store.db")
    llmeval.shutdown(10)
    assert (tmp_path / "store.ledger").exists()
    assert llmeval.stats().judged == {"relevance_to_query": 3}
    assert not seen


@pytest.mark.plugin("sessions")
def test_the_sessions_of_an_app_are_not_seen(seen, tmp_path, until):
    """The turns of a session wait in the file of state until it is idle."""
    record(tmp_path / "store.db", "goal_reached", GOOD_SESSION, session_idle=0.2)
    until(lambda: "goal_reached" in llmeval.stats().judged)
    assert (tmp_path / "store.state").exists()
    assert not seen


def test_a_store_in_memory_is_not_seen(seen, tmp_path):
    """It is a database, too."""
    (tmp_path / "file").touch()
    record(tmp_path / "file" / "store.db")
    assert not seen


def test_reading_labelling_and_copying_are_not_seen(seen, tmp_path):
    """Commands and the viewer may run in a process whose databases are traced."""
    store = tmp_path / "store.db"
    record(store)
    for command in (
        ["traces"],
        ["report"],
        ["explain", "--last"],
        ["doctor"],
        ["prune", "--user", "nobody", "--yes"],
    ):
        run_command(*command, "--store", store, folder=tmp_path)
    labelled = run_command(
        "label", "relevance_to_query", "--store", store, folder=tmp_path, keys="y\nq\n"
    )
    assert "1 labels stored" in labelled.stdout
    copied = run_command("backup", tmp_path / "copy", "--store", store, folder=tmp_path)
    assert copied.returncode == 0, copied.stderr
    with closing(app(store=store, open=True)) as viewer, serving(viewer) as site:
        assert "chat" in site.get("/").text
    assert not seen


def test_the_app_s_own_connections_stay_traced(seen, tmp_path):
    """What the app opens itself is nothing of ours."""
    record(tmp_path / "store.db")
    with closing(sqlite3.connect(tmp_path / "own.db")):
        assert seen == [(tmp_path / "own.db",)]
