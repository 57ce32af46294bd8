"""The gate: one judge, one record, every reason in order."""

from __future__ import annotations

import json

import pytest

from llmeval_sdk.evaluation.admission import Admitted, Refused
from llmeval_sdk.evaluation.escalation import STREAMS, Escalation, JudgeGate, below
from llmeval_sdk.evaluation.json_rules import parse_rules
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.statistics.reasons import NOT_RUN_REASONS


class Polite(BaseJudge):
    needs = ("request", "response")

    def __init__(self, name="polite"):
        self.name = name

    async def evaluate(self, record, llm, /):
        raise NotImplementedError


JUDGE = Polite()


def record(number=0, **fields):
    given = {"request": "q", "response": "a", "span_name": "answer"}
    return Record(**given | {"trace_id": f"{number:032x}", "span_id": f"{number:016x}"} | fields)


def rules(*entries):
    return parse_rules(json.dumps(entries))


def said(**scores):
    return {name: Evaluation(name, score) for name, score in scores.items()}


LOW = Escalation("polite", when=below("x", 0.5))


def test_a_judge_that_nothing_holds_back_runs():
    """Without rules and escalations every record is judged, with certainty."""
    assert JudgeGate().decide(JUDGE, record(), {}) == Admitted(1.0, "every record")


def test_the_reasons_come_in_order():
    """Each hurdle is met only after those before it."""
    gate = JudgeGate(rules({"sample_rate": 0}), [LOW])
    refused = [
        gate.decide(JUDGE, record(response=None), said(x=0.9), off="no_judge_model"),
        gate.decide(JUDGE, record(), said(x=0.9), off="no_judge_model"),
        gate.decide(JUDGE, record(), said(x=0.9)),
        gate.decide(JUDGE, record(), said(x=0.1)),
    ]
    reasons = [each.reason for each in refused]
    assert reasons == ["missing_inputs", "no_judge_model", "not_escalated", "not_sampled"]
    assert reasons == sorted(reasons, key=NOT_RUN_REASONS.index)
    assert "response" in refused[0].detail
    assert refused[2].detail == "x 0.90 >= 0.5"


def test_a_judge_that_cannot_run_says_what_is_missing():
    """The setting, where one is missing; else that it is switched off."""
    unnamed = JudgeGate().decide(JUDGE, record(), {}, off="no_judge_model")
    assert "LLMEVAL_JUDGE_MODEL" in unnamed.detail
    off = JudgeGate().decide(JUDGE, record(), {}, off="circuit_open")
    assert off == Refused("circuit_open", "polite is switched off")


def test_a_judge_whose_escalations_are_about_other_tags_is_not_asked():
    """It says so, whatever the scores are."""
    other = Escalation("polite", when=below("x", 0.5), where={"tag:tenant": "acme"})
    refused = JudgeGate(None, [other]).decide(JUDGE, record(), said(x=0.1))
    assert refused == Refused("not_escalated", "no escalation is about its tags")


def test_rules_apply_to_escalated_judges_too():
    """A judge with an escalation runs when it is escalated and the rules let it."""
    gate = JudgeGate(rules({"sample_rate": 0.5, "evaluator": "polite"}), [LOW])
    decisions = [gate.decide(JUDGE, record(number), said(x=0.1)) for number in range(2000)]
    admitted = [each for each in decisions if isinstance(each, Admitted)]
    assert abs(len(admitted) / 2000 - 0.5) < 0.06
    assert {each.probability for each in admitted} == {0.5}
    assert admitted[0].why == "x 0.10 < 0.5; sample_rate 0.5"


def test_the_chance_is_the_product():
    """Control sample and sampling rule draw independently."""
    control = Escalation("polite", when=below("x", 0.5), control_rate=0.4)
    gate = JudgeGate(rules({"sample_rate": 0.5}), [control])
    decisions = [gate.decide(JUDGE, record(number), said(x=0.9)) for number in range(4000)]
    admitted = [each for each in decisions if isinstance(each, Admitted)]
    assert {each.probability for each in admitted} == {0.2}
    assert abs(len(admitted) / 4000 - 0.2) < 0.03


