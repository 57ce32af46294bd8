"""The risk score learns from this app's own verdicts, in the background, and says so."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from misled_app import judge_model, serve
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.cli import main
from llmeval_sdk.judges.models.callable_llm import CallableLLM
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.learning import background, fits
from llmeval_sdk.plugins.learning.fitting import auroc
from llmeval_sdk.process import shield
from llmeval_sdk.store.frames import Frame
from llmeval_sdk.store.labelling import add_label
from llmeval_sdk.store.state import state_path, text_in
from llmeval_sdk.testing import capture


SHARE = [llmeval.Escalation("groundedness", share=0.2)]
JUDGE_ALL = [llmeval.Escalation("groundedness", share=1.0)]
SETUP = {
    "llm": judge_model,
    "escalations": JUDGE_ALL,
    "learn": True,
    "background_share": 1.0,
    "calls_per_minute": 100_000,
    "tokens_per_minute": 100_000_000,
}


def state_file() -> Path:
    return state_path(config.from_environment(problems=[]).store)


def outcomes(query: str) -> list:
    """Return what the file of state says of outcomes; nothing where they have no table."""
    with closing(sqlite3.connect(state_file())) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'outcomes'").fetchone():
            return []
        return database.execute(query).fetchall()


def states() -> dict:
    """Return how learning stands over all span names, by part, as the file says."""
    parts = fits.parts_of(text_in(state_file(), fits.TEXT))
    return {name: part["groups"][""] for name, part in parts.items()}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Look at the files whenever the worker is idle, and not every 30 seconds."""
    monkeypatch.setattr(background, "SYNC_SECONDS", 0.0)


def candidate() -> dict | None:
    return next((state["candidate"] for state in states().values()), None)


def in_use() -> dict | None:
    return next((state["in_use"] for state in states().values()), None)


def taught(seen) -> None:
    """Serve until learned weights are in use."""
    serve(110)
    seen.drain()
    eventually(candidate, seconds=60)
    serve(60, seed=1)
    seen.drain()
    eventually(in_use, seconds=60)


def risks(seen) -> list:
    return [each for each in seen.evaluations if each.evaluation.name == "groundedness_risk"]


def test_a_risk_score_learns_what_is_bad_in_this_app(capsys):
    """After 170 verdicts the polite endings no longer look risky, and invented years do.

    What decides on a judgement is the score that is recorded, a restarted process begins with what
    was learned, and `doctor` shows it.
    """
    with capture(**SETUP) as seen:
        taught(seen)
    with capture(**{**SETUP, "escalations": SHARE}) as seen:
        bad = dict(serve(150, seed=99))
        seen.drain()
    scored = [event.evaluation for event in risks(seen)]
    labels = [float(bad[event.target.span_id]) for event in risks(seen)]
    (count,) = {each.metadata["learned_from"] for each in scored}
    assert 100 <= count <= 110
    even = [1.0] * len(scored)
    before = auroc([each.metadata["shipped_risk"] for each in scored], labels, even)
    assert auroc([each.value for each in scored], labels, even) > before + 0.1
    by_span = {event.target.span_id: event.evaluation.value for event in risks(seen)}
    verdicts = [event for event in seen.evaluations if event.evaluation.name == "groundedness"]
    assert len(verdicts) > 10
    for event in verdicts:
        assert (
            f"groundedness_risk {by_span[event.target.span_id]:.2f}"
            in (event.evaluation.metadata["why"])
        )
    doctor = main(["doctor", "--all", "--offline"]), capsys.readouterr().out
    told = " ".join(doctor[1].split())
    version = scored[0].metadata["learned"]
    assert f"groundedness_risk/en learned weights {version} in use since" in told
    assert f"from {count} verdicts of groundedness (version 1, judge_model)" in told
    assert re.search(r"AUROC 0\.\d\d before and [01]\.\d\d after on \d\d later verdicts", told)


def test_one_setting_turns_it_off():
    """Nothing is learned, nothing is written, and what was learned does not apply."""
    with capture(**{**SETUP, "learn": False}) as seen:
        serve(20)
        seen.drain()
    assert not state_file().exists() or not outcomes("SELECT 1 FROM outcomes")
    assert all("learned" not in each.evaluation.metadata for each in risks(seen))
    assert len(risks(seen)) == 20


def test_what_was_heard_survives_the_end_of_the_process():
    """A process that ends before the worker looked at the files leaves its verdicts behind."""
    with capture(**SETUP) as seen:
        serve(5)
        seen.drain()
    rows = outcomes("SELECT judge, version, model, span_name, chance FROM outcomes")
    assert rows == [("groundedness", "1", "judge_model", "answer", 1.0)] * 5


def test_rules_that_stand_in_for_a_model_teach_nothing():
    """What they say is no verdict of anybody."""
    with capture(**{**SETUP, "llm": CallableLLM(judge_model, model="stand-in")}) as seen:
        serve(5)
        seen.drain()
    assert seen.scores()["groundedness"].metadata["model"] == "stand-in"
    assert not state_file().exists() or not outcomes("SELECT 1 FROM outcomes")


def test_labels_of_people_are_outcomes_and_clicks_of_users_are_not():
    """A label under the judge's name is a source of its own, whoever judged the record before."""
    with capture(**SETUP) as seen:
        served = serve(4)
        seen.drain()
        for (span_id, bad), source in zip(
            served, ("review", "review", "user", "review"), strict=True
        ):
            trace = next(e.target for e in seen.evaluations if e.target.span_id == span_id)
            llmeval.submit_feedback(
                label="groundedness",
                value="no" if bad else "yes",
                span={"trace_id": trace.trace_id, "span_id": span_id},
                source=source,
            )
        seen.drain()
    rows = outcomes("SELECT span_id, bad FROM outcomes WHERE model = 'people'")
    assert dict(rows) == {
        span_id: float(served[n][1]) for n, (span_id, _) in enumerate(served) if n != 2
    }


def test_labels_that_the_viewer_wrote_are_read_from_the_store():
    """They reach the outcomes although no process of the app heard them."""
    with capture(**SETUP, exporters=["local"]) as seen:
        served = serve(3)
        seen.drain()
        store = config.from_environment(problems=[]).store
        (learning,) = runtime.pipeline().plan.hooks
        for span_id, bad in served:
            span = next(span for span in seen.spans if span.span_id == span_id)
            add_label(
                store,
                "groundedness",
                span,
                value="no" if bad else "yes",
                chance=0.5,
                frame=Frame(),
                by="me",
            )
        eventually(lambda: learning._last_label == 3)
    rows = set(outcomes("SELECT span_id, bad, chance FROM outcomes WHERE model = 'people'"))
    assert rows == {(span_id, float(bad), 0.5) for span_id, bad in served}


def test_an_app_whose_outcomes_cannot_be_written_goes_on():
    """Every record is scored and judged, nothing raises, and the failure is counted."""
    state_file().mkdir(parents=True)
    with capture(raise_again=False, **SETUP) as seen:
        serve(3)
        stats = seen.drain()
        eventually(lambda: shield.caught.snapshot().get("learned weights", 0) >= 1)
    assert stats.judged == {"groundedness": 3}
    assert len(risks(seen)) == 3
    shield.caught.clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_learns_for_itself():
    """It leaves to its parent what that heard, and adds what it hears to the same file."""
    with capture(**SETUP) as seen:
        serve(3)
        seen.drain()
        child = os.fork()
        if child == 0:
            serve(2, seed=7)
            os._exit(0 if runtime.flush(60).complete and runtime.shutdown(30) else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
    assert outcomes("SELECT count(*) FROM outcomes") == [(5,)]
