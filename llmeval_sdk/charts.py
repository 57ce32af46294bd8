"""Charts as SVG text, for pages that load and run nothing: those of the viewer.

A chart is a Vega-Lite specification. Vega draws it here, not in the browser, and gives its marks
the labels a screen reader says. Colours are CSS variables with a light default, so that the page
around the chart decides between light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.errors import missing_extra


INK = "var(--chart-ink, #333333)"
"""Text and axes."""
GRID = "var(--chart-grid, #dddddd)"
SERIES = tuple(
    f"var(--chart-{number}, {colour})"
    for number, colour in enumerate(("#2f6fde", "#c2571a", "#2a8a5c", "#8a4fbf", "#b3374f"), 1)
)
"""Colours of the series, in order; they differ in lightness too."""


def svg(spec: Mapping[str, Any], *, title: str) -> str:
    """Draw a chart.

    Args:
        spec: A Vega-Lite specification, without colours of its own where `SERIES` will do.
        title: What the chart shows, for a screen reader.

    Returns:
        One ``<svg>`` element. Texts in `spec` and `title` are escaped.

    Raises:
        MissingExtraError: vl-convert is not installed.
        ValueError: `spec` is not one.
    """
    try:
        import vl_convert
    except ImportError:
        raise missing_extra("A chart", "viewer", "vl-convert-python") from None
    whole = {"background": None, **spec, "description": title, "config": _CONFIG}
    drawn: str = vl_convert.vegalite_to_svg(whole)
    return drawn


_CONFIG: Mapping[str, Any] = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "domainColor": GRID, "tickColor": GRID,
        "gridColor": GRID, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK},
    "title": {"color": INK, "anchor": "start", "fontSize": 13},
    "range": {"category": list(SERIES)},
    "mark": {"color": SERIES[0]},
    "rule": {"color": INK},
    "text": {"color": INK},
}  # fmt: skip
