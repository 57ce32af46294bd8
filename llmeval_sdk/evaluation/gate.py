"""The gate: everything that decides from the record itself whether a judge runs on it.

The order is: applicable, enabled, escalated, sampled. What depends on the moment (cached, budget,
breaker, queue) is decided afterwards by the pipeline. `admission.NOT_RUN_REASONS` names the reasons
for all of these decisions.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmeval_sdk.evaluation._quota import Quota
from llmeval_sdk.evaluation.admission import Admitted, NotRunReason, Refused, Ruling
from llmeval_sdk.evaluation.conditions import Evaluations
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.sampling import SamplingRules
from llmeval_sdk.model import Record
from llmeval_sdk.model.fields import lacking
from llmeval_sdk.model.protocols import Judge


STREAMS = 256
"""How many span names have a quota of their own; all further ones share one."""

_OFF = {"no_judge_model": "no model is named: set LLMEVAL_JUDGE_MODEL or configure(llm=…)"}


class JudgeGate:
    """Decides whether a judge runs on a record, and with what chance it was admitted.

    A judge with escalations runs if any of them asks for it *and* the sampling rules admit it, so
    its chance is the product of the two. Escalations draw by span and rules by trace, and the two
    draws are independent.
    """

    __slots__ = ("_escalations", "_quotas", "_rules")

    def __init__(
        self, rules: SamplingRules | None = None, escalations: Iterable[Escalation] = ()
    ) -> None:
        self._rules = rules or SamplingRules()
        self._escalations: dict[str, list[Escalation]] = {}
        self._quotas: dict[tuple[str, int, str | None], Quota] = {}
        for escalation in escalations:
            self._escalations.setdefault(escalation.name, []).append(escalation)

    def names(self, judge: str) -> frozenset[str]:
        """Return the evaluators whose results `decide` needs for a judge."""
        return frozenset().union(*(each.names() for each in self._escalations.get(judge, ())))

    def concerns(self, judge: str, evaluations: Evaluations) -> bool:
        """Say whether any escalation of a judge is about a record; true for a judge without one."""
        escalations = self._escalations.get(judge)
        return not escalations or any(each.concerns(evaluations) for each in escalations)

    @property
    def shares(self) -> frozenset[tuple[str, str]]:
        """The judges that run on a share of the records, each with a score that chooses them."""
        every = (each for escalations in self._escalations.values() for each in escalations)
        return frozenset((each.name, risk) for each in every for risk in each.risks)

    def warm(self, judge: str, span_name: str | None, by: str, scores: Iterable[float]) -> None:
        """Tell the escalations of a judge the recent scores of a span name, oldest first."""
        past = list(scores)
        for place, escalation in enumerate(self._escalations.get(judge, ())):
            quota = self._quota(escalation, place, span_name)
            if quota is not None and by in escalation.risks:
                quota.warm(past, by)

    def decide(
        self,
        judge: Judge,
        record: Record,
        evaluations: Evaluations,
        *,
        off: NotRunReason | None = None,
        everywhere: bool = False,
    ) -> Admitted | Refused:
        """Decide once per judge and record.

        Args:
            judge: the judge that may run.
            record: what it would judge.
            evaluations: what the heuristics said, by name.
            off: why this judge cannot run at all, such as ``no_judge_model``.
            everywhere: whether it is asked about all traffic, whatever its escalations say.
        """
        absent = lacking(judge, record)
        if absent is not None:
            return Refused("missing_inputs", f"the record has no {absent}")
        if off is not None:
            return Refused(off, _OFF.get(off, f"{judge.name} is switched off"))
        escalated = None if everywhere else self._escalate(judge.name, record, evaluations)
        if escalated is not None and not escalated.run:
            return Refused("not_escalated", escalated.why)
        sampled, rate = self._rules.decide(judge.name, record.span_name, record.trace_id)
        if not sampled:
            problems = self._rules.problems
            return Refused(
                "not_sampled", f"sample_rate {rate:g}" + (f" ({problems[0]})" if problems else "")
            )
        if escalated is None:
            return Admitted(rate, f"sample_rate {rate:g}" if rate < 1 else "every record")
        why = escalated.why if rate >= 1 else f"{escalated.why}; sample_rate {rate:g}"
        return Admitted(escalated.probability * rate, why, escalated=True)

    def _escalate(self, judge: str, record: Record, evaluations: Evaluations) -> Ruling | None:
        """Join the escalations of a judge. They share one draw, so the largest chance counts."""
        escalations = self._escalations.get(judge)
        if not escalations:
            return None
        key = f"{record.trace_id}{record.span_id}" if record.trace_id else record.span_id
        return max(
            (
                each.decide(evaluations, key, self._quota(each, place, record.span_name))
                for place, each in enumerate(escalations)
            ),
            key=_certainty,
        )

    def _quota(self, escalation: Escalation, place: int, span_name: str | None) -> Quota | None:
        if escalation.share is None:
            return None
        stream = (escalation.name, place, span_name)
        quota = self._quotas.get(stream)
        if quota is None and len(self._quotas) >= STREAMS:
            stream = (escalation.name, place, None)
            quota = self._quotas.get(stream)
        if quota is None:
            made = Quota(escalation.share, escalation.control)
            quota = self._quotas.setdefault(stream, made)
        return quota


def _certainty(decision: Ruling) -> tuple[bool, float]:
    return decision.run, decision.probability
