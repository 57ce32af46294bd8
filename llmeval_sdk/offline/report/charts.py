"""The charts of a report's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from llmeval_sdk.charts import SERIES, svg
from llmeval_sdk.offline.report.compare import Comparison
from llmeval_sdk.offline.report.summary import Line
from llmeval_sdk.offline.results.aggregate import Aggregate, Tally
from llmeval_sdk.offline.results.row import Row


BINS = 20
MOST_BARS = 24


class Histograms:
    """How the numbers of each evaluator are distributed, counted while rows stream by."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._ends = {
            name: ends
            for name, tally in aggregate.tallies.items()
            if (ends := _ends(tally)) is not None
        }
        self.bins: dict[str, Counter[int]] = {name: Counter() for name in self._ends}

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass rows on and count their values."""
        for row in rows:
            for name, (low, high) in self._ends.items():
                evaluation = row.evaluations.get(name)
                if evaluation is not None and type(evaluation.value) is float:
                    place = int((evaluation.value - low) / (high - low) * BINS)
                    self.bins[name][min(place, BINS - 1)] += 1
            yield row

    def draw(self) -> str:
        """Draw one small chart for each evaluator that gives numbers."""
        return "".join(self._draw(name) for name in self.bins if self.bins[name])

    def _draw(self, name: str) -> str:
        low, high = self._ends[name]
        width = (high - low) / BINS
        values = [
            {"from": low + place * width, "to": low + (place + 1) * width, "rows": times}
            for place, times in sorted(self.bins[name].items())
        ]
        spec = {
            "title": name,
            "width": 250,
            "height": 90,
            "data": {"values": values},
            "mark": {"type": "bar", "binSpacing": 1},
            "encoding": {
                "x": {
                    "field": "from",
                    "type": "quantitative",
                    "bin": {"binned": True},
                    "title": None,
                    "scale": {"domain": [low, high]},
                    "axis": {"tickCount": 5, "grid": False},
                },
                "x2": {"field": "to"},
                "y": {"field": "rows", "type": "quantitative", "axis": {"tickCount": 3}},
            },
        }
        return svg(spec, title=f"How the values of {name} are distributed")


def _ends(tally: Tally) -> tuple[float, float] | None:
    if tally.low is None or tally.high is None or len(tally.sums) > 1:
        return None
    if tally.low >= 0 and tally.high <= 1:
        return 0.0, 1.0
    return (tally.low, tally.high) if tally.high > tally.low else (tally.low, tally.low + 1)


_NAMES: dict[str, Any] = {
    "field": "metric",
    "type": "nominal",
    "sort": None,
    "title": None,
    "axis": {"labelLimit": 420, "ticks": False, "domain": False, "labelPadding": 8},
}
_LEFT = {"left": 40, "right": 20, "top": 5, "bottom": 5}
"""Room for a reader's font that is wider than the one the labels were measured with."""
_COMMON = frozenset((
    "response", "retrieval", "llm_judged", "ground_truth", "agent", "rating", "precision",
    "average", "percentage",
))  # fmt: skip


def _short(path: str) -> str:
    """Name a metric by what tells it from the others: its evaluator, and its category if any."""
    return ": ".join(part for part in path.split("/") if part not in _COMMON) or path


def shares(lines: Iterable[Line]) -> str:
    """Draw the metrics that lie in 0..1 as bars."""
    values = [
        {"metric": _short(line.path), "value": line.value}
        for line in lines
        if line.value is not None and 0 <= line.value <= 1 and not line.path.startswith("agent/")
    ][:MOST_BARS]
    if not values:
        return ""
    spec: dict[str, Any] = {
        "width": 420,
        "height": {"step": 20},
        "padding": _LEFT,
        "data": {"values": values},
        "encoding": {"y": _NAMES},
        "layer": [
            {
                "mark": {"type": "bar", "height": 12},
                "encoding": {
                    "x": {
                        "field": "value",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1]},
                        "title": None,
                        "axis": {"format": "%", "tickCount": 5},
                    }
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {
                    "x": {"field": "value", "type": "quantitative"},
                    "text": {"field": "value", "format": ".2f"},
                },
            },
        ],
    }
    return svg(spec, title="Metrics between 0 and 1")


def changes(compared: Comparison) -> str:
    """Draw the differences with their intervals; what got worse is another colour."""
    values = [
        {
            "metric": _short(change.path),
            "difference": change.difference,
            "low": change.difference if change.low is None else change.low,
            "high": change.difference if change.high is None else change.high,
            "verdict": change.verdict,
        }
        for change in compared.changes
        if abs(change.difference) <= 1
    ][:MOST_BARS]
    if not values:
        return ""
    colours = {"worse": SERIES[4], "better": SERIES[2]}
    words = ["better", "worse", "changed", "unsure", "unchanged"]
    spec: dict[str, Any] = {
        "width": 420,
        "height": {"step": 20},
        "padding": _LEFT,
        "data": {"values": values},
        "encoding": {
            "y": _NAMES,
            "color": {
                "field": "verdict",
                "type": "nominal",
                "legend": None,
                "scale": {
                    "domain": words,
                    "range": [colours.get(word, SERIES[0]) for word in words],
                },
            },
        },
        "layer": [
            {
                "mark": {"type": "rule", "size": 2},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative", "title": "difference"},
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {"x": {"field": "difference", "type": "quantitative"}},
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [3, 3]},
                "encoding": {"x": {"datum": 0}, "y": None, "color": None},
            },
        ],
    }
    return svg(spec, title="Differences to the baseline with 95 % intervals")