def test_any_of_several_escalations_is_enough():
    """A judge named twice is asked when either says so, with the chance of either."""
    first = Escalation("polite", when=below("x", 0.5), control_rate=0.1)
    second = Escalation("polite", when=below("y", 0.5), control_rate=0.3)
    gate = JudgeGate(None, [first, second])
    assert gate.names("polite") == {"x", "y"}
    assert gate.names("other") == frozenset()
    assert gate.decide(JUDGE, record(), said(x=0.9, y=0.1)) == Admitted(
        1.0, "y 0.10 < 0.5", escalated=True
    )
    decisions = [gate.decide(JUDGE, record(n), said(x=0.9, y=0.9)) for n in range(3000)]
    admitted = [each for each in decisions if isinstance(each, Admitted)]
    assert {each.probability for each in admitted} == {0.3}
    assert abs(len(admitted) / 3000 - 0.3) < 0.04


def test_an_escalation_of_another_judge_changes_nothing():
    """Only the named judge waits for its escalation."""
    gate = JudgeGate(None, [LOW])
    assert isinstance(gate.decide(Polite("safety"), record(), {}), Admitted)
    assert gate.decide(JUDGE, record(), {}).reason == "not_escalated"


def test_each_span_name_has_its_own_quantile():
    """A span whose answers are all risky does not use up the budget of another."""
    gate = JudgeGate(None, [Escalation("polite", share=0.2, by="risk")])
    spent = {"calm": 0, "wild": 0}
    for number in range(4000):
        name = ("calm", "wild")[number % 2]
        risk = number * 0.6180339887 % 1 * 0.1 + (name == "wild")
        decision = gate.decide(JUDGE, record(number, span_name=name), said(risk=risk))
        spent[name] += isinstance(decision, Admitted)
    assert all(0.18 < count / 2000 < 0.22 for count in spent.values())


def test_span_names_without_end_share_one_quantile():
    """Names that carry ids cost bounded memory and still keep the budget."""
    gate = JudgeGate(None, [Escalation("polite", share=0.2, by="risk")])
    admitted = 0
    for number in range(3000):
        risk = number * 0.6180339887 % 1
        seen = gate.decide(JUDGE, record(number, span_name=f"job-{number}"), said(risk=risk))
        admitted += isinstance(seen, Admitted)
    assert len(gate._quotas) <= STREAMS + 1
    assert abs(admitted / 3000 - 0.2) < 0.03


def test_a_gate_that_knows_the_past_ranks_at_once():
    """The scores of an earlier process end the warm-up of their span."""
    gate = JudgeGate(None, [Escalation("polite", share=0.2, by="risk")])
    gate.warm("polite", "answer", "risk", [i / 100 for i in range(100)])
    assert gate.decide(JUDGE, record(), said(risk=0.99)).probability == 1.0
    assert "top" in gate.decide(JUDGE, record(1), said(risk=0.99)).why


def test_broken_rules_are_named_in_the_refusal():
    """Whoever asks why nothing runs is told that the rules could not be read."""
    refused = JudgeGate(parse_rules("{")).decide(JUDGE, record(), {})
    assert isinstance(refused, Refused)
    assert "not JSON" in refused.detail


@pytest.mark.parametrize("fields", [{"trace_id": None}, {"trace_id": None, "span_id": None}])
def test_a_record_without_ids_is_decided_as_well(fields):
    """A missing identity draws afresh and never fails."""
    control = Escalation("polite", when=below("x", 0.5), control_rate=0.5)
    gate = JudgeGate(rules({"sample_rate": 0.5}), [control])
    assert gate.decide(JUDGE, record(**fields), said(x=0.1)).__class__ in (Admitted, Refused)
