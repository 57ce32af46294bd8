"""SVG drawn in plain Python: the shapes, texts and axes of one chart.

A chart may hold text written by a stranger, and the process that draws it may serve an app.
Therefore no native library draws it, and every text is cleaned and escaped here. Colours are CSS
variables with a light default, so that the page around the chart chooses between light and dark.
Every mark has a label for screen readers, which is also its tooltip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

from markupsafe import Markup, escape

from llmeval_sdk.viewer._render import visible


INK = "var(--chart-ink, #333333)"
GRID = "var(--chart-grid, #dddddd)"
SERIES = tuple(
    f"var(--chart-{number}, {colour})"
    for number, colour in enumerate(("#2f6fde", "#c2571a", "#2a8a5c", "#8a4fbf", "#b3374f"), 1)
)
"""The colours of the series in order; they also differ in lightness, for the colour-blind."""
LETTER = 6.2
"""The approximate width of a letter on an axis."""
MOST_TEXT = 200


def text_of(value: object) -> str:
    """Return a text that is safe inside SVG: shortened, escaped and without control characters."""
    return str(escape(visible(str(value)[:MOST_TEXT])))


def fitted(text: str, width: float) -> str:
    """Shorten a text to the letters that fit a width."""
    most = max(int(width / LETTER), 1)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return evenly spaced round numbers from ``low`` to ``high``, about ``most`` of them."""
    span = high - low
    if not isfinite(span) or span <= 0:
        return [low]
    exact = span / most
    power = 10.0 ** floor(log10(exact))
    if not power or not isfinite(power):
        return [low, high]
    step = power * next((digit for digit in (1, 2, 5) if power * digit >= exact * 0.999), 10)
    first = floor(low / step + 0.999)
    count = int((high - first * step) / step + 1.001)
    return [(first + n) * step for n in range(min(count, 2 * most))]


class Drawing:
    """One ``<svg>`` element that is drawn part by part; the origin is the upper left corner."""

    def __init__(self, width: float, height: float, title: str) -> None:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{text_of(title)}" '
            f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
            'font-family="system-ui, sans-serif" font-size="11">'
        )
        self._parts = [head]

    def done(self) -> Markup:
        """Return the whole as markup."""
        return Markup("".join([*self._parts, "</svg>"]))  # noqa: S704 - texts are escaped

    def text(self, x: float, y: float, text: object, anchor: str = "middle") -> None:
        """Write a text whose base line begins, has its middle or ends at a point."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}">'
            f"{text_of(text)}</text>"
        )

    def rule(self, ends: tuple[float, float, float, float], colour: str = GRID) -> None:
        """Draw a thin line of an axis or a grid, from x and y to x and y."""
        x1, y1, x2, y2 = (f"{end:.1f}" for end in ends)
        self._parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>')

    def bar(
        self, box: tuple[float, float, float, float], label: object, colour: str = SERIES[0]
    ) -> None:
        """Fill a box, given by its left, top, width and height."""
        x, y, width, height = (f"{max(each, 0):.1f}" for each in box)
        self._mark(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"', "bar", label
        )

    def dot(self, x: float, y: float, label: object, colour: str = SERIES[0]) -> None:
        """Mark one point of a line."""
        self._mark(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"', "point", label)

    def band(self, x: float, low: float, high: float, colour: str = SERIES[0]) -> None:
        """Draw an interval as an upright stroke."""
        self._parts.append(
            f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{colour}" '
            'stroke-width="5" opacity="0.25"/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = SERIES[0], dashes: str = ""
    ) -> None:
        """Join points."""
        if len(points) > 1:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
            self._parts.append(
                f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'
            )

    def legend(self, x: float, y: float, width: float, names: Iterable[tuple[str, str]]) -> None:
        """Write what each colour stands for, in as many rows as needed."""
        at = x
        for name, colour in names:
            shown = fitted(name, width - 20)
            wide = 22 + LETTER * len(shown)
            if at + wide > x + width and at > x:
                at, y = x, y + 15
            self._parts.append(
                f'<rect x="{at:.1f}" y="{y - 8:.1f}" width="9" height="9" fill="{colour}"/>'
            )
            self.text(at + 13, y, shown, "start")
            at += wide

    def _mark(self, element: str, kind: str, label: object) -> None:
        words = text_of(label)
        self._parts.append(
            f'{element} role="graphics-symbol" aria-roledescription="{kind}" '
            f'aria-label="{words}"><title>{words}</title></{element[1:].partition(" ")[0]}>'
        )
