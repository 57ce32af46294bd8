"""The charts of the score pages, as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from llmeval_sdk import charts
from llmeval_sdk.errors import MissingExtraError
from llmeval_sdk.store.populations import Population
from llmeval_sdk.viewer._figures import Figures


SIZE = {"width": 460, "height": 190}
MOST_WORDS = 12
_TIME = {
    "field": "time",
    "type": "temporal",
    "title": None,
    "axis": {"grid": False, "labelOverlap": True, "tickCount": 5},
}


def drawn(spec: Mapping[str, Any], title: str) -> Markup | None:
    """Draw a chart; ``None`` where the library for it is missing, and the table has to do."""
    import json

    return _drawn(json.dumps(spec), title)


@lru_cache(maxsize=128)
def _drawn(spec: str, title: str) -> Markup | None:
    import json

    try:
        return Markup(charts.svg(json.loads(spec), title=title))  # noqa: S704 - texts are escaped
    except MissingExtraError:
        return None


def trend(means: Sequence[tuple[int, float, int]], *, share: bool) -> Mapping[str, Any]:
    """Return the mean over time."""
    rows = [{"time": _ms(begin), "mean": round(mean, 4), "n": n} for begin, mean, n in means]
    return {
        **SIZE,
        "data": {"values": rows},
        "mark": {"type": "line", "point": {"size": 24}, "strokeWidth": 2},
        "encoding": {"x": _TIME, "y": _y("mean", "mean", share=share)},
    }


def estimates(found: Sequence[Population]) -> Mapping[str, Any]:
    """Return the mean over all traffic with its interval, and the plain mean beside it."""
    rows = [
        {
            "time": _ms(each.period_ns or 0),
            "mean": each.estimate.mean,
            "low": each.estimate.low,
            "high": each.estimate.high,
        }
        for each in found
        if each.estimate is not None
    ]
    plain = [{"time": _ms(e.period_ns or 0), "mean": e.mean} for e in found if e.mean is not None]
    return {
        **SIZE,
        "layer": [
            {
                "data": {"values": rows},
                "mark": {
                    "type": "rule",
                    "strokeWidth": 5,
                    "opacity": 0.25,
                    "color": charts.SERIES[0],
                },
                "encoding": {
                    "x": _TIME,
                    "y": _y("low", "yes", share=True),
                    "y2": {"field": "high"},
                },
            },
            {
                "data": {"values": plain},
                "mark": {"type": "line", "strokeDash": [3, 3], "color": charts.SERIES[1]},
                "encoding": {"x": _TIME, "y": _y("mean", "mean", share=True)},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "point": {"size": 24}, "color": charts.SERIES[0]},
                "encoding": {"x": _TIME, "y": _y("mean", "mean", share=True)},
            },
        ],
    }


def distribution(found: Figures) -> Mapping[str, Any]:
    """Return how often scores lie in each part of their range."""
    step = (found.high - found.low) / len(found.histogram)
    rows = [
        {
            "from": round(found.low + n * step, 6),
            "to": round(found.low + (n + 1) * step, 6),
            "count": count,
        }
        for n, count in enumerate(found.histogram)
    ]
    return {
        **SIZE,
        "data": {"values": rows},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "x": {
                "field": "from",
                "bin": {"binned": True, "step": step},
                "title": "score",
                "axis": {"grid": False},
            },
            "x2": {"field": "to"},
            "y": {
                "field": "count",
                "type": "quantitative",
                "title": "records",
                "axis": {"tickCount": 4},
            },
        },
    }


def categories(counts: Mapping[str, int]) -> Mapping[str, Any]:
    """Return how often each category was given."""
    shown = list(counts.items())[:MOST_WORDS]
    rows = [{"category": word[:40], "records": times} for word, times in shown]
    return {
        "width": SIZE["width"] - 60,
        "height": {"step": 26},
        "data": {"values": rows},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": {
                "field": "category",
                "type": "nominal",
                "sort": "-x",
                "title": None,
                "axis": {"labelLimit": 160},
            },
            "x": {"field": "records", "type": "quantitative", "axis": {"tickCount": 4}},
        },
    }


def words_over_time(rows: Sequence[tuple[int, str, int]]) -> Mapping[str, Any]:
    """Return the share of each category over time."""
    values = [{"time": _ms(begin), "category": word[:40], "n": n} for begin, word, n in rows]
    return {
        **SIZE,
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {**_TIME, "type": "ordinal", "timeUnit": None, "axis": None},
            "y": {
                "field": "n",
                "type": "quantitative",
                "stack": "normalize",
                "title": "share",
                "axis": {"format": "%", "tickCount": 4},
            },
            "color": {
                "field": "category",
                "type": "nominal",
                "title": None,
                "legend": {"orient": "bottom"},
            },
        },
    }


def _y(field: str, title: str, *, share: bool) -> dict[str, Any]:
    scale = {"domain": [0, 1]} if share else {"zero": True}
    return {
        "field": field, "type": "quantitative", "title": title, "scale": scale,
        "axis": {"tickCount": 5},
    }  # fmt: skip


def _ms(time_ns: int) -> int:
    return time_ns // 1_000_000
