"""What a condition is, and how conditions are joined by ``|``, ``&`` and ``~``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation


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
        unknown = False
        for part in self.parts:
            truth = part.truth(evaluations)
            if truth is self.enough:
                return truth
            unknown = unknown or truth is None
        return None if unknown else not self.enough

    def names(self) -> frozenset[str]:
        return frozenset().union(*(part.names() for part in self.parts))

    def explain(self, evaluations: Evaluations) -> str:
        telling = [part for part in self.parts if part.holds(evaluations) is self.enough]
        word = "; " if self.enough else " and "
        return word.join(part.explain(evaluations) for part in telling or self.parts)


@dataclass(frozen=True, slots=True)
class Negated(Condition):
    """A condition whose truth is turned round."""

    inner: Condition

    def truth(self, evaluations: Evaluations) -> bool | None:
        truth = self.inner.truth(evaluations)
        return None if truth is None else not truth

    def names(self) -> frozenset[str]:
        return self.inner.names()

    def explain(self, evaluations: Evaluations) -> str:
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
