"""What a gate in CI decides on: bounds, the comparison with a baseline, what could not be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from llmeval_sdk.offline.report import bounds
from llmeval_sdk.offline.report.change import describe
from llmeval_sdk.offline.report.summary import plural


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.report import Report


@dataclass(frozen=True, slots=True)
class Gate:
    """What is asked of a report."""

    at_least: Mapping[str, float] = field(default_factory=dict)
    """The least value of metrics, by path."""
    compared: Comparison | None = None
    min_rated: float = bounds.MIN_RATED
    """The least share of rows that each evaluator must rate of those that have its inputs."""

    @property
    def decides(self) -> bool:
        """Whether anything was asked; else every row decides by itself."""
        return bool(self.at_least) or self.compared is not None


class Check(NamedTuple):
    """One thing that a gate looks at."""

    word: Literal["ok", "FAILED", "WORSE", "LOST"]
    said: str
    name: str
    """What JUnit calls it."""
    evaluator: str | None = None
    """Whose metric it is about."""

    @property
    def passed(self) -> bool:
        """Whether it lets a change through."""
        return self.word == "ok"


def checks(report: Report, gate: Gate) -> list[Check]:
    """Return what was asked of a report and how it went, what failed first.

    Errors of the app and an exhausted budget fail unasked.
    """
    found = [
        *_bounds(report, gate),
        *_against(report, gate),
        *_budget(report),
        *_errors(report),
    ]
    return sorted(found, key=lambda check: check.passed)


def _bounds(report: Report, gate: Gate) -> Iterator[Check]:
    missed = bounds.below(report, gate.at_least, gate.min_rated)
    for path, bound in gate.at_least.items():
        name, owner = f"{path} >= {bound:g}", bounds.owner_of(path, report.outputs)
        if path in missed:
            said = bounds.describe(report, path, missed[path], bound, gate.min_rated)
            yield Check("FAILED", said, name, owner)
        else:
            value = report.metrics.get(path, 0.0)
            over = bounds.spoken_for(report, path)
            yield Check("ok", f"{path} is {value:.4g}, at least {bound:g} {over}", name, owner)


def _against(report: Report, gate: Gate) -> Iterator[Check]:
    compared = gate.compared
    if compared is None:
        return
    is_well = True
    for change in compared.worse:
        owner = bounds.owner_of(change.path, report.outputs)
        yield Check("WORSE", describe(change), f"{change.path} no worse", owner)
        is_well = False
    for name in compared.lost:
        said = f"{name} rated rows before, and none of them now"
        yield Check("LOST", said, f"{name} rates rows", name)
        is_well = False
    bound = {bounds.owner_of(path, report.outputs) for path in gate.at_least}
    for name in report.aggregate.tallies:
        if name not in bound and bounds.too_few(report, name, gate.min_rated):
            said = bounds.describe_too_few(report, name, gate.min_rated)
            yield Check("FAILED", said, f"{name} rates {gate.min_rated:.0%} of rows", name)
            is_well = False
    if is_well:
        rows = plural(compared.pairs, "row")
        said = f"no metric surely got worse than in the baseline ({rows})"
        yield Check("ok", said, "no metric is worse")


def _budget(report: Report) -> Iterator[Check]:
    for name, tally in report.aggregate.tallies.items():
        times = tally.errors["over_budget"]
        if times:
            said = f"the budget was used up: {plural(times, 'judgement')} of {name} not made"
            yield Check("FAILED", said, f"the budget is enough for {name}", name)


def _errors(report: Report) -> Iterator[Check]:
    if report.errors:
        rows = plural(sum(report.errors.values()), "row")
        yield Check("FAILED", f"the model raised on {rows}", "the model answers every row")
