"""What ``evaluate()`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmeval_sdk.model import Evaluation, Record


@dataclass(frozen=True, slots=True)
class Row:
    """One row and what the evaluators said of it."""

    record: Record
    evaluations: Mapping[str, Evaluation]
    """By evaluator. One whose inputs are missing has no value and says which in its explanation."""


@dataclass(frozen=True, slots=True)
class Report:
    """The rows in order, and aggregates over the rows that have a value."""

    rows: tuple[Row, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """By path, such as ``context_relevance/average``: a mean, or the share of a category."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By evaluator: how many rows were ``evaluated``, ``not_applicable`` or ``failed``."""
