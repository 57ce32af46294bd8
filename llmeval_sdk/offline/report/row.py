"""One evaluated row."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

from llmeval_sdk.evaluation.unanswered import answer_of
from llmeval_sdk.judges.prompt import as_text, split_request
from llmeval_sdk.model import Evaluation, Failure, Record
from llmeval_sdk.store.encode import dumps


@dataclass(frozen=True, slots=True)
class Row:
    """One row and what the evaluators said of it."""

    record: Record
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    """By evaluator. One whose inputs are missing has no value and says which in its explanation."""
    number: int = 0
    """Its place in the data, from 1 on."""
    error: Failure | None = None
    """What the model raised on it; it was not evaluated then."""
    digest: str = ""
    """Of what was read: the same for the same row of another run."""

    @property
    def id(self) -> str:
        """The request's id, else the row's number."""
        return self.record.request_id or f"row {self.number}"

    @property
    def answer(self) -> Literal["given", "abstained", "lost"]:
        """Whether there is an answer, the app said that it gives none, or it got lost."""
        return answer_of(self.record)


def only(row: Row, names: Container[str | None]) -> Row:
    """Return a row with what some of the evaluators said."""
    found = {name: each for name, each in row.evaluations.items() if name in names}
    return replace(row, evaluations=found)


def digest_of(record: Record) -> str:
    """Identify a row by its content."""
    return blake2b((dumps(record) or "").encode("utf-8", "replace"), digest_size=12).hexdigest()


def digest_of_request(record: Record) -> str:
    """Identify what was asked."""
    said = dumps([record.request]) or ""
    return blake2b(said.encode("utf-8", "replace"), digest_size=12).hexdigest()


def texts(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to read of a row: column and text."""
    record = row.record
    if record.request is not None:
        query, history = split_request(record.request)
        if history:
            yield "earlier turns", "\n".join(f"{role}: {text}" for role, text in history)
        yield "request", query
    for name in ("response", "expected_response", "expected_facts", "value"):
        value = getattr(record, name)
        if value is None or (name == "value" and value == record.response):
            continue
        yield name, as_text(value)
