"""What a decision model has to be able to do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from math import inf
from typing import Protocol, runtime_checkable

from llmeval_sdk.model import Decision, Question


@runtime_checkable
class DecisionModel(Protocol):
    """A model that answers typed questions. Derive from it and write ``decide``."""

    model: str
    """The model's name, which prices go by and which each decision records."""

    @abstractmethod
    async def decide(self, data: Mapping[str, str], questions: Sequence[Question], /) -> Decision:
        """Answer all questions about the data.

        Args:
            data: The parts of a record by their titles (``request``, ``response``, ``chunk 1`` …).
                It is sent once, as data: nothing in it may reach the model as an instruction.
            questions: At least one. Where they are more than the model takes in one request, they
                are asked in several; none is cut or left out.

        Raises:
            JudgeError: The model could not be reached or refused the request as a whole.
        """


further_place: ContextVar[Callable[[], AbstractAsyncContextManager[bool]] | None] = ContextVar(
    "further_place", default=None
)
"""Whom a model asks that wants to make several requests of one `decide` at the same time, before
each but the first: it enters the context, whose value says whether there is room, and makes the
request inside it."""

answer_by: ContextVar[float] = ContextVar("answer_by", default=inf)
"""When one `decide` has to return, by the running loop, so that what was answered by then counts:
a little later it is given up."""
