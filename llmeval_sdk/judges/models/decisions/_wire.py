"""What a wire is: how questions are written down in one vendor's words, and how answers are read.

A wire sends nothing itself; `HttpDecisions` does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from llmeval_sdk.judges.models.failures import CallFailed
from llmeval_sdk.judges.models.sending import Dialect
from llmeval_sdk.model import Answer, Question


@dataclass(frozen=True, slots=True)
class Limits:
    """What fits into one request.

    Args:
        questions: How many questions.
        options: How many options one choice may have.
        levels: How many levels one score may have.
        tokens: How many tokens data and questions may have together, estimated at three characters
            a token. ``None`` leaves that to the server, which says so where something is too long.
    """

    questions: int
    options: int
    levels: int = 10
    tokens: int | None = None


class Wire(Protocol):
    """One way to ask a server typed questions."""

    name: ClassVar[str]
    """The prefix of a model's name that selects this wire, such as ``systemone``."""
    path: ClassVar[str]
    """Where requests go below the base URL, unless another path is configured."""
    limits: ClassVar[Limits]
    of_openai: ClassVar[bool] = True
    """Whether its servers take the place of OpenAI's."""
    address_needed: ClassVar[str] = ""
    """Which base URLs there are to choose from, for a wire that has no default one."""

    @abstractmethod
    def body(
        self, model: str, data: Mapping[str, str], questions: Sequence[Question], known: Dialect
    ) -> dict[str, Any]:
        """Write down a request. The texts of ``data`` stand in its data part and nowhere else."""

    @abstractmethod
    def read(self, reply: Any, questions: Sequence[Question]) -> dict[str, Answer]:
        """Return an answer to every question. One that cannot be used is an error of its question.

        Raises:
            CallFailed: The reply as a whole does not have the form of this wire.
        """

    def opened(self, reply: Any) -> Any:
        """Take a reply out of the envelope that some host puts it in."""
        return reply

    def give_way(self, error: CallFailed, known: Dialect) -> bool:
        """Stop sending a parameter that the server names in its complaint, if there is one."""
        return False

    def explained(self, error: CallFailed, model: str) -> CallFailed:
        """Return an error that says what to do, where this wire knows more than the server says."""
        return error
