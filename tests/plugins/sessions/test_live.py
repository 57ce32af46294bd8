"""Sessions of a running app: judged once when idle, in the background, on the last root span."""

import sqlite3
import threading
from contextlib import closing

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.plugins.sessions.idle_sessions import Sessions
from llmeval_sdk.process import shield
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.sessions import stored_sessions


GOOD = '{"rationale": "fine", "steps": [], "rating": "yes"}'


@pytest.fixture
def live(tmp_path, until):
    """Configure sessions that are soon idle, and talk."""

    class Live:
        store = tmp_path / "store.db"
        model = testing.FakeLLM(GOOD)

        def capture(self, *evaluators, **options):
            options = {"escalations": [], "session_idle": 0.4, "llm": self.model, **options}
            return testing.capture(evaluators=list(evaluators), store=str(self.store), **options)

        def talk(self, session, *texts):
            for text in texts:
                with llmeval.workflow("chat", request=text, session_id=session) as span:
                    span.response = f"The answer to {text} is a roof of slate and tin."
            return span.span_id

        def wait(self, captured, count, name=None):
            return until(lambda: len(found := of_sessions(captured, name)) >= count and found)

    return Live()


def of_sessions(captured, name=None):
    return [
        event
        for event in captured.evaluations
        if event.evaluation.metadata.get("scope") == "session"
        and name in (None, event.evaluation.name)
    ]


def test_a_session_is_judged_when_idle_on_its_last_root_span(live):
    """With all free scores; each is marked with its scope and the session."""
    with live.capture("goal_reached") as captured:
        last = live.talk("s1", "one?", "two?", "three?")
        (verdict,) = live.wait(captured, 1, "goal_reached")
        assert verdict.target.span_id == last
        assert verdict.target.span_name == "chat"
        assert verdict.evaluation.value == "yes"
        about = verdict.evaluation.metadata
        assert (about["scope"], about["session_id"], about["period"]) == ("session", "s1", 1)
        assert about["session_turns"] == 3
        names = {event.evaluation.name for event in of_sessions(captured)}
        assert names == {
            "goal_reached", "repetition", "unanswered_questions", "turn_count", "session_seconds",
        }  # fmt: skip
        assert live.model.calls[0][-1].content.count("The answer to") == 3
        stats = captured.drain()
        assert stats.sessions["turns"] == 3
        assert stats.sessions["evaluated"] == 1
        assert stats.judged["goal_reached"] == 1


def test_turns_are_in_the_file_once_the_app_has_flushed(live, monkeypatch):
    """Whoever comes after a killed process finds them, also those of a burst."""
    monkeypatch.setattr(Sessions, "study", lambda _: False)  # or it writes them a moment later
    with live.capture("goal_reached") as captured:
        live.talk("s1", *(f"{turn}?" for turn in range(250)))
        assert captured.drain().complete
        with closing(sqlite3.connect(live.store.with_suffix(".state"))) as database:
            assert database.execute("SELECT count(*) FROM turns").fetchone() == (250,)


def test_a_flush_whose_turns_cannot_be_written_is_not_complete(live, monkeypatch):
    """They wait in memory until the file is free; until then, a killed process loses them."""
    monkeypatch.setattr(Sessions, "study", lambda _: False)
    with live.capture("goal_reached"):
        live.talk("s1", "one?")
        assert llmeval.flush().complete
        live.talk("s1", "two?")
        with closing(sqlite3.connect(live.store.with_suffix(".state"))) as database:
            database.execute("BEGIN EXCLUSIVE")
            assert not llmeval.flush().complete
            database.rollback()
        assert llmeval.flush().complete
        with closing(sqlite3.connect(live.store.with_suffix(".state"))) as database:
            assert database.execute("SELECT count(*) FROM turns").fetchone() == (2,)


def test_a_flush_that_broke_off_is_not_complete(live, monkeypatch):
    """An error in a plugin is counted, and does not pass for a flush that did its work."""

    def fail(_):
        raise RuntimeError("broken")

    monkeypatch.setattr(Sessions, "flush", fail)
    with live.capture("goal_reached"):
        shield.raise_again(False)  # as in an app: the test kit would raise it in the worker
        live.talk("s1", "one?")
        assert not llmeval.flush().complete
        assert llmeval.stats().problems["plugins"] >= 1


def test_a_session_that_resumes_is_judged_again_and_the_history_stays(live):
    """The store lists both; the newest counts."""
    with live.capture("goal_reached", exporters=[_local(live.store)]) as captured:
        live.talk("s1", "one?")
        live.wait(captured, 1, "goal_reached")
        live.talk("s1", "two?")
        first, second = live.wait(captured, 2, "goal_reached")
        captured.drain()
    assert [event.evaluation.metadata["period"] for event in (first, second)] == [1, 2]
    assert first.id != second.id
    with StoreReader(live.store) as reader:
        (session,) = stored_sessions(reader, "s1")
        assert stored_sessions(reader, "other") == []
    verdicts = [e for e in session.history if e.evaluation.name == "goal_reached"]
    assert [event.evaluation.metadata["period"] for event in verdicts] == [2, 1]
    assert session.newest["goal_reached"].evaluation.metadata["period"] == 2
    assert session.newest["turn_count"].evaluation.value == 2.0


