"""Escalation: the cheap score was bad, ask this judge."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.policy.conditions import Condition, Evaluations, below, flagged, score_of
from llmeval_sdk.policy.decisions import EscalationDecision
from llmeval_sdk.policy.draw import escalation_draw
from llmeval_sdk.policy.quota import Quota
from llmeval_sdk.protocols import Judge


CONTROL_RATE = 0.02
"""Share of traffic that budgeted escalation judges at random, inside its budget."""
RISK = "groundedness_risk"


@dataclass(frozen=True, slots=True)
class Escalation:
    """Ask ``judge`` (a name or a judge) when a condition holds, or on the riskiest records.

    Give exactly one of ``when``, a condition made by `below`, `above` and `flagged`, and
    ``budget``, the share of records in 0..1 to judge. A budget goes to the records whose score
    ``by`` (default ``groundedness_risk``) is highest. ``control_rate`` is the share of all other
    records that are judged as well, at random, so that averages can be corrected; it defaults to 0
    with ``when`` and, inside the budget, to 2 % of traffic (a quarter of the budget if less).

    Raises:
        ConfigurationError: an argument cannot be used; the message says what to write instead.
    """

    judge: str | Judge
    _: KW_ONLY
    when: Condition | None = None
    control_rate: float | None = None
    budget: float | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        _check_judge(self.judge)
        if self.when is None and self.budget is None:
            raise ConfigurationError(
                f"Escalation({self.name!r}) needs when=below(...) or budget=0.2"
            )
        if self.when is not None and (self.budget is not None or self.by is not None):
            raise ConfigurationError(
                f"Escalation({self.name!r}) takes when= or budget= with by=, not both kinds"
            )
        if self.when is not None and not isinstance(self.when, Condition):
            raise ConfigurationError(
                f"Escalation({self.name!r}): when= is made by below, above and flagged,"
                f" not {self.when!r}"
            )
        if self.by is not None and not (isinstance(self.by, str) and self.by):
            raise ConfigurationError(
                f"Escalation({self.name!r}): by= is a heuristic's name, not {self.by!r}"
            )
        _check_share(self.name, "control_rate", self.control_rate, lowest=0.0)
        if self.budget is not None:
            _check_share(self.name, "budget", self.budget, lowest=1e-6)
            if self.control > self.budget:
                raise ConfigurationError(
                    f"Escalation({self.name!r}): the control sample is taken inside the budget,"
                    f" so control_rate={self.control:g} must not exceed budget={self.budget:g}"
                )

    @property
    def name(self) -> str:
        """The judge's name."""
        return self.judge if isinstance(self.judge, str) else self.judge.name

    @property
    def control(self) -> float:
        """The control rate in force."""
        if self.control_rate is not None:
            return self.control_rate
        return 0.0 if self.budget is None else min(CONTROL_RATE, self.budget / 4)

    @property
    def risk(self) -> str:
        """Name of the score that a budget goes by."""
        return self.by or RISK

    def names(self) -> frozenset[str]:
        """Return the evaluators that this reads: they have to run before it can decide."""
        return frozenset((self.risk,)) if self.when is None else self.when.names()

    def decide(
        self, evaluations: Evaluations, key: str | None, quota: Quota | None = None
    ) -> EscalationDecision:
        """Decide whether to ask the judge about one record.

        ``key`` identifies the record (its trace id, or trace and span id): the same key draws the
        same. Without its ``quota``, a budget is spent at random.
        """
        if self.budget is not None:
            quota = quota or Quota(self.budget, self.control)
            decision = quota.decide(score_of(evaluations.get(self.risk)), key)
            why = f"{self.risk} {decision.why}"
            return EscalationDecision(decision.run, decision.probability, why)
        assert self.when is not None
        why = self.when.explain(evaluations)
        if self.when.holds(evaluations):
            return EscalationDecision(run=True, probability=1.0, why=why)
        control = self.control
        if control > 0 and escalation_draw(key) < control:
            return EscalationDecision(True, control, f"control sample of {control:.3g}: {why}")
        return EscalationDecision(run=False, probability=control, why=why)


def default_escalation(threshold: float = 0.7) -> Escalation:
    """Make the rule for extraction records: low or cut-off recall asks ``context_recall_llm``."""
    low = below("context_recall_heuristic", threshold)
    cut_off = flagged("recall_warning", "HIT_RETRIEVAL_LIMIT")
    return Escalation("context_recall_llm", when=low | cut_off)


def _check_judge(judge: Any) -> None:
    name = judge if isinstance(judge, str) else getattr(judge, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"Escalation takes a judge or its name first, not {judge!r}")
    if getattr(judge, "kind", "judge") != "judge":
        raise ConfigurationError(
            f"{name!r} is a heuristic and runs on every record: only judges are escalated to"
        )


def _check_share(judge: str, option: str, share: Any, *, lowest: float) -> None:
    if share is None:
        return
    if not isinstance(share, Real) or isinstance(share, bool) or not lowest <= float(share) <= 1:
        above = "0" if lowest == 0 else "above 0"
        raise ConfigurationError(
            f"Escalation({judge!r}): {option} is a share from {above} to 1, not {share!r}"
        )
