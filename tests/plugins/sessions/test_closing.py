"""The sessions of one pipeline: a broken file, a fork or an odd id costs no span its scores."""

import os
import uuid
from dataclasses import replace

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.evaluation.running import addressed
from llmeval_sdk.model import Evaluation, Record, Target
from llmeval_sdk.plugins.sessions import idle_sessions
from llmeval_sdk.plugins.sessions.heuristics.length import turn_count
from llmeval_sdk.plugins.sessions.idle_sessions import Sessions
from llmeval_sdk.plugins.sessions.turn_store import TurnStore
from llmeval_sdk.process import shield
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing._span import Spec


RECORD = Record(request="one?", response="a roof")
IDLE = 60.0


@pytest.fixture
def make(tmp_path):
    """Make the sessions of a pipeline, with a file of their own or in memory."""
    made = []

    def sessions(path=tmp_path / "store.state"):
        turn_store = TurnStore(path, int(IDLE * 1e9))
        made.append(Sessions(turn_store, [turn_count], [], idle=IDLE, content=True))
        return made[-1]

    yield sessions
    for each in made:
        each.close()


def span_of(session_id):
    span = Span(Spec("workflow", "chat", (), None, None, None, None), None)
    span.session_id = session_id
    span.end_ns = span.start_ns
    return span


def noted(sessions):
    """Write what waits, and return how many turns the session ``s1`` has."""
    for _ in range(3):  # a file that fails is replaced by memory
        sessions._guarded(sessions._write)
    return len(sessions._turn_store.turns(idle_sessions.key_of("s1")))


def in_child(work):
    """Fork, and say whether ``work`` was true in the child."""
    pid = os.fork()
    if pid == 0:
        outcome = 1
        try:
            outcome = 0 if work() else 1
        finally:
            os._exit(outcome)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("session_id", [uuid.UUID(int=7), 42, "x" * 5_000])
def test_a_session_id_may_be_anything_that_has_a_text(session_id, tmp_path):
    """Its request keeps its scores, and belongs to the session of that text."""
    options = {"escalations": [], "llm": testing.FakeLLM("{}"), "store": str(tmp_path / "s.db")}
    with testing.capture(evaluators=["goal_reached", "relevance_to_query"], **options) as captured:
        with llmeval.workflow("chat", request="one?", session_id=session_id) as span:
            span.response = "It is a roof of slate"
        stats = captured.drain()
    assert stats.sessions["turns"] == 1
    assert "relevance_to_query" in captured.scores()
    assert captured.spans[0].session_id == str(session_id)[:1_000]


class NoText:
    """An id of which nobody can make a text."""

    def __str__(self):
        raise RuntimeError("no text")


def test_a_span_whose_session_cannot_be_noted_keeps_its_scores(make):
    """Whatever goes wrong is counted, and nothing is raised into the worker or the app."""
    shield.raise_again(False)
    with llmeval.workflow("chat", session_id=NoText()):
        pass
    sessions = make()
    assert sessions.record_evaluated(span_of(NoText()), RECORD, in_spool=True) == []
    assert sessions.stats()["turns not kept"] == 1


def test_a_fork_leaves_sessions_in_memory_as_they_are(make):
    """Memory is not closed before a fork, as a file is: it would be empty after it."""
    sessions = make(None)
    sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)
    assert noted(sessions) == 1
    assert in_child(lambda: True)
    assert noted(sessions) == 1


def test_a_child_that_flushes_leaves_its_parents_turns_to_the_parent(make):
    """Turns that wait to be written are those of the process that noted them."""
    sessions = make()
    sessions.record_evaluated(
        span_of("s0"), RECORD, in_spool=False
    )  # the next turns wait for a burst
    for _ in range(3):
        sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)

    def flushes():
        sessions.flush()
        return noted(sessions) == 0 and "file failed" not in sessions.stats()

    assert in_child(flushes)
    assert noted(sessions) == 3


def test_a_child_that_just_ends_leaves_its_parents_leases_alone(make):
    """It gives back what it took itself, which is nothing."""
    sessions = make()
    sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)
    noted(sessions)
    far = 2**62
    assert sessions._turn_store.take(sessions._owner, far, far + 10**9, 1)

    def end():
        sessions.close()
        return True

    assert in_child(end)
    assert sessions._turn_store.take("other", far, far + 1, 1) == []


def test_a_child_of_a_fork_amid_a_write_goes_on_in_memory(make):
    """The file is its parent's; the child says so once and keeps its own sessions."""
    sessions = make()
    sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)
    noted(sessions)

    def goes_on():
        sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)
        return noted(sessions) == 1 and sessions.stats()["file failed"] == 1

    with sessions._turn_store._file.reading():
        assert in_child(goes_on)


def test_a_folder_that_cannot_be_written_is_told(make, tmp_path):
    """Memory serves for this process alone, and the log says why."""
    (tmp_path / "file").write_text("no folder")
    sessions = make(tmp_path / "file" / "store.state")
    sessions.record_evaluated(span_of("s1"), RECORD, in_spool=False)
    assert noted(sessions) == 1
    assert sessions.stats()["file failed"] == 1


def test_the_verdict_of_a_session_is_told_from_that_of_its_last_request():
    """Both are attached to one span, and a backend keeps one of each id."""
    score = Evaluation("mood", 1.0)
    target = Target("t", "s", "chat", "workflow")
    periods = [
        replace(target, marks=(("scope", "session"), ("session_id", "a"), ("period", period)))
        for period in (1, 2)
    ]
    ids = [addressed(score, one).id for one in (target, *periods)]
    assert ids == ["s-mood", "s-mood-session-1", "s-mood-session-2"]


@pytest.mark.parametrize("name", ["goal_reached", "turn_count"])
def test_an_evaluator_of_sessions_that_a_span_names_does_not_run_on_its_request(name, tmp_path):
    """It sees whole conversations: one request alone would give a verdict that means nothing."""
    options = {"escalations": [], "llm": testing.FakeLLM("{}"), "store": str(tmp_path / "s.db")}
    with testing.capture(evaluators=["relevance_to_query"], **options) as captured:
        with llmeval.workflow("chat", request="one?", evaluators=[name]) as span:
            span.response = "a roof"
        captured.drain()
    assert name not in captured.scores()
    assert name not in {item.evaluator for item in captured.not_run}
