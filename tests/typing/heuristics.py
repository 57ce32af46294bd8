"""Never run: what a type checker has to accept and to refuse about heuristics.

Under ``mypy --strict`` an ignore that is not needed is an error, so each line marked below must
stay a mistake.
"""

from __future__ import annotations

from llmeval_sdk.heuristics import heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import Heuristic


@heuristic
def cites_a_page(record: Record) -> bool:
    return "page" in (record.response or "")


@heuristic(name="other", version="2", needs=("request|value",), inline=True)
def maybe(record: Record) -> float | None:
    return None


@heuristic
def full(record: Record) -> Evaluation:
    return Evaluation("full", "yes")


@heuristic  # type: ignore[arg-type]
def two_parameters(record: Record, more: int) -> bool:
    return True


@heuristic(name="two")  # type: ignore[arg-type]
def two_parameters_called(record: Record, more: int) -> bool:
    return True


@heuristic  # type: ignore[type-var]
async def awaited(record: Record) -> bool:
    return True


@heuristic  # type: ignore[type-var]
def a_list(record: Record) -> list[str]:
    return []


@heuristic  # type: ignore[arg-type]
def of_a_string(record: str) -> bool:
    return True


def fits(evaluator: Heuristic) -> None:
    """Take what the registry takes."""


fits(cites_a_page)
fits(maybe)
fits(full)
passed: bool = cites_a_page(Record())
number: float | None = maybe(Record())
