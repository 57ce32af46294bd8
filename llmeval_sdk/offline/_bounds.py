"""Bounds on metrics: what a CI gate asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from llmeval_sdk.errors import ConfigurationError, nearest


if TYPE_CHECKING:
    from llmeval_sdk.offline._report import Report


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


def _without_value(report: Report, path: str, metrics: Mapping[str, float]) -> float | None:
    parts = path.split("/")
    named = [name for name in report.evaluators if name in parts or f"total_{parts[1:2]}" == name]
    named += [name for name in report.counts if name in parts and name not in named]
    if not named:
        raise ConfigurationError(f"no metric {path!r}: {nearest(path, metrics)}")
    name = named[0]
    rated = report.counts.get(name, {}).get("evaluated", 0)
    if rated and path == f"{name}/{parts[-2]}/percentage":
        return 0.0
    if rated:
        raise ConfigurationError(f"no metric {path!r}: {nearest(path, metrics)}")
    return None


def describe(report: Report, path: str, value: float | None, bound: float) -> str:
    """Say how a bound was missed, with how many rows speak for it."""
    if value is None:
        return f"{path} has no value (at least {bound:g} is asked for): {_why(report, path)}"
    return f"{path} is {value:.4g}, below {bound:g}{_of(report, path)}"


def _of(report: Report, path: str) -> str:
    for name, counts in report.counts.items():
        if name in path.split("/"):
            failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
            return f" ({counts['evaluated']:,} rows rated{failed})"
    return ""


def _why(report: Report, path: str) -> str:
    for name, reasons in report.reasons.items():
        if name in path.split("/") and reasons:
            return ", ".join(f"{times:,} rows {reason}" for reason, times in reasons.items())
    return "no row was evaluated"
