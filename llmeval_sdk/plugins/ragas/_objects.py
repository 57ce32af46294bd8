"""Metric objects of Ragas as judges; they run in this process, where their LLM is."""

from __future__ import annotations

import inspect
from typing import Any

from llmeval_sdk.plugins.ragas._judge import RagasJudge
from llmeval_sdk.plugins.ragas._metrics import COLUMN_NEEDS, OBJECT_CALLS, Metric


def adapted(metric: Any) -> RagasJudge | None:
    """Make the judge ``ragas:<its name>`` of an object of Ragas, if it is a metric.

    Metrics of the current family and of the legacy one will do.
    """
    if not (hasattr(metric, "ascore") or hasattr(metric, "single_turn_ascore")):
        return None
    needs = tuple(COLUMN_NEEDS[column] for column in sorted(_columns(metric)))
    limits = Metric(needs=needs, calls=OBJECT_CALLS, calls_per_context=1)
    return RagasJudge(name=f"ragas:{metric.name}", metric=metric, limits=limits)


def _columns(metric: Any) -> set[str]:
    """Return the columns that a metric cannot do without, as it says itself."""
    if hasattr(metric, "single_turn_ascore"):
        required = metric.required_columns.get("SINGLE_TURN", ())
        return {name for name in required if not name.endswith(":optional")} & set(COLUMN_NEEDS)
    parameters = inspect.signature(metric.ascore).parameters.values()
    return {
        each.name
        for each in parameters
        if each.default is inspect.Parameter.empty and each.name in COLUMN_NEEDS
    }
