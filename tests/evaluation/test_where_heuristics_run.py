"""Where a heuristic runs follows from one rule, whenever the app declares it."""

from __future__ import annotations

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.evaluation.scoring import is_built_in
from llmeval_sdk.judges.adapt import as_evaluator


@pytest.fixture
def declare():
    """Declare a heuristic of the app for the test."""
    names = []

    def make(name, **options):
        names.append(name)
        return llmeval.heuristic(name=name, **options)(lambda record: 1.0)

    yield make
    for name in names:
        registry.forget(name)


def scores(seen):
    """What heuristics said about one request, at the end of the call and later."""
    with llmeval.workflow("answer", request="roof?") as span:
        span.annotate(response="slate")
    at_once = set(span.evaluations)
    seen.drain()
    return at_once, set(seen.scores("answer"))


@pytest.mark.parametrize("declared", ["before", "after"])
@pytest.mark.parametrize(
    ("heuristics", "at_once", "in_all"),
    [
        ("inline", {"quick"}, {"quick", "slow"}),
        ("background", set(), {"quick", "slow"}),
        ("off", set(), set()),
    ],
)
def test_the_setting_holds_for_heuristics_of_the_app(
    declare, declared, heuristics, at_once, in_all
):
    """A heuristic runs at the same place whether it is declared before configure() or after."""

    def both():
        declare("quick", inline=True)
        declare("slow")

    if declared == "before":
        both()
    with testing.capture(heuristics=heuristics, escalations=[]) as seen:
        if declared == "after":
            both()
        first, later = scores(seen)
    assert (first & {"quick", "slow"}, later & {"quick", "slow"}) == (at_once, in_all)


def test_one_that_the_settings_name_runs_although_heuristics_are_off(declare, monkeypatch):
    """Asked for by name, a heuristic runs in the background, also when it is declared late."""
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "quick,context_relevance")
    with testing.capture(heuristics="off", escalations=[]) as seen:
        declare("quick", inline=True)
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(
                response="slate", retrieved_context=[{"content": "a slate roof", "score": 0.9}]
            )
        assert not span.evaluations
        seen.drain()
        assert set(seen.scores("answer")) == {"context_relevance", "quick"}


@pytest.mark.parametrize("name", registry.installed([*registry.heuristics(), *registry.expected()]))
def test_heuristics_of_ours_are_known_as_such(name):
    """Those of plugins too: each record spares the copy and the thread that an app's needs."""
    assert is_built_in(registry.evaluator(name))


def test_a_heuristic_of_the_app_is_not_one_of_ours(declare):
    """It runs on a copy of the record, and in the background on a thread with a deadline."""
    assert not is_built_in(declare("theirs"))


def test_an_adapter_of_ours_says_that_it_runs_code_of_the_app():
    """A function of a record is the app's code, although the object around it is ours."""

    def theirs(record):
        return 1.0

    assert not is_built_in(as_evaluator(theirs))
