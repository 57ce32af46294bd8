"""`Cascade`: a decision about every record, and a judge model where the decision is uncertain."""

from __future__ import annotations

from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.conditions import between
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.model.protocols import Judge


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
