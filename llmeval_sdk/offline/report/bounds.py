"""Bounds on metrics: what a CI gate asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmeval_sdk.errors import ConfigurationError, nearest


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.report import Report


def below(report: Report, at_least: Mapping[str, float]) -> dict[str, float | None]:
    """See `Report.below`.

    The share of a category that never occurred is 0, and a metric of an evaluator that rated no row
    has no value, which misses every bound.
    """
    metrics = report.metrics
    missed: dict[str, float | None] = {}
    for path, bound in at_least.items():
        value = metrics.get(path)
        if value is None:
            value = _without_value(report, path, metrics)
        if value is None or value < bound:
            missed[path] = value
    return missed


def check_path(path: str, evaluators: Iterable[str]) -> None:
    """Refuse a path that none of these evaluators can have, before anything is paid for.

    Raises:
        ConfigurationError: naming the nearest path.
    """
    known = tuple(evaluators)
    if evaluator_of(path, known) is None:
        raise ConfigurationError(
            f"no evaluator of this run has the metric {path!r}: {nearest(path, known)}; a path is "
            "such as 'context_relevance/average' or "
            "'response/llm_judged/correctness/rating/percentage'"
        )


def evaluator_of(path: str, names: Iterable[str]) -> str | None:
    """Find whose metric a path is."""
    parts = path.split("/")
    if parts[0] == "agent":
        parts = [*parts, f"total_{parts[1]}" if len(parts) > 1 else ""]
    return next((name for name in names if name in parts), None)


def _without_value(report: Report, path: str, metrics: Mapping[str, float]) -> float | None:
    name = evaluator_of(path, (*report.evaluators, *report.counts))
    rated = report.counts.get(name or "", {}).get("evaluated", 0)
    if name is None or (rated and not (path.startswith(f"{name}/") and "percentage" in path)):
        raise ConfigurationError(f"no metric {path!r}: {nearest(path, metrics)}")
    return 0.0 if rated else None


def describe(report: Report, path: str, value: float | None, bound: float) -> str:
    """Say how a bound was missed, with how many rows speak for it."""
    if value is None:
        return f"{path} has no value (at least {bound:g} is asked for): {_why(report, path)}"
    return f"{path} is {value:.4g}, below {bound:g}{_of(report, path)}"


def _of(report: Report, path: str) -> str:
    counts = report.counts.get(evaluator_of(path, report.counts) or "")
    if counts is None:
        return ""
    failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
    return f" ({counts['evaluated']:,} rows rated{failed})"


def _why(report: Report, path: str) -> str:
    reasons = report.reasons.get(evaluator_of(path, report.counts) or "")
    if not reasons:
        return "no row was evaluated"
    return ", ".join(f"{times:,} rows: {reason}" for reason, times in reasons.items())