def _local(store):
    from llmeval_sdk import config
    from llmeval_sdk.registry import exporter_factory

    return exporter_factory("local")(config.from_environment(store=str(store)))


def test_an_app_that_asks_for_no_evaluator_of_sessions_pays_nothing(live):
    """No file, no score, nothing kept, whatever session ids it sets."""
    with live.capture("relevance_to_query") as captured:
        live.talk("s1", "one?", "two?")
        stats = captured.drain()
    assert not live.store.with_suffix(".state").exists()
    assert stats.sessions == {}
    assert not {"turn_count", "repetition"} & {e.evaluation.name for e in captured.evaluations}


def test_evaluators_of_sessions_do_not_run_on_requests_nor_in_the_callers_thread(live):
    """They see whole conversations, on threads of ours."""
    seen = []

    @llmeval.heuristic(per="session")
    def own_score(record):
        seen.append((len(record.steps), threading.current_thread()))
        return 1.0

    @llmeval.judge(per="session")
    def own_judge(record, llm):
        seen.append((len(record.steps), threading.current_thread()))
        return True

    with live.capture(own_judge) as captured:
        live.talk("s1", "one?", "two?")
        live.wait(captured, 1, "own_judge")
        live.wait(captured, 1, "own_score")
        assert captured.scores()["own_judge"].metadata["session_id"] == "s1"
    assert [steps for steps, _ in seen] == [4, 4]
    assert threading.current_thread() not in {thread for _, thread in seen}


def test_sampling_is_by_session(live):
    """A session is judged in all of its periods or in none."""
    rules = [llmeval.SamplingRule(0.5, evaluator="goal_reached")]
    with live.capture("goal_reached", sampling_rules=rules) as captured:
        for _ in range(2):
            for number in range(30):
                live.talk(f"s{number}", "one?")
            done = len(of_sessions(captured, "turn_count"))
            live.wait(captured, done + 30, "turn_count")
        captured.drain()
    judged = [e.evaluation.metadata["session_id"] for e in of_sessions(captured, "goal_reached")]
    not_run = [item for item in captured.not_run if item.evaluator == "goal_reached"]
    assert {item.reason for item in not_run} == {"not_sampled"}
    assert len(judged) + len(not_run) == 60
    assert 5 <= len(set(judged)) <= 25
    assert all(judged.count(session) == 2 for session in judged)


def decisions_of(captured):
    """Return the sessions that a judge saw, and those that it did not, once for each decision."""
    judged = [e.evaluation.metadata["session_id"] for e in of_sessions(captured, "goal_reached")]
    left_out = [item for item in captured.not_run if item.evaluator == "goal_reached"]
    assert {item.reason for item in left_out} <= {"not_escalated"}
    return judged, left_out


def test_a_share_is_one_of_sessions_and_not_of_their_turns(live):
    """One decision for each session, by its own score: of sessions with many turns, the longest."""
    rule = llmeval.Escalation("goal_reached", share=0.25, by="turn_count", control_rate=0.0)
    with live.capture(escalations=[rule]) as captured:
        for number in range(80):
            live.talk(f"s{number}", *(["one?"] * (1 + number % 4)))
        live.wait(captured, 80, "turn_count")
        captured.drain()
    judged, left_out = decisions_of(captured)
    assert len(judged) + len(left_out) == len(set(judged)) + len(left_out) == 80
    assert 12 <= len(judged) <= 28
    longest = sum(int(session[1:]) % 4 == 3 for session in judged)
    assert longest / len(judged) > 0.5


def test_a_random_share_draws_each_session_once(live):
    """Whoever is drawn is judged at all of its pauses, on whatever host and after any restart."""
    rule = llmeval.Escalation("goal_reached", share=0.4)
    with live.capture(escalations=[rule]) as captured:
        for period in range(1, 3):
            for number in range(30):
                live.talk(f"s{number}", "one?")
            live.wait(captured, 30 * period, "turn_count")
        captured.drain()
    judged, left_out = decisions_of(captured)
    assert len(judged) + len(left_out) == 60
    assert 4 <= len(set(judged)) <= 20
    assert all(judged.count(session) == 2 for session in judged)


def test_escalation_is_by_the_free_scores_of_the_session(live):
    """Only the sessions that look bad cost anything."""
    rule = llmeval.Escalation("goal_reached", when=llmeval.above("turn_count", 1.5))
    with live.capture(escalations=[rule]) as captured:
        live.talk("short", "one?")
        live.talk("long", "one?", "two?")
        live.wait(captured, 2, "turn_count")
        live.wait(captured, 1, "goal_reached")
        captured.drain()
    (verdict,) = of_sessions(captured, "goal_reached")
    assert verdict.evaluation.metadata["session_id"] == "long"
    assert [item.reason for item in captured.not_run if item.evaluator == "goal_reached"] == [
        "not_escalated"
    ]


