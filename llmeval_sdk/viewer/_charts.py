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
PHONE_LESS = 210
"""How much narrower a chart is on a phone, where one made small would have letters too small."""
MOST_WORDS = 12
_SPARSE = {"labelOverlap": True, "labelSeparation": 12}
_FORMATS = ((1, "%H:%M:%S.%L"), (60, "%H:%M:%S"), (86_400, "%d %b %H:%M"), (1 << 40, "%d %b"))
"""How times are written where a period is shorter than so many seconds."""


def drawn(spec: Mapping[str, Any], title: str) -> Markup | None:
    """Draw a chart for a wide screen and for a phone; the style sheet shows one of them.

    ``None`` where the library for it is missing, and the table has to do.
    """
    import json

    wide = _drawn(json.dumps(spec), title)
    narrow = _drawn(json.dumps({**spec, "width": spec["width"] - PHONE_LESS}), title)
    if wide is None or narrow is None:
        return None
    both = Markup('<div class="desk">{}</div><div class="phone">{}</div>')
    return both.format(wide, narrow)


@lru_cache(maxsize=128)
def _drawn(spec: str, title: str) -> Markup | None:
    import json

    try:
        return Markup(charts.svg(json.loads(spec), title=title))  # noqa: S704 - texts are escaped
    except MissingExtraError:
        return None


def trend(
    means: Sequence[tuple[int, float, int]], period_ns: int, *, share: bool
) -> Mapping[str, Any]:
    """Return the mean over time."""
    rows = [{"time": _ms(begin), "mean": round(mean, 4), "n": n} for begin, mean, n in means]
    return {
        **SIZE,
        "data": {"values": rows},
        "mark": {"type": "line", "point": {"size": 24}, "strokeWidth": 2},
        "encoding": {"x": _time(period_ns), "y": _y("mean", share=share)},
    }


def estimates(found: Sequence[Population], period_ns: int) -> Mapping[str, Any]:
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
        "encoding": {"x": _time(period_ns)},
        "layer": [
            {
                "data": {"values": rows},
                "mark": {
                    "type": "rule",
                    "strokeWidth": 5,
                    "opacity": 0.25,
                    "color": charts.SERIES[0],
                },
                "encoding": {"y": _y("low", share=True), "y2": {"field": "high"}},
            },
            {
                "data": {"values": plain},
                "mark": {"type": "line", "strokeDash": [3, 3], "color": charts.SERIES[1]},
                "encoding": {"y": _y("mean", share=True)},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "point": {"size": 24}, "color": charts.SERIES[0]},
                "encoding": {"y": _y("mean", share=True)},
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
        "mark": {"type": "bar", "orient": "vertical", "binSpacing": 2},
        "encoding": {
            "x": {
                "field": "from",
                "bin": {"binned": True, "step": step},
                "title": "score",
                "axis": {"grid": False, **_SPARSE},
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


def words_over_time(rows: Sequence[tuple[int, str, int]], period_ns: int) -> Mapping[str, Any]:
    """Return the share of each category over time."""
    values = [{"time": _ms(begin), "category": word[:40], "n": n} for begin, word, n in rows]
    return {
        **SIZE,
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {**_time(period_ns), "type": "ordinal"},
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
                "legend": {"orient": "bottom", "columns": 4},
            },
        },
    }


def _time(period_ns: int) -> dict[str, Any]:
    written = next(text for seconds, text in _FORMATS if period_ns < seconds * 1e9)
    axis = {
        "grid": False, "labelAngle": 0, "tickCount": 5, "format": written, "formatType": "time",
        **_SPARSE,
    }  # fmt: skip
    return {"field": "time", "type": "temporal", "title": None, "axis": axis}


def _y(field: str, *, share: bool) -> dict[str, Any]:
    scale = {"domain": [0, 1]} if share else {"zero": True}
    return {
        "field": field, "type": "quantitative", "title": "mean", "scale": scale,
        "axis": {"tickCount": 5},
    }  # fmt: skip


def _ms(time_ns: int) -> int:
    return time_ns // 1_000_000
