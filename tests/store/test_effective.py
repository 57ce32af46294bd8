"""One rule for what counts where a decision model and a judge model rated under one name."""

from llmeval_sdk.model import Evaluation, Failure
from llmeval_sdk.store.effective import effective


def of(kind, value=None, error=None):
    return Evaluation("groundedness", value, error=error, evaluator_kind=kind)


DECISION, VERDICT = of("decision", "yes"), of("judge", "no")
FAILED = of("judge", error=Failure("timeout"))


def test_the_judge_model_counts_where_it_answered():
    """Whichever of both came first."""
    assert effective([DECISION, VERDICT]) is effective([VERDICT, DECISION]) is VERDICT


def test_a_failure_of_the_judge_model_keeps_the_decision():
    assert effective([DECISION, FAILED]) is effective([FAILED, DECISION]) is DECISION


def test_of_one_kind_the_latest_counts():
    later = of("judge", "yes")
    assert effective([VERDICT, later]) is later
    assert effective([of("heuristic", 0.1), of("heuristic", 0.2)]).value == 0.2
    assert effective([]) is None
