"""What a gate in CI decides on: bounds, the comparison with a baseline, the app's own errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from llmeval_sdk.offline.report import bounds
from llmeval_sdk.offline.report.change import describe
from llmeval_sdk.offline.report.summary import plural


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.report import Report


class Check(NamedTuple):
    """One thing that a gate looks at."""

    word: Literal["ok", "FAILED", "WORSE", "LOST"]
    said: str

    @property
    def passed(self) -> bool:
        """Whether it lets a change through."""
        return self.word == "ok"


def checks(
    report: Report, at_least: Mapping[str, float], compared: Comparison | None
) -> list[Check]:
    """Return what was asked of a report and how it went; errors of the app fail unasked."""
    missed = bounds.below(report, at_least)
    found = []
    for path, bound in at_least.items():
        if path in missed:
            said = bounds.describe(report, path, missed[path], bound)
            found.append(Check("FAILED", said))
        else:
            value = report.metrics.get(path, 0.0)
            found.append(Check("ok", f"{path} is {value:.4g}, at least {bound:g}"))
    if compared is not None:
        found += _against(compared)
    if report.errors:
        rows = plural(sum(report.errors.values()), "row")
        found.append(Check("FAILED", f"the model raised on {rows}"))
    return found


def _against(compared: Comparison) -> list[Check]:
    found = [Check("WORSE", describe(change)) for change in compared.worse]
    found += [
        Check("LOST", f"{name} rated rows before, and none of them now") for name in compared.lost
    ]
    rows = plural(compared.pairs, "row")
    return found or [Check("ok", f"no metric surely got worse than in the baseline ({rows})")]
