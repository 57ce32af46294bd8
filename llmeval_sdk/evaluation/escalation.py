"""`Escalation` and `Cascade`: which judge to ask after a bad score or an uncertain decision."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation._quota import Quota
from llmeval_sdk.evaluation.admission import Ruling
from llmeval_sdk.evaluation.conditions import (
    Condition,
    Evaluations,
    below,
    between,
    flagged,
    score_of,
)
from llmeval_sdk.evaluation.sampling import escalation_draw
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.model.values import ABSTENTION
from llmeval_sdk.statistics.allocation import default_control


EXTRACTION_RISK, ANSWER_RISK = "extraction_risk", "groundedness_risk"
OF = ("extractions", "answers")


@dataclass(frozen=True, slots=True)
class Escalation:
    """Ask ``judge`` (a name or a judge) when a condition holds, or on the riskiest records.

    Give exactly one of ``when`` and ``share``.

    Args:
        judge: The judge, or its name.
        when: A condition made by `below`, `above` and `flagged`.
        control_rate: The part of all other records that is judged as well, at random, so that
            averages can be corrected. With ``when`` it is 0 by default. With ``share`` it is 0.45
            of the share by default, which measures averages twice as exactly as a rate of 0.02
            does and catches a tenth fewer bad records. A rate above 0.05 falls with the risk, but
            never below 0.05.
        share: The part of the records, in 0..1, to judge: those whose risk is highest. Records
            without an answer (`abstention_risk` applies to them) are not among them, unless ``by``
            names that score.
        by: The score that ``share`` goes by. By default each record's own: ``extraction_risk`` for
            one with extractions, else ``groundedness_risk``; both are compared by rank, so an app
            with both kinds spends one share on them together.
        of: ``"extractions"`` or ``"answers"``: ``share`` is of these records only. For two judges
            that divide the traffic between them. With ``when``, records that have none of its
            scores are not told as ``not_escalated``.

    Raises:
        ConfigurationError: An argument cannot be used; the message says what to write instead.

    Examples:
        >>> escalations = [
        ...     llmeval.Escalation("groundedness", share=0.2),
        ...     llmeval.Escalation("safety", when=llmeval.flagged("recall_warning")),
        ... ]
    """

    judge: str | Judge
    _: KW_ONLY
    when: Condition | None = None
    control_rate: float | None = None
    share: float | None = None
    by: str | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        _check_judge(self.judge)
        if self.when is None and self.share is None:
            raise self._mistake("needs when=below(...) or share=0.2")
        if self.when is not None and (self.share, self.by) != (None, None):
            raise self._mistake("takes when= or share= with by=, not both kinds")
        if self.when is not None and not isinstance(self.when, Condition):
            made = "when= is made by below, above and flagged"
            raise self._mistake(f"{made}, not {self.when!r}", mark=":")
        if self.by is not None and not (isinstance(self.by, str) and self.by):
            raise self._mistake(f"by= is a heuristic's name, not {self.by!r}", mark=":")
        if self.of is not None and self.of not in OF:
            raise self._mistake(f"of= is 'extractions' or 'answers', not {self.of!r}", mark=":")
        _check_share(self.name, "control_rate", self.control_rate, lowest=0.0)
        if self.share is not None:
            _check_share(self.name, "share", self.share, lowest=1e-6)
            if self.control > self.share:
                inside = "the control sample is taken inside the share"
                rates = f"control_rate={self.control:g} must not exceed share={self.share:g}"
                raise self._mistake(f"{inside}, so {rates}", mark=":")

    def _mistake(self, words: str, *, mark: str = "") -> ConfigurationError:
        return ConfigurationError(f"Escalation({self.name!r}){mark} {words}")

    @property
    def name(self) -> str:
        """The judge's name."""
        return self.judge if isinstance(self.judge, str) else self.judge.name

    @property
    def control(self) -> float:
        """The control rate that applies, given or by default."""
        if self.control_rate is not None:
            return self.control_rate
        return 0.0 if self.share is None else default_control(self.share)

    @property
    def risks(self) -> tuple[str, ...]:
        """The scores by which a share may choose records; empty with ``when``."""
        if self.share is None:
            return ()
        return (EXTRACTION_RISK, ANSWER_RISK) if self.by is None else (self.by,)

    def names(self) -> frozenset[str]:
        """Return the evaluators that have to run before `decide` can be called."""
        if self.when is not None:
            return self.when.names()
        kinds = () if self.by is not None and self.of is None else (EXTRACTION_RISK, ABSTENTION)
        return frozenset((*self.risks, *kinds))

    def concerns(self, evaluations: Evaluations) -> bool:
        """Say whether it is about a record at all, by the scores that the record has."""
        is_limited = self.when is not None and self.of is not None
        return not is_limited or not self.names().isdisjoint(evaluations)

    def decide(
        self, evaluations: Evaluations, key: str | None, quota: Quota | None = None
    ) -> Ruling:
        """Decide whether to ask the judge about one record.

        ``key`` identifies the record by its trace id, or by its trace and span id; the same key
        always gives the same draw. Without a ``quota``, a share picks records at random.
        """
        if self.share is not None:
            return self._decide_share(evaluations, key, quota or Quota(self.share, self.control))
        assert self.when is not None
        why = self.when.explain(evaluations)
        if self.when.holds(evaluations):
            return Ruling(run=True, probability=1.0, why=why)
        control = self.control
        if control > 0 and escalation_draw(key) < control:
            return Ruling(True, control, f"control sample of {control:.3g}: {why}")
        return Ruling(run=False, probability=control, why=why)

    def _decide_share(self, evaluations: Evaluations, key: str | None, quota: Quota) -> Ruling:
        is_extraction = EXTRACTION_RISK in evaluations
        abstained = not is_extraction and ABSTENTION in evaluations
        if abstained and self.by != ABSTENTION:
            why = "the app gave no value: judged only where by='abstention_risk' says so"
            return Ruling(run=False, probability=0.0, why=why)
        kind = "extractions" if is_extraction or abstained else "answers"
        if self.of not in (None, kind):
            why = f"the share is of {self.of}"
            return Ruling(run=False, probability=0.0, why=why)
        by = self.by or (EXTRACTION_RISK if is_extraction else ANSWER_RISK)
        decision = quota.decide(score_of(evaluations.get(by)), key, by)
        return Ruling(decision.run, decision.probability, f"{by} {decision.why}")


