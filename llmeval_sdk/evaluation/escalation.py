"""Which judges are asked about a record: conditions, escalations, and the gate that decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import isnan
from numbers import Real
from typing import Any, NoReturn, TypeAlias

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.admission import Admitted, Refused, Ruling
from llmeval_sdk.evaluation.groups import (
    MAX_GROUPS,
    NO_TAGS,
    TagTest,
    Where,
    group_of,
    is_about,
    read_tag,
    read_where,
)
from llmeval_sdk.evaluation.sampling import Quota, SamplingRules, escalation_draw
from llmeval_sdk.model import Evaluation, Record, values
from llmeval_sdk.model.fields import lacking
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.model.structure import MAX_FIELDS
from llmeval_sdk.model.values import ABSTENTION
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.reasons import NotRunReason


# Conditions on cheap scores: ``below("recall", 0.7) | flagged("warning", "HIT_LIMIT")``.
#
# A condition is true, false or unknown. It is unknown if its score is absent, not applicable,
# failed or not a number. The negation of an unknown condition is unknown too, and an unknown
# condition never holds, so no request is escalated only because a heuristic had nothing to say. A
# flag that was not raised is false and not unknown.


# What a condition is, and how conditions are joined by ``|``, ``&`` and ``~``.

Evaluations = Mapping[str, Evaluation]


class Condition:
    """Something that is true, false or unknown for the evaluations of one record."""

    __slots__ = ()

    @abstractmethod
    def truth(self, evaluations: Evaluations) -> bool | None:
        """Return whether the condition is true; ``None`` if that is unknown."""

    @abstractmethod
    def names(self) -> frozenset[str]:
        """Return the names of the evaluators that the condition reads."""

    @abstractmethod
    def explain(self, evaluations: Evaluations) -> str:
        """Return the comparison that decided, such as ``recall 0.40 < 0.7``."""

    def holds(self, evaluations: Evaluations) -> bool:
        """Return whether the condition is known to be true."""
        return self.truth(evaluations) is True

    __call__ = holds

    def __or__(self, other: Condition) -> Condition:
        return _joined(self, other, enough=True)

    def __and__(self, other: Condition) -> Condition:
        return _joined(self, other, enough=False)

    def __invert__(self) -> Condition:
        return Negated(self)

    def __bool__(self) -> NoReturn:
        raise ConfigurationError("join conditions with | & and ~, not with `or`, `and` and `not`")


@dataclass(frozen=True, slots=True)
class Joined(Condition):
    """Several conditions, joined by ``|`` or by ``&``."""

    parts: tuple[Condition, ...]
    enough: bool
    """The truth of one part that decides the whole: ``True`` for "or", ``False`` for "and"."""

    def truth(self, evaluations: Evaluations) -> bool | None:
        """Return whether enough parts hold; ``None`` where what is known does not tell."""
        unknown = False
        for part in self.parts:
            truth = part.truth(evaluations)
            if truth is self.enough:
                return truth
            unknown = unknown or truth is None
        return None if unknown else not self.enough

    def names(self) -> frozenset[str]:
        """Return the evaluators whose scores it reads."""
        return frozenset().union(*(part.names() for part in self.parts))

    def explain(self, evaluations: Evaluations) -> str:
        """Say which parts decided."""
        telling = [part for part in self.parts if part.holds(evaluations) is self.enough]
        word = "; " if self.enough else " and "
        return word.join(part.explain(evaluations) for part in telling or self.parts)


@dataclass(frozen=True, slots=True)
class Negated(Condition):
    """A condition whose truth is turned round."""

    inner: Condition

    def truth(self, evaluations: Evaluations) -> bool | None:
        """Return the opposite of the truth of the inner condition."""
        truth = self.inner.truth(evaluations)
        return None if truth is None else not truth

    def names(self) -> frozenset[str]:
        """Return the evaluators whose scores it reads."""
        return self.inner.names()

    def explain(self, evaluations: Evaluations) -> str:
        """Say what the inner condition says."""
        return self.inner.explain(evaluations)


def _joined(first: Condition, second: Condition, *, enough: bool) -> Condition:
    parts: list[Condition] = []
    for part in (first, second):
        if not isinstance(part, Condition):
            raise ConfigurationError(f"only conditions can be joined, not {part!r}")
        if isinstance(part, Joined) and part.enough is enough:
            parts.extend(part.parts)
        else:
            parts.append(part)
    return Joined(tuple(parts), enough)


def below(name: str, threshold: float) -> Condition:
    """Hold when a score is below a threshold. Pass and yes count as 1, fail and no as 0.

    Of a decision, the probability is compared.

    Args:
        name: The evaluator whose score is compared.
        threshold: The number that the score must be less than.

    Examples:
        >>> condition = llmeval.below("context_relevance", 0.4) | llmeval.flagged("recall_warning")
        >>> escalation = llmeval.Escalation("groundedness", when=condition)
    """
    return _Compared(_named("below", name), "<", _number("below", threshold))


def above(name: str, threshold: float) -> Condition:
    """Hold when a score is above a threshold. Pass and yes count as 1, fail and no as 0.

    Of a decision, the probability is compared.

    Args:
        name: The evaluator whose score is compared.
        threshold: The number that the score must be greater than.

    Examples:
        >>> condition = llmeval.above("groundedness_risk", 0.8)
        >>> escalation = llmeval.Escalation("groundedness", when=condition)
    """
    return _Compared(_named("above", name), ">", _number("above", threshold))


def between(name: str, low: float, high: float) -> Condition:
    """Hold when a score, or the probability of a decision, lies in a range.

    Args:
        name: The evaluator whose outcome is compared.
        low: The least number of the range.
        high: The greatest number of the range.

    Raises:
        ConfigurationError: The range is empty, or its ends are no numbers.

    Examples:
        >>> condition = llmeval.between("groundedness", 0.2, 0.8)
        >>> escalation = llmeval.Escalation("groundedness", when=condition)
    """
    first, last = _number("between", low), _number("between", high)
    if first > last:
        raise ConfigurationError(f"between({name!r}): nothing lies between {low:g} and {high:g}")
    return _Between(_named("between", name), first, last)


def flagged(name: str, *words: str | bool) -> Condition:
    """Hold when an evaluation's value or label is exactly one of the words.

    Args:
        name: The evaluator whose outcome is compared.
        *words: The words. Without any, the condition holds when a check failed (``False``), or when
            a category is neither good, such as ``pass`` or ``yes``, nor neutral, such as
            ``skipped`` or ``abstained``; a number alone is no flag.

    Examples:
        >>> condition = llmeval.flagged("recall_warning", "HIT_RETRIEVAL_LIMIT")
        >>> escalation = llmeval.Escalation("context_recall_llm", when=condition)
    """
    for word in words:
        if not isinstance(word, (str, bool)):
            raise ConfigurationError(
                f"flagged({name!r}) takes words, not {word!r}: compare scores by below or above"
            )
    return _Flagged(_named("flagged", name), words)


def compared_by(condition: Condition) -> frozenset[str]:
    """Return the names of the evaluators whose scores a condition compares with a number."""
    if isinstance(condition, Joined):
        return frozenset[str]().union(*map(compared_by, condition.parts))
    if isinstance(condition, Negated):
        return compared_by(condition.inner)
    return condition.names() if isinstance(condition, _OfScore) else frozenset()


def score_of(evaluation: Evaluation | None) -> float | None:
    """Return an evaluation as a number, or ``None`` if there is none to use.

    That is the probability where a decision model gave one, else the value.
    """
    if evaluation is None or evaluation.error is not None:
        return None
    if evaluation.probability is not None:
        return evaluation.probability
    return values.number(evaluation.value)


@dataclass(frozen=True, slots=True)
class _OfScore(Condition):
    """A condition on one score; it is unknown where there is no such score."""

    name: str

    def truth(self, evaluations: Evaluations) -> bool | None:
        score = score_of(evaluations.get(self.name))
        return None if score is None else self._is_met(score)

    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def explain(self, evaluations: Evaluations) -> str:
        evaluation = evaluations.get(self.name)
        score = score_of(evaluation)
        if score is None:
            return f"{self.name} {_silence(evaluation)}"
        return f"{self.name} {_shown(score)} {self._comparison(score)}"

    @abstractmethod
    def _is_met(self, score: float) -> bool: ...

    @abstractmethod
    def _comparison(self, score: float) -> str:
        """Return in words how the score compares."""


@dataclass(frozen=True, slots=True)
class _Compared(_OfScore):
    sign: str
    threshold: float

    def _is_met(self, score: float) -> bool:
        return score < self.threshold if self.sign == "<" else score > self.threshold

    def _comparison(self, score: float) -> str:
        sign = self.sign if self._is_met(score) else {"<": ">=", ">": "<="}[self.sign]
        return f"{sign} {self.threshold:g}"


@dataclass(frozen=True, slots=True)
class _Between(_OfScore):
    low: float
    high: float

    def _is_met(self, score: float) -> bool:
        return self.low <= score <= self.high

    def _comparison(self, score: float) -> str:
        place = "is" if self._is_met(score) else "is not"
        return f"{place} between {self.low:g} and {self.high:g}"


@dataclass(frozen=True, slots=True)
class _Flagged(Condition):
    name: str
    words: tuple[str | bool, ...]

    def truth(self, evaluations: Evaluations) -> bool | None:
        evaluation = evaluations.get(self.name)
        if evaluation is None:
            return False
        if evaluation.error is not None:
            return None
        value = evaluation.value
        if not self.words:
            return value is False or (isinstance(value, str) and _is_warning(value))
        return any(
            evaluation.label == word or (type(value) is type(word) and value == word)
            for word in self.words
        )

    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def explain(self, evaluations: Evaluations) -> str:
        evaluation = evaluations.get(self.name)
        if evaluation is None or evaluation.error is not None or evaluation.value is None:
            return f"{self.name} {_silence(evaluation)}"
        held = self.holds(evaluations)
        said = evaluation.label if held and evaluation.label in self.words else evaluation.value
        other = f", not {' or '.join(map(str, self.words))}" if self.words and not held else ""
        return f"{self.name} is {str(said)[:60]}{other}"


def _named(what: str, name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{what}() takes an evaluator's name first, not {name!r}")
    return name


def _number(what: str, threshold: float) -> float:
    if not _is_number(threshold):
        raise ConfigurationError(f"{what}() takes a number as its threshold, not {threshold!r}")
    return threshold


def _is_number(value: object) -> bool:
    return isinstance(value, (float, int, Real)) and not isnan(value)


def _shown(score: float) -> str:
    text = f"{score:.2f}"
    return text if float(text) == score else f"{score:.6g}"


def _is_warning(category: str) -> bool:
    """Return whether a category is neither the best of its kind nor neutral."""
    return not values.is_neutral(category) and values.goodness("", category) != 1.0


def _silence(evaluation: Evaluation | None) -> str:
    if evaluation is not None and evaluation.error is not None:
        return f"failed ({evaluation.error.type[:60]})"
    return "gave no value"


# `Escalation` and `Cascade`: which judge to ask after a bad score or an uncertain decision.


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
        where: Tags of the spans that it is about, such as ``{"tag:tenant": "acme"}``; records
            without them are not told as ``not_escalated``.
        per: ``tag:KEY`` or ``user``: each of its values has a share of its own. A process does so
            for 200 values and span names; all further ones have one share together.

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
    where: Where = field(default=None, hash=False)
    per: str | None = None
    tests: tuple[TagTest, ...] = field(default=(), init=False, repr=False)
    """``where``, as it was read: a record has to pass all of these tests."""

    def __post_init__(self) -> None:
        _check_judge(self.judge)
        object.__setattr__(self, "tests", read_where(self.where, f"Escalation({self.name!r})"))
        if self.per is not None:
            read_tag(self.per, f"Escalation({self.name!r})", "per=")
            if self.share is None:
                raise self._mistake("per= divides a share=, and when= has none", mark=":")
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

    def concerns(self, evaluations: Evaluations, record: Record) -> bool:
        """Say whether it is about a record at all, by its tags and the scores that it has."""
        if not is_about(self.tests, record.tags):
            return False
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
        evaluation = evaluations.get(by)
        decision = quota.decide(score_of(evaluation), key, by, _fields_of(evaluation))
        return Ruling(decision.run, decision.probability, f"{by} {decision.why}")


def _fields_of(evaluation: Evaluation | None) -> int:
    """Return the number of fields among which the value of an evaluation is the greatest."""
    count = evaluation.metadata.get("fields_checked") if evaluation is not None else None
    return count if type(count) is int and 0 < count <= MAX_FIELDS else 0


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


def _check_judge(judge: object) -> None:
    name = judge if isinstance(judge, str) else getattr(judge, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"Escalation takes a judge or its name first, not {judge!r}")
    if getattr(judge, "kind", "judge") != "judge":
        raise ConfigurationError(
            f"{name!r} is a heuristic and runs on every record: only judges are escalated to"
        )


def _check_share(judge: str, option: str, share: object, *, lowest: float) -> None:
    if share is None:
        return
    if not isinstance(share, Real) or isinstance(share, bool) or not lowest <= float(share) <= 1:
        above = "0" if lowest == 0 else "above 0"
        raise ConfigurationError(
            f"Escalation({judge!r}): {option} is a share from {above} to 1, not {share!r}"
        )


# The gate: everything that decides from the record itself whether a judge runs on it.
#
# The order is: applicable, enabled, escalated, sampled. What depends on the moment (cached,
# budget, breaker, queue) is decided afterwards by the pipeline. `statistics.reasons` names
# the reasons for all of these decisions.


STREAMS = 256
"""How many span names have a quota of their own; all further ones share one."""

_OFF = {"no_judge_model": "no model is named: set LLMEVAL_JUDGE_MODEL or configure(llm=…)"}


_Quotas: TypeAlias = dict[tuple[str, int, str | None, str | None], Quota]
"""By judge, the place of the escalation among those of the judge, span name and group."""


class JudgeGate:
    """Decides whether a judge runs on a record, and with what chance it was admitted.

    A judge with escalations runs if any of them asks for it *and* the sampling rules admit it, so
    its chance is the product of the two. Escalations draw by span and rules by trace, and the two
    draws are independent.
    """

    __slots__ = ("_escalations", "_of_groups", "_quotas", "_rules")

    def __init__(
        self, rules: SamplingRules | None = None, escalations: Iterable[Escalation] = ()
    ) -> None:
        self._rules = rules or SamplingRules()
        self._escalations: dict[str, list[Escalation]] = {}
        self._quotas: _Quotas = {}
        self._of_groups: _Quotas = {}
        """The quotas of escalations with ``per``."""
        for escalation in escalations:
            self._escalations.setdefault(escalation.name, []).append(escalation)

    def names(self, judge: str) -> frozenset[str]:
        """Return the evaluators whose results `decide` needs for a judge."""
        return frozenset().union(*(each.names() for each in self._escalations.get(judge, ())))

    def concerns(self, judge: str, evaluations: Evaluations, record: Record) -> bool:
        """Say whether any escalation of a judge is about a record; true for a judge without one."""
        escalations = self._escalations.get(judge)
        return not escalations or any(each.concerns(evaluations, record) for each in escalations)

    @property
    def shares(self) -> frozenset[tuple[str, str]]:
        """The judges that run on a share of the records, each with a score that chooses them."""
        every = (each for escalations in self._escalations.values() for each in escalations)
        return frozenset((each.name, risk) for each in every for risk in each.risks)

    def warm(self, judge: str, span_name: str | None, by: str, scores: Iterable[float]) -> None:
        """Tell the escalations of a judge the recent scores of a span name, oldest first."""
        past = list(scores)
        for place, escalation in enumerate(self._escalations.get(judge, ())):
            if escalation.per is not None:
                continue  # nobody knows whose the scores were
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
        sampled, rate = self._rules.decide(judge.name, record)
        if not sampled:
            problems = self._rules.problems
            why = f" ({problems[0]})" if problems else ""
            name = self._rules.misspelling(judge.name, record)
            if name is not None:
                why = f" (a rule names {name!r}, which nobody has: {judge.name!r} may be meant)"
            return Refused("not_sampled", f"sample_rate {rate:g}{why}")
        if escalated is None:
            return Admitted(rate, f"sample_rate {rate:g}" if rate < 1 else "every record")
        why = escalated.why if rate >= 1 else f"{escalated.why}; sample_rate {rate:g}"
        return Admitted(escalated.probability * rate, why, escalated=True)

    def _escalate(self, judge: str, record: Record, evaluations: Evaluations) -> Ruling | None:
        """Join the escalations of a judge. They share one draw, so the largest chance counts."""
        escalations = self._escalations.get(judge)
        if not escalations:
            return None
        about = [
            (place, each)
            for place, each in enumerate(escalations)
            if is_about(each.tests, record.tags)
        ]
        if not about:
            return Ruling(run=False, probability=0.0, why="no escalation is about its tags")
        key = f"{record.trace_id}{record.span_id}" if record.trace_id else record.span_id
        return max(
            (
                each.decide(
                    evaluations, key, self._quota(each, place, record.span_name, record.tags)
                )
                for place, each in about
            ),
            key=_certainty,
        )

    def _quota(
        self,
        escalation: Escalation,
        place: int,
        span_name: str | None,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Quota | None:
        """Return the quota of a stream: the records of a span name and, with ``per``, of a group.

        Beyond a number of streams, all further ones of an escalation share a quota.
        """
        if escalation.share is None:
            return None
        quotas, most, group = self._quotas, STREAMS, None
        if escalation.per is not None:
            quotas, most, group = self._of_groups, MAX_GROUPS, group_of(escalation.per, tags)
        stream = (escalation.name, place, span_name, group)
        quota = quotas.get(stream)
        if quota is None and len(quotas) >= most:
            stream = (escalation.name, place, None, None)
            quota = quotas.get(stream)
        if quota is None:
            made = Quota(escalation.share, escalation.control)
            quota = quotas.setdefault(stream, made)
        return quota


def _certainty(decision: Ruling) -> tuple[bool, float]:
    return decision.run, decision.probability
