"""What a list of spans can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


Judged = Literal["", "yes", "escalated", "control", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which spans, in which order; what is not given does not filter.

    The spans are the roots of the app's traces, unless a filter on a span's own name, error or
    score asks for others.
    """

    span_name: str | None = None
    evaluator: str | None = None
    """The spans that it evaluated, and of those the ones that fit the next three."""
    below: float | None = None
    above: float | None = None
    verdict: str | None = None
    """Its category; ``pass`` and ``fail`` are those of booleans."""
    judged: Judged = ""
    """A judge ran, was asked because of a cheap score, drew the control sample, or none ran."""
    reason: str | None = None
    """``evaluator`` is a judge that did not run, for this reason."""
    failed: bool = False
    """It raised, and nothing above it did."""
    text: str | None = None
    """Stands in a request, response, chunk or extraction of the trace; ASCII case aside."""
    since: int | None = None
    until: int | None = None
    """Nanoseconds since the epoch, exclusive."""
    judges: bool = False
    """List the judges' own runs too."""
    order: Literal["newest", "lowest", "highest"] = "newest"
    order_by: str | None = None
    """The evaluator by whose score ``lowest`` and ``highest`` sort."""


class Place(NamedTuple):
    """Where in the order of a query something stands."""

    key: float
    seq: int
