"""One share over extractions and answers: each by its own risk, and nobody's for empty answers."""

import random

import pytest

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.model import Evaluation


def scores(**values):
    return {name: Evaluation(name, value) for name, value in values.items()}


def admitted(escalation, records):
    """Return which records are admitted, by their place in the stream."""
    quota = Quota(escalation.share, escalation.control)
    return [
        place
        for place, record in enumerate(records)
        if escalation.decide(record, f"{place:032x}", quota).run
    ]


def test_two_kinds_of_records_share_one_budget_by_rank():
    """Risks of extractions lie far below those of answers here, and get their part all the same."""
    draw = random.Random(3)
    records = [
        scores(extraction_risk=draw.random() / 100, groundedness_risk=draw.random())
        if place % 2
        else scores(groundedness_risk=0.5 + draw.random() / 2)
        for place in range(4_000)
    ]
    taken = admitted(Escalation("j", share=0.2, control_rate=0.02), records)
    extractions = sum(place % 2 for place in taken)
    assert 0.19 <= len(taken) / len(records) <= 0.21
    assert 0.45 <= extractions / len(taken) <= 0.55
    risks = sorted(r["extraction_risk"].value for r in records if "extraction_risk" in r)
    chosen = [records[place]["extraction_risk"].value for place in taken if place % 2]
    assert sum(risk >= risks[int(0.75 * len(risks))] for risk in chosen) > 0.8 * len(chosen)


def test_an_extraction_goes_by_its_own_risk_although_it_has_a_context():
    """The explanation names the score that decided."""
    both = scores(extraction_risk=0.9, groundedness_risk=0.1)
    why = Escalation("j", share=0.2).decide(both, "t").why
    assert why.startswith("extraction_risk")
    why = Escalation("j", share=0.2).decide(scores(groundedness_risk=0.1), "t").why
    assert why.startswith("groundedness_risk")


def test_an_empty_answer_is_never_judged_by_share():
    """Only a rule that names `abstention_risk` asks about it."""
    empty = scores(abstention_risk=0.99, retrieval_risk=0.9)
    assert admitted(Escalation("j", share=0.9), [empty] * 200) == []
    decision = Escalation("j", share=0.9).decide(empty, "t")
    assert decision.probability == 0
    assert "no value" in decision.why
    assert len(admitted(Escalation("j", share=0.9, by="abstention_risk"), [empty] * 200)) > 150


@pytest.mark.parametrize(("of", "kind"), [("extractions", 1), ("answers", 0)])
def test_a_share_can_be_of_one_kind_only(of, kind):
    """Two judges divide the traffic, each with its own share of its own records."""
    records = [
        scores(extraction_risk=place / 1_000)
        if place % 2
        else scores(groundedness_risk=place / 1_000)
        for place in range(1_000)
    ]
    taken = admitted(Escalation("j", share=0.2, of=of), records)
    assert {place % 2 for place in taken} == {kind}
    assert 80 <= len(taken) <= 130


def test_an_extraction_whose_risk_failed_is_judged_at_random():
    """An error is no low risk."""
    from llmeval_sdk.model import Failure

    failed = {"extraction_risk": Evaluation("extraction_risk", error=Failure("too_large"))}
    assert 20 < len(admitted(Escalation("j", share=0.2), [failed] * 200)) < 60


def test_a_share_is_of_extractions_or_of_answers():
    """Nothing else is taken."""
    with pytest.raises(ConfigurationError, match="'extractions' or 'answers'"):
        Escalation("j", share=0.2, of="both")


def test_invoices_with_long_lists_leave_short_ones_their_share():
    """The number of fields that an answer's score was taken over stands in its metadata."""
    draw = random.Random(8)
    records = []
    for place in range(4_000):
        count = 40 if place % 2 else 2
        worst = max(draw.random() for _ in range(count))
        made = Evaluation("extraction_risk", worst, metadata={"fields_checked": count})
        records.append({"extraction_risk": made})
    taken = admitted(Escalation("j", share=0.2, control_rate=0.02), records)
    assert 0.45 <= sum(place % 2 for place in taken) / len(taken) <= 0.55
