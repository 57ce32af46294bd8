"""Conditions on cheap scores: ``below("recall", 0.7) | flagged("warning", "HIT_LIMIT")``.

A condition is true, false or unknown. It is unknown if its score is absent, not applicable, failed
or not a number. The negation of an unknown condition is unknown too, and an unknown condition never
holds, so no request is escalated only because a heuristic had nothing to say. A flag that was not
raised is false and not unknown.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from numbers import Real
from typing import Any, NoReturn

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, values


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


def _is_number(value: Any) -> bool:
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
