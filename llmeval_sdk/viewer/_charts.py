"""The charts of the score pages, drawn with `_svg`.

Each chart is drawn twice, for a wide screen and for a phone, and the style sheet shows one of the
two. A single drawing, scaled down for a phone, would have letters too small to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

from markupsafe import Markup

from llmeval_sdk._terminal import number, plural
from llmeval_sdk.store.populations import Population
from llmeval_sdk.viewer._figures import Figures
from llmeval_sdk.viewer._render import when
from llmeval_sdk.viewer._svg import GRID, LETTER, SERIES, Drawing, fitted, ticks


WIDE, NARROW = 520, 310
HEIGHT = 232
MOST_WORDS = 12
MOST_SERIES = len(SERIES)
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 24
_ROW = 26
_FORMATS = ((1, "%H:%M:%S.%f"), (60, "%H:%M:%S"), (86_400, "%d %b %H:%M"), (1 << 60, "%d %b"))
"""How times are written if a period is shorter than this many seconds."""


def drawn(draw: Callable[[float, str], Markup], title: str) -> Markup:
    """Return the chart as HTML that holds both drawings."""
    both = Markup('<div class="desk">{}</div><div class="phone">{}</div>')
    return both.format(draw(WIDE, title), draw(NARROW, title))


@dataclass(frozen=True, slots=True)
class Point:
    """One period of a chart over time."""

    time_ns: int
    mean: float
    low: float | None = None
    high: float | None = None
    count: int = 0


def points_of(populations: Sequence[Population]) -> tuple[list[Point], list[Point]]:
    """Return two lists of points: estimates over all traffic, and means of what was judged."""
    every, judged = [], []
    for population in populations:
        begin, count = population.period_ns or 0, population.funnel.scored
        estimate = population.estimate
        if estimate is not None:
            every.append(Point(begin, estimate.mean, estimate.low, estimate.high, count))
        if population.mean is not None:
            judged.append(Point(begin, population.mean, count=count))
    return every, judged


def over_time(
    points: Sequence[Point], period_ns: int, beside: Sequence[Point] = (), counted: str = "scored",
    *, amount: bool = False, whole: bool = False,
) -> Callable[[float, str], Markup]:  # fmt: skip
    """Return a chart of means with their intervals; ``beside`` them is a dashed line.

    With ``amount`` the scale ends at the largest value, also where that is below 1; with ``whole``
    the values are counts, and only whole numbers stand on the scale.
    """
    ends = [end for p in points for end in (p.low, p.high, p.mean) if end is not None]
    values = [value for value in (*ends, *(p.mean for p in beside)) if isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    is_share = low >= 0 and high <= 1 and not (amount and high)
    low, high = (0.0, 1.0) if is_share else (min(low, 0.0), high)
    times = [p.time_ns for p in (*points, *beside)]

    def draw(width: float, title: str) -> Markup:
        frame = _Frame(width, title, low, high, whole=whole)
        at = _time_axis(frame, min(times, default=0), max(times, default=0), period_ns)
        frame.picture.line([(at(p.time_ns), frame.y(p.mean)) for p in beside], SERIES[1], "3 3")
        frame.picture.line([(at(p.time_ns), frame.y(p.mean)) for p in points])
        for point in points:
            x, interval = at(point.time_ns), ""
            if point.low is not None and point.high is not None:
                frame.picture.band(x, frame.y(point.low), frame.y(point.high))
                interval = f", 95 % from {number(point.low)} to {number(point.high)}"
            label = f"{_clock(point.time_ns, period_ns)}: {number(point.mean)}{interval}"
            frame.picture.dot(x, frame.y(point.mean), f"{label}, {point.count} {counted}")
        return frame.picture.done()

    return draw


def distribution(figures: Figures) -> Callable[[float, str], Markup]:
    """Return a bar chart of how often scores lie in each part of their range."""
    step = (figures.high - figures.low) / max(len(figures.histogram), 1)

    def draw(width: float, title: str) -> Markup:
        frame = _Frame(width, title, 0, max(figures.histogram, default=1), whole=True)
        part = frame.width / max(len(figures.histogram), 1)
        for n, count in enumerate(figures.histogram):
            start, top = figures.low + n * step, frame.y(count)
            label = f"{number(start)} to {number(start + step)}: {plural(count, 'record')}"
            box = (frame.left + n * part + 1, top, part - 2, frame.bottom - top)
            frame.picture.bar(box, label)
        for n in range(0, len(figures.histogram) + 1, 2 if width == WIDE else 5):
            x = frame.left + n * part
            frame.picture.text(x, frame.bottom + 15, number(figures.low + n * step))
        return frame.picture.done()

    return draw


def categories(counts: Mapping[str, int]) -> Callable[[float, str], Markup]:
    """Return a bar chart of how often each of the most frequent categories was given."""
    shown = list(counts.items())[:MOST_WORDS]
    most = max((times for _, times in shown), default=1) or 1
    longest = max((len(word) for word, _ in shown), default=0)

    def draw(width: float, title: str) -> Markup:
        left = min(longest * LETTER + 10, 0.42 * width)
        room = width - left - 12 - LETTER * len(f"{most:,}")
        picture = Drawing(width, len(shown) * _ROW + 8, title)
        for place, (word, times) in enumerate(shown):
            y = place * _ROW + 4
            picture.text(left - 6, y + 14, fitted(word, left - 6), "end")
            picture.bar(
                (left, y, room * times / most, _ROW - 7), f"{word}: {plural(times, 'record')}"
            )
            picture.text(left + room * times / most + 5, y + 14, f"{times:,}", "start")
        return picture.done()

    return draw


def words_over_time(
    rows: Sequence[tuple[int, str, int]], period_ns: int
) -> Callable[[float, str], Markup]:
    """Return a stacked chart of the share of each category by period; the rarest are one series."""
    totals: dict[str, int] = {}
    by_period: dict[int, dict[str, int]] = {}
    for begin, word, times in rows:
        totals[word] = totals.get(word, 0) + times
        by_period.setdefault(begin, {})[word] = times
    named = sorted(totals, key=lambda word: (-totals[word], word))
    named = named if len(named) <= MOST_SERIES else named[: MOST_SERIES - 1]
    colours = dict(zip(named, SERIES, strict=False))
    others = len(totals) > len(named)

    def draw(width: float, title: str) -> Markup:
        frame = _Frame(width, title, 0, 1, below=36, share=True)
        first, last = min(by_period, default=0), max(by_period, default=0)
        slots = (last - first) // period_ns + 1
        part = frame.width / slots
        at = _time_axis(frame, first, last, period_ns, inset=part / 2)
        for begin, words in sorted(by_period.items()):
            total, bottom = sum(words.values()) or 1, float(frame.bottom)
            rest = total - sum(words.get(word, 0) for word in named)
            for word, times in [*((word, words.get(word, 0)) for word in named), ("others", rest)]:
                if times:
                    height = times / total * (frame.bottom - frame.top)
                    bottom -= height
                    box = (at(begin) - 0.45 * part, bottom, 0.9 * part, height)
                    label = f"{_clock(begin, period_ns)}: {word} {times} of {total}"
                    frame.picture.bar(box, label, colours.get(word, GRID))
        legend = [*colours.items(), *([("others", GRID)] if others else [])]
        frame.picture.legend(frame.left, frame.bottom + 36, frame.width, legend)
        return frame.picture.done()

    return draw


class _Frame:
    """A drawing with a vertical scale on its left.

    ``whole`` labels whole numbers only, and ``share`` writes them as percentages.
    """

    def __init__(
        self, width: float, title: str, low: float, high: float, *,
        below: float = 0, whole: bool = False, share: bool = False,
    ) -> None:  # fmt: skip
        labels = {
            tick: f"{tick:.0%}" if share else f"{tick:,.0f}" if whole else number(tick)
            for tick in ticks(low, high, 4)
            if not (whole and tick != int(tick))
        }
        longest = max(map(len, labels.values()), default=0)
        self.left = min(max(_LEFT, longest * LETTER + 10), width / 3)
        self.top, self.bottom = _TOP, HEIGHT - _BOTTOM
        self.width = width - self.left - _RIGHT
        self.picture = Drawing(width, HEIGHT + below, title)
        self._low, self._high = low, high
        for tick, text in labels.items():
            y = self.y(tick)
            self.picture.rule((self.left, y, self.left + self.width, y))
            self.picture.text(self.left - 6, y + 4, fitted(text, self.left - 4), "end")

    def y(self, value: float) -> float:
        span = self._high - self._low
        part = (value - self._low) / span if span > 0 and isfinite(span) else 0.5
        return self.bottom - (min(max(part, 0.0), 1.0) if isfinite(part) else 0.5) * (
            self.bottom - self.top
        )


def _time_axis(
    frame: _Frame, first: int, last: int, period_ns: int, inset: float = 10
) -> Callable[[int], float]:
    """Write as many times below a frame as fit; return a function from a time to its x."""
    room = frame.width - 2 * inset

    def at(time_ns: int) -> float:
        part = (time_ns - first) / (last - first) if last > first else 0.5
        return frame.left + inset + part * room

    periods = (last - first) // period_ns
    widest = LETTER * len(_clock(first, period_ns)) + 14
    every = max(int(-(-(periods + 1) * widest // frame.width)), 1)
    for place in range(0, periods + 1, every):
        time_ns, text = first + place * period_ns, _clock(first + place * period_ns, period_ns)
        half = LETTER * len(text) / 2
        x = min(max(at(time_ns), frame.left + half - 20), frame.left + frame.width - half + 8)
        frame.picture.text(x, frame.bottom + 16, text)
    return at


def _clock(time_ns: int, period_ns: int) -> str:
    at: datetime | None = when(time_ns)
    if at is None:
        return f"{time_ns} ns"
    form = next(text for seconds, text in _FORMATS if period_ns < seconds * 1e9)
    text = f"{at:{form}}"
    return text[:-3] if form.endswith("%f") else text