def test_judging_sessions_keeps_to_the_budget(live):
    """What it does not allow is counted, and the session is dealt with."""
    budget = llmeval.Budget(calls_per_minute=1)
    with live.capture("goal_reached", budget=budget, judge_timeout=1.0) as captured:
        for number in range(4):
            live.talk(f"s{number}", "one?")
        live.wait(captured, 4, "turn_count")
        captured.drain()
    assert len(of_sessions(captured, "goal_reached")) == 1
    assert {item.reason for item in captured.not_run} == {"over_budget"}


def test_a_decision_model_answers_for_a_session(live):
    """In the place of the judge, where one is configured."""
    from llmeval_sdk.model import Answer, Decision

    class Decides:
        model = "small"

        async def decide(self, data, questions, /, **_):
            answers = {
                question.name: Answer(
                    {"yes": 0.9, "no": 0.1}
                    if question.type == "yes_no"
                    else {option.value: 1 / len(question.options) for option in question.options}
                )
                for question in questions
            }
            return Decision(answers, "small")

    with live.capture("goal_reached", decisions=Decides(), llm=None) as captured:
        live.talk("s1", "one?")
        (verdict,) = live.wait(captured, 1, "goal_reached")
    assert verdict.evaluation.evaluator_kind == "decision"
    assert verdict.evaluation.probability == pytest.approx(0.9)
    assert verdict.evaluation.metadata["session_id"] == "s1"


def test_what_is_redacted_or_kept_at_home_is_not_in_the_file(live):
    """The file of sessions holds what exporters may have, and no more."""
    secret = "sk-proj-" + "a1B2c3D4" * 6
    with live.capture("goal_reached", redact=None) as captured:
        live.talk("s1", f"my key is {secret}?")
        live.wait(captured, 1, "goal_reached")
        captured.drain()
    with live.capture("goal_reached", capture_content=False) as captured:
        live.talk("s2", "a private matter?")
        live.wait(captured, 1, "turn_count")
        captured.drain()
    reasons = {(item.evaluator, item.reason) for item in captured.not_run}
    assert ("goal_reached", "missing_inputs") in reasons
    with closing(sqlite3.connect(live.store.with_suffix(".state"))) as database:
        (held,) = database.execute("SELECT group_concat(text) FROM turns").fetchone()
    assert secret not in held
    assert "private matter" not in held


def test_an_evaluator_that_fails_costs_only_itself(live):
    """The session is dealt with, and its other scores are there."""

    @llmeval.heuristic(per="session")
    def broken(record):
        raise ValueError("no")

    with live.capture("goal_reached", raise_again=False) as captured:
        live.talk("s1", "one?")
        live.wait(captured, 1, "goal_reached")
        captured.drain()
    scores = {event.evaluation.name: event.evaluation for event in of_sessions(captured)}
    assert scores["broken"].error.type == "ValueError"
    assert scores["turn_count"].value == 1.0


def test_with_a_damaged_file_sessions_are_kept_in_memory(live):
    """It stays as it is, and the failure is counted."""
    state = live.store.with_suffix(".state")
    state.write_bytes(b"SQLite format 3\0" + b"and then no database" * 99)
    state.chmod(0o600)
    with live.capture("goal_reached", raise_again=False) as captured:
        live.talk("s1", "one?")
        live.wait(captured, 1, "turn_count")
        stats = captured.drain()
    assert stats.sessions["file failed"] == 1
    assert b"and then no database" in state.read_bytes()


def test_somebodys_own_file_is_left_alone(live):
    """Memory serves instead, and the failure is counted."""
    state = live.store.with_suffix(".state")
    notes = b"not a database, but somebody's notes" * 99
    state.write_bytes(notes)
    state.chmod(0o600)
    with live.capture("goal_reached", raise_again=False) as captured:
        live.talk("s1", "one?")
        live.wait(captured, 0)
        live.talk("s1", "two?")
        live.wait(captured, 1, "turn_count")
        stats = captured.drain()
    assert stats.sessions["file failed"] >= 1
    assert state.read_bytes() == notes


def test_a_database_of_another_program_is_left_alone(live):
    """Memory serves instead, and the failure is counted."""
    state = live.store.with_suffix(".state")
    with closing(sqlite3.connect(state)) as database, database:
        database.execute("CREATE TABLE precious (value)")
    state.chmod(0o600)
    with live.capture("goal_reached", raise_again=False) as captured:
        live.talk("s1", "one?")
        live.wait(captured, 0)
        live.talk("s1", "two?")
        live.wait(captured, 1, "turn_count")
        stats = captured.drain()
    assert stats.sessions["file failed"] >= 1
    with closing(sqlite3.connect(state)) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
