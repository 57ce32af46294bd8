"""The risk score learns from this app's own verdicts, in the background, and says so."""

from pathlib import Path

import pytest
from misled_app import judge_model, serve
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.learning import background, file
from llmeval_sdk.learning.fit import auroc
from llmeval_sdk.testing import capture


JUDGE_ALL = [llmeval.Escalation("groundedness", share=1.0)]
SETUP = {
    "llm": judge_model,
    "escalations": JUDGE_ALL,
    "learn": True,
    "background_share": 1.0,
    "calls_per_minute": 100_000,
    "tokens_per_minute": 100_000_000,
}


def learned_file() -> Path:
    return Path(config.from_environment(problems=[]).store).with_suffix(".learned")


def courses() -> dict:
    """Return the course over all span names, by part, as the file holds it."""
    parts = file.read(learned_file())
    return {name: part["groups"][""] for name, part in parts.items()}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Look at the files whenever the worker is idle, and not every 30 seconds."""
    monkeypatch.setattr(background, "SYNC_SECONDS", 0.0)


def candidate() -> dict | None:
    return next((course["candidate"] for course in courses().values()), None)


def in_use() -> dict | None:
    return next((course["in_use"] for course in courses().values()), None)


def test_a_risk_score_learns_what_is_bad_in_this_app():
    """After 200 verdicts the polite endings no longer look risky, and invented years do."""
    with capture(**SETUP) as seen:
        serve(110)
        seen.drain()
        eventually(lambda: candidate(), seconds=60)
        serve(60, seed=1)
        seen.drain()
        eventually(lambda: in_use(), seconds=60)
        seen.evaluations.clear()
        bad = dict(serve(150, seed=99))
        seen.drain()
    risks = [e for e in seen.evaluations if e.evaluation.name == "groundedness_risk"]
    labels = [float(bad[event.target.span_id]) for event in risks]
    even = [1.0] * len(risks)
    before = auroc([e.evaluation.metadata["shipped_risk"] for e in risks], labels, even)
    after = auroc([e.evaluation.value for e in risks], labels, even)
    assert after > before + 0.1
    assert {e.evaluation.metadata["learned"] for e in risks} != {None}
