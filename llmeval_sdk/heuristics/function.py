"""A heuristic is a function of one Record: the class behind it and the decorator for apps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.model import Evaluation, Record, Score
from llmeval_sdk.model.conversation import is_conversation
from llmeval_sdk.model.fields import CHUNK_TEXT, FIELDS, TOOL_RESULTS, alternatives


R_co = TypeVar("R_co", bound="Evaluation | Score", covariant=True)

_NEEDS = (*FIELDS, CHUNK_TEXT, TOOL_RESULTS)


@dataclass(frozen=True, slots=True)
class FunctionHeuristic(Generic[R_co]):
    """A function of one Record, with what the SDK has to know about it. Calling it calls it."""

    evaluate: Callable[[Record], R_co]
    """The function itself, so that nothing stands between the hot path and it."""
    name: str
    version: str = "1"
    needs: tuple[str, ...] = ()
    inline: bool = False
    automatic: bool = True
    applies: Callable[[Record], bool] | None = None
    """What more must hold for it to attach by itself; asked for by name, it runs all the same."""
    postponed: Callable[[Record], bool] | None = None
    """For which Records an inline one runs in the worker, because it runs somebody's code."""
    output: Literal["score", "count"] | tuple[str, ...] | None = None
    """What it gives, or its categories; ``None`` where only its values tell."""
    report_path: str | None = None
    """Where its outcomes stand in a report; ``None``: under its name."""
    metric_path: str | None = None
    """What its aggregate is called; ``None`` follows from ``report_path``."""
    per: Literal["answer", "session"] = "answer"
    """Whether it scores each request, or a conversation when that has been idle."""
    kind: Literal["heuristic"] = "heuristic"
    better: Literal["lower", "higher"] | None = None
    """Which of its values are better; ``None`` leaves that to its name."""
    live: Callable[[Any], Any] | None = None
    """Scores an open span in its own, quicker way, without a Record."""

    def __call__(self, record: Record, /) -> R_co:
        """Call the plain function."""
        return self.evaluate(record)


@overload
def heuristic(function: Callable[[Record], R_co], /) -> FunctionHeuristic[R_co]: ...


@overload
def heuristic(
    *,
    name: str | None = None,
    version: str = "1",
    needs: Iterable[str] = (),
    inline: bool = False,
    automatic: bool = True,
    per: Literal["answer", "session"] = "answer",
    better: Literal["lower", "higher"] | None = None,
) -> Callable[[Callable[[Record], R_co]], FunctionHeuristic[R_co]]: ...


def heuristic(
    function: Callable[[Record], Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    needs: Iterable[str] = (),
    inline: bool = False,
    automatic: bool = True,
    per: Literal["answer", "session"] = "answer",
    better: Literal["lower", "higher"] | None = None,
) -> object:
    """Make a heuristic of a function of one Record, and register it by its name.

    ``@heuristic`` alone will do. The function returns a number, a bool, a str, ``None`` where it
    does not apply, or an Evaluation.

    Args:
        function: What is decorated; it stays callable.
        name: The function's own name by default. ASCII letters, digits and underscores, starting
            with a letter, at most 200.
        version: Change it when the values are no longer comparable.
        needs: Fields of Record that must be present; ``"value|response"`` is met by either, and
            ``"retrieved_context.content"`` by retrieved chunks of which one has text.
        inline: Run it on the caller's thread, for what stays in microseconds.
        automatic: Attach it to every evaluated span; else only where it is asked for by name.
        per: ``session`` scores a whole conversation in the background, when that has been idle; the
            Record holds all of it in ``steps``.
        better: Which values are better, ``lower`` or ``higher``: for reports, colours, comparisons
            and lists of the worst. By default higher ones, unless the name ends in ``_risk``.

    Raises:
        ConfigurationError: It cannot be a heuristic; the message says why.

    Examples:
        >>> @llmeval.heuristic
        ... def cites_a_page(record: llmeval.Record) -> bool:
        ...     return "page" in (record.response or "")
    """
    if per not in ("answer", "session"):
        raise ConfigurationError(f"@heuristic: per is 'answer' or 'session', not {per!r}")
    applies = is_conversation if per == "session" else None

    def make(function: Callable[[Record], Any]) -> FunctionHeuristic[Any]:
        made = FunctionHeuristic(
            function,
            _checked_name(function, name),
            str(version),
            _checked_needs(needs, name or function.__name__),
            inline=inline,
            automatic=automatic,
            applies=applies,
            per=per,
            better=better,
        )
        registry.register(made)
        return made

    return make if function is None else make(function)


def _checked_name(function: object, name: str | None) -> str:
    """Check that a function can be a heuristic, and say what it is called."""
    if not inspect.isroutine(function):
        raise ConfigurationError(
            f"@heuristic takes a function of one Record, not {function!r:.100}; "
            "options are keywords: @heuristic(name=...)"
        )
    name = function.__name__ if name is None else name
    registry.check_name(name)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"heuristic {name!r} is async: a heuristic is a plain function that computes and "
            "returns; use @judge for what has to wait"
        )
    if inspect.isgeneratorfunction(function):
        raise ConfigurationError(f"heuristic {name!r} is a generator: return one value instead")
    try:
        signature = inspect.signature(function)
        signature.bind(Record())
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"heuristic {name!r} must take exactly one positional argument, the Record"
        ) from None
    return name


def _checked_needs(needs: Iterable[str], name: str) -> tuple[str, ...]:
    needs = (needs,) if isinstance(needs, str) else tuple(needs)
    for field in (field for need in needs for field in alternatives(str(need))):
        if field not in _NEEDS:
            raise ConfigurationError(
                f"heuristic {name!r} needs {field!r}, which is no field of Record: "
                f"{nearest(field, _NEEDS)}; needs can be {', '.join(_NEEDS)}"
            )
    return needs