def default_escalation(threshold: float = 0.7) -> Escalation:
    """Return the default rule: low or cut-off recall asks ``context_recall_llm``.

    It applies to records with extractions, and ``threshold`` is the recall below which it asks.
    """
    low = below("context_recall_heuristic", threshold)
    cut_off = flagged("recall_warning", "HIT_RETRIEVAL_LIMIT")
    return Escalation("context_recall_llm", when=low | cut_off, of="extractions")


LOW, HIGH, CONTROL_RATE = 0.2, 0.8, 0.05


class Cascade(Escalation):
    """Ask a decision model about every record, and the judge model where that is uncertain.

    It is an `Escalation` to ``judge`` that reads the probability of the decision on the same
    question. Where the judge model fails, the decision's answer stands.

    Args:
        judge: The judge, its name, or its address such as ``"my_app:polite"``. It must be one that
            can be asked as a typed question: most built-in judges, an `LLMJudge` without a free
            score, a judge for yes or no.
        low: Below this probability of a good outcome, the decision is taken to be right.
        high: Above this probability, too. The judge model is asked from ``low`` to ``high``.
        control_rate: The part of all other records that the judge model sees as well, at random, so
            that averages can be corrected for the decision's mistakes.

    Raises:
        ConfigurationError: An argument cannot be used; the message says what to write instead.

    Examples:
        >>> llmeval.configure(
        ...     decisions=lambda data, questions: {question.name: 0.9 for question in questions},
        ...     llm=FakeLLM("yes"),
        ...     escalations=[llmeval.Cascade("groundedness", low=0.1, high=0.9)],
        ... )
    """

    __slots__ = ()

    def __init__(
        self,
        judge: str | Judge,
        *,
        low: float = LOW,
        high: float = HIGH,
        control_rate: float = CONTROL_RATE,
    ) -> None:
        name = judge if isinstance(judge, str) else getattr(judge, "name", "")
        for option, bound in (("low", low), ("high", high)):
            if not isinstance(bound, Real) or isinstance(bound, bool) or not 0 <= bound <= 1:
                raise ConfigurationError(
                    f"Cascade({name!r}): {option} is a probability from 0 to 1, not {bound!r}"
                )
        if low > high:
            raise ConfigurationError(
                f"Cascade({name!r}): low={low:g} must not be above high={high:g}"
            )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"Cascade takes a judge or its name first, not {judge!r}")
        super().__init__(judge, when=between(name, low, high), control_rate=control_rate)

    def asking(self, judge: Judge) -> Cascade:
        """Return the same cascade of another judge, such as the one that an address stands for."""
        when: Any = self.when  # made by `between`
        return Cascade(judge, low=when.low, high=when.high, control_rate=self.control)


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
