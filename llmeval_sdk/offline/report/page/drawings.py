"""The small drawings of a report's page: a bar, a distribution, a difference with its interval.

Each is one cell of a table, so they are written as they are: a chart library would need ten times
the text for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from llmeval_sdk._terminal import number
from llmeval_sdk.offline.report.change import Change
from llmeval_sdk.offline.results.aggregate import Aggregate, Tally
from llmeval_sdk.offline.results.row import Row


BINS = 20
WIDTH, HEIGHT = 100, 20


def bar(value: float | None, bound: float | None) -> str:
    """Draw a share or a mean within 0..1, and the bound that was asked for."""
    if value is None or not 0 <= value <= 1:
        return ""
    mark = f'<i class="bound" style="left:{bound:.1%}"></i>' if bound is not None else ""
    kind = " missed" if bound is not None and value < bound else ""
    return f'<span class="bar{kind}"><i style="width:{value:.1%}"></i>{mark}</span>'


class Histograms:
    """How the numbers of each evaluator are distributed, counted while rows stream by."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._ends = {
            name: ends
            for name, tally in aggregate.tallies.items()
            if (ends := _ends(tally)) is not None
        }
        self._bins: dict[str, Counter[int]] = {name: Counter() for name in self._ends}

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass rows on and count their values."""
        for row in rows:
            for name, (low, high) in self._ends.items():
                evaluation = row.evaluations.get(name)
                if evaluation is not None and type(evaluation.value) is float:
                    place = int((evaluation.value - low) / (high - low) * BINS)
                    self._bins[name][min(place, BINS - 1)] += 1
            yield row

    def draw(self, name: str) -> str:
        """Draw an evaluator's values; empty where they are no numbers."""
        bins = self._bins.get(name)
        if not bins:
            return ""
        low, high = self._ends[name]
        step, most = (high - low) / BINS, max(bins.values())
        columns = []
        for place, times in sorted(bins.items()):
            tall = max(1.0, times / most * (HEIGHT - 1))
            begins, ends = number(low + place * step), number(low + (place + 1) * step)
            columns.append(
                f'<rect x="{place * WIDTH / BINS:g}" y="{HEIGHT - tall:.1f}" width="4" '
                f'height="{tall:.1f}"><title>{begins} to {ends}: {times:,} rows</title></rect>'
            )
        about = number(low) if len(bins) == 1 else f"{number(low)} to {number(high)}"
        return _svg("spark", f"distribution: {about}", "".join(columns)) + (
            "" if (low, high) == (0, 1) else f' <small class="soft">{about}</small>'
        )


def _ends(tally: Tally) -> tuple[float, float] | None:
    if tally.low is None or tally.high is None or len(tally.sums) > 1:
        return None
    if tally.low >= 0 and tally.high <= 1:
        return 0.0, 1.0
    return (tally.low, tally.high) if tally.high > tally.low else (tally.low, tally.low + 1)


def difference(change: Change, reach: float) -> str:
    """Draw a difference and its interval around zero, on a scale of ``-reach..reach``."""
    if change.low is None or change.high is None or not reach:
        return ""

    def at(value: float) -> str:
        return f"{WIDTH / 2 * (1 + 0.94 * max(-1, min(1, value / reach))):.1f}"

    middle = HEIGHT / 2
    return _svg(
        f"forest {change.verdict}",
        f"{change.difference:+.3g}, 95 % interval {change.low:+.3g} to {change.high:+.3g}",
        f'<path class="zero" d="M{WIDTH / 2:g} 0V{HEIGHT}"/>'
        f'<path d="M{at(change.low)} {middle:g}H{at(change.high)}"/>'
        f'<circle cx="{at(change.difference)}" cy="{middle:g}" r="3"/>',
    )


def _svg(kind: str, title: str, inside: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
        f"{inside}</svg>"
    )
