"""Of a session that was judged again after a pause, the newest verdict counts, everywhere."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from viewer_store import Store

from llmeval_sdk.model import HOUR_NS, Usage
from llmeval_sdk.plugins.watch import look
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.populations import SharedReadings, by_group, overall
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, recent_evaluations
from llmeval_sdk.store.selection import Selection
from llmeval_sdk.store.sessions import stored_sessions
from llmeval_sdk.store.span_lists import Query, list_page
from llmeval_sdk.store.verdicts_by_hour import Wanted, hours


NOW = time.time_ns() // HOUR_NS * HOUR_NS
VERDICTS = {"alone": ["no"], "resumed": ["no", "no", "yes"]}
"""What a judge said of two sessions, after each of their pauses."""


@pytest.fixture
def reader(tmp_path):
    """A store with two sessions, of which one was judged after each of its three pauses."""
    store = Store(tmp_path / "llmeval.db")
    for session, verdicts in VERDICTS.items():
        for period, verdict in enumerate(verdicts, 1):
            turn = store.span(
                session_id=session, start_ns=NOW + period * 10**9, tags={"release": "1"}
            )
            marks = {"scope": "session", "session_id": session, "period": period}
            about = {"inclusion_probability": 1.0, "metadata": marks}
            paid = {"evaluator_kind": "judge", "usage": Usage(10, 1, 11, 0.01)}
            said = store.score(turn, "goal_reached", verdict, **paid, **about)
            counted = store.score(turn, "repetition", period / 10, **about)
            store.write(spans=[turn], evaluations=[said, counted])
    with closing(store), StoreReader(store.path) as opened:
        yield opened


def test_a_report_counts_each_session_once(reader):
    """One session failed and one reached its goal, however often each was judged."""
    (summary,) = SharedReadings(reader).summaries(EvaluationScope(evaluator="goal_reached"))
    assert summary.categories == {"no": 1, "yes": 1}
    assert summary.mean == 0.5
    assert summary.total_tokens == 44
    assert summary.cost_usd == pytest.approx(0.04)
    (summary,) = SharedReadings(reader).summaries(EvaluationScope(evaluator="repetition"))
    assert summary.count == sum(summary.histogram) == 2
    assert summary.mean == pytest.approx(0.2)
    everything = SharedReadings(reader).summaries(EvaluationScope())
    assert {each.evaluator: each.count for each in everything} == {
        "goal_reached": 2, "repetition": 2,
    }  # fmt: skip


def test_an_estimate_counts_each_session_once(reader):
    """So does the mean over all traffic, with its interval."""
    whole = overall(reader, EvaluationScope(), SharedReadings(reader), "goal_reached")
    assert whole.funnel.scored == 2
    assert whole.mean == 0.5
    assert whole.cost_usd == pytest.approx(0.04)  # what former verdicts cost was spent as well


def test_the_viewers_figures_count_each_session_once(reader):
    recent = reader.read(lambda c: recent_evaluations(c, "goal_reached", None, judge=True))
    assert sorted(recent.values) == ["no", "yes"]
    recent = reader.read(lambda c: recent_evaluations(c, "repetition", None))
    assert sorted(recent.values) == [0.1, 0.3]


def test_an_alert_counts_each_session_once(reader):
    wanted = Wanted("goal_reached")
    ((_, hour),) = reader.read(lambda c: list(hours(c, wanted, NOW, NOW + HOUR_NS)))
    assert sorted(seen.value for seen in hour.seen) == [0.0, 1.0]


def test_the_examples_of_an_alarm_are_no_former_verdicts(reader):
    alert = AlertState.begun(Bound("goal_reached", "<", 0.9), 0)
    alert.cursor_ns = NOW + HOUR_NS
    worst = look._worst(reader, alert, 0, "http://viewer")
    assert sorted(one["value"] for one in worst) == [0.0, 1.0]


def test_versions_compare_sessions_that_count_once(reader):
    selection = Selection(by=("release",))
    with (
        closing(selection),
        StoreReader(Path(reader.location), selection=selection) as grouped,
    ):
        measured = by_group(grouped, EvaluationScope(evaluator="goal_reached"), None)
    assert [(one.group, one.funnel.scored) for one in measured] == [("1", 2)]


def test_a_list_shows_a_session_by_the_verdict_that_counts(reader):
    """The former verdicts on a session that reached its goal in the end find nothing."""
    said_no = Query(evaluator="goal_reached", verdict="no")
    page = reader.read(lambda c: list_page(c, said_no))
    assert [item.session_id for item in page.items] == ["alone"]
    lowest = Query(order="highest", order_by="repetition")
    page = reader.read(lambda c: list_page(c, lowest))
    assert [item.session_id for item in page.items] == ["resumed", "alone"]


def test_the_history_stays(reader):
    """All verdicts can be read, with the pause after which each was given."""
    (session,) = stored_sessions(reader, "resumed")
    assert session.newest["goal_reached"].evaluation.value == "yes"
    said = [event.evaluation for event in session.history if event.evaluation.name[0] == "g"]
    assert [(one.metadata["period"], one.value) for one in said] == [
        (3, "yes"), (2, "no"), (1, "no"),
    ]  # fmt: skip
    assert {one.session_id for one in stored_sessions(reader)} == set(VERDICTS)


def test_in_the_newest_verdicts_a_judge_model_counts_before_a_decision(tmp_path):
    """After one pause both may have answered, and the decision may have come last."""
    store = Store(tmp_path / "llmeval.db")
    turn = store.span(session_id="both")
    marks = {"scope": "session", "session_id": "both", "period": 1}
    said = store.score(turn, "goal_reached", "no", evaluator_kind="judge", metadata=marks)
    guess = store.score(turn, "goal_reached", "yes", evaluator_kind="decision", metadata=marks)
    guess = replace(guess, id="decision", timestamp_ns=said.timestamp_ns + 1)
    store.write(spans=[turn], evaluations=[said, guess])
    with closing(store), StoreReader(store.path) as opened:
        (session,) = stored_sessions(opened)
    assert session.newest["goal_reached"].evaluation.value == "no"


@pytest.mark.parametrize(
    "metadata",
    [
        {"scope": "session"},
        {"scope": "session", "session_id": None},
        {"note": '"scope":"session"', "session_id": "x"},
        {"inner": {"scope": "session"}, "other": '{"session_id":"x"}'},
    ],
)
def test_what_only_looks_like_a_verdict_on_a_session_counts(tmp_path, metadata):
    """Evaluations that name no session replace no other one."""
    store = Store(tmp_path / "llmeval.db")
    turns = [store.span(), store.span()]
    store.write(
        spans=turns,
        evaluations=[store.score(turn, "polite", 0.5, metadata=metadata) for turn in turns],
    )
    with closing(store), StoreReader(store.path) as opened:
        (summary,) = SharedReadings(opened).summaries(EvaluationScope(evaluator="polite"))
    assert summary.count == 2
