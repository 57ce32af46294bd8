"""The arithmetic of who was judged and why not."""

import pytest

from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.statistics.reasons import (
    FAILED,
    NOT_RUN_REASONS,
    NOT_SELECTED,
    REASONS,
    explain,
    funnel,
)


def test_each_step_holds_the_next():
    """Every reason is taken off at its own step."""
    reasons = {
        "missing_inputs": 100, "not_escalated": 50, "not_sampled": 10, "over_budget": 7,
        "circuit_open": 2, "queue_full": 1, "timeout": 3, "error": 1, "cached": 4,
    }  # fmt: skip
    steps = funnel(20, reasons)
    assert str(steps) == "94 > 34 > 27 > 24 > 20"
    assert steps.reasons == reasons


def test_a_cached_verdict_is_a_score_and_nothing_else():
    """It is told as a score and as a reason; it counts once."""
    assert str(funnel(5, {"cached": 2})) == "5 > 5 > 5 > 5 > 5"


def test_no_reason_is_lost():
    """Each known reason but ``cached`` makes a difference somewhere, or kept a record ineligible."""
    for reason in NOT_RUN_REASONS:
        steps = funnel(1, {reason: 1})
        free = {"cached", "missing_inputs", "no_judge_model"}
        assert (steps.eligible == 2) == (reason not in free)


def test_stats_have_a_funnel_for_each_judge():
    """Also for one that never ran."""
    stats = Stats(judged={"a": 3}, not_run={"a": {"not_escalated": 7}, "b": {"over_budget": 1}})
    assert {name: str(steps) for name, steps in stats.funnels.items()} == {
        "a": "10 > 3 > 3 > 3 > 3",
        "b": "1 > 1 > 0 > 0 > 0",
    }


@pytest.mark.parametrize("reason", [*NOT_RUN_REASONS, "of a later release"])
def test_each_reason_has_words_and_says_what_to_do(reason):
    """In whole sentences, also where nobody has to do anything."""
    row = explain(reason)
    for words in (row.meaning, row.advice):
        assert words
        assert words[0].isupper() or words.startswith("`")
        assert words.endswith(".")


def test_reasons_fall_into_those_that_chose_and_those_that_failed():
    """A judgement that began and gave nothing is no choice, and the other way round."""
    assert {"not_escalated", "not_sampled"} <= NOT_SELECTED
    assert {"timeout", "error"} <= FAILED
    assert not NOT_SELECTED & FAILED
    assert REASONS.keys() == set(NOT_RUN_REASONS)
