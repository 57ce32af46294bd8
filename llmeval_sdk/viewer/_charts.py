"""The charts of the score pages, drawn with `_svg`.

Each chart is drawn twice, for a wide screen and for a phone, and the style sheet shows one of the
two. A single drawing, scaled down for a phone, would have letters too small to read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor, isfinite, log10

from markupsafe import Markup, escape

from llmeval_sdk.model import values
from llmeval_sdk.store.populations import Population
from llmeval_sdk.store.scores import BINS, RecentEvaluations, bin_of, has_bins
from llmeval_sdk.text.terminal import number, plural
from llmeval_sdk.viewer._render import visible, when


# SVG drawn in plain Python: the shapes, texts and axes of one chart.
#
# A chart may hold text written by a stranger, and the process that draws it may serve an app.
# Therefore no native library draws it, and every text is cleaned and escaped here. Colours are
# CSS variables with a light default, so that the page around the chart chooses between light and
# dark. Every mark has a label for screen readers, which is also its tooltip.

INK = "var(--chart-ink, #333333)"
GRID = "var(--chart-grid, #dddddd)"
SERIES = tuple(
    f"var(--chart-{number}, {colour})"
    for number, colour in enumerate(("#2f6fde", "#c2571a", "#2a8a5c", "#8a4fbf", "#b3374f"), 1)
)
"""The colours of the series in order; they also differ in lightness, for the colour-blind."""
LETTER = 6.2
"""The approximate width of a letter on an axis."""
MAX_TEXT = 200


def text_of(value: object) -> str:
    """Return a text that is safe inside SVG: shortened, escaped and without control characters."""
    return str(escape(visible(str(value)[:MAX_TEXT])))


def fitted(text: str, width: float) -> str:
    """Shorten a text to as many letters as fit into a width."""
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


# The figures of one evaluator: what many of its scores add up to.

POINTS = 40
"""The largest number of periods in a trend."""
_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000,
)  # fmt: skip
"""The lengths that a period may have, in seconds."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A summary of the scores of one evaluator."""

    name: str
    judge: bool
    count: int
    mean: float | None
    """The plain mean, counting yes and pass as 1, no and fail as 0; ``None`` for other words."""
    low: float
    high: float
    """The range of `histogram`."""
    histogram: tuple[int, ...]
    categories: Mapping[str, int]
    """How often each category was given, most frequent first."""
    failed: int
    not_applicable: int
    capped: bool

    @property
    def shares(self) -> list[tuple[str, int, float]]:
        """Return the categories with their counts and shares."""
        return [(name, times, times / self.count) for name, times in self.categories.items()]


def figures(name: str, recent: RecentEvaluations, *, judge: bool) -> Figures:
    """Summarise the latest scores of an evaluator."""
    there = [value for value in recent.values if value is not None]
    numbers = [value for value in there if type(value) is float and isfinite(value)]
    words = Counter(_word(value) for value in there if type(value) is not float)
    rated = [values.number(value) for value in there if not values.is_neutral(value)]
    rates = [rating for rating in rated if rating is not None]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return Figures(
        name,
        judge,
        len(there),
        sum(rates) / len(rates) if len(rates) == len(rated) > 0 else None,
        low,
        high,
        _histogram(numbers, low, high),
        dict(words.most_common()),
        recent.failed,
        len(recent.values) - len(there) - recent.failed,
        recent.capped,
    )


def _word(value: float | str) -> str:
    return value if isinstance(value, str) else values.word(value)


def _histogram(numbers: Sequence[float], low: float, high: float) -> tuple[int, ...]:
    if not numbers or not has_bins(low, high):
        return ()
    bins = Counter(bin_of(value, low, high) for value in numbers)
    return tuple(bins[place] for place in range(BINS))


def period_of(times: Sequence[int]) -> int:
    """Return the length, in nanoseconds, that divides these times into at most `POINTS` periods."""
    seconds = (max(times) - min(times)) / 1e9 if times else 0.0
    step = next((step for step in _STEPS if seconds / step <= POINTS), _STEPS[-1])
    return int(step * 1e9)


def means_by_period(recent: RecentEvaluations, period_ns: int) -> list[tuple[int, float, int]]:
    """Return the beginning, mean and count of each period that has scores.

    There are none if any value is a category, because words have no mean.
    """
    if any(
        isinstance(value, str) and values.number(value) is None and not values.is_neutral(value)
        for value in recent.values
    ):
        return []
    sums: dict[int, list[float]] = {}
    for time_ns, value in zip(recent.times, recent.values, strict=True):
        number = values.number(value)
        if number is not None:
            total = sums.setdefault(time_ns - time_ns % period_ns, [0.0, 0])
            total[0] += number
            total[1] += 1
    return [(begin, total / times, int(times)) for begin, (total, times) in sorted(sums.items())]


def words_by_period(recent: RecentEvaluations, period_ns: int) -> list[tuple[int, str, int]]:
    """Return how often each category was given in each period."""
    counts: Counter[tuple[int, str]] = Counter()
    for time_ns, value in zip(recent.times, recent.values, strict=True):
        if value is not None and type(value) is not float:
            counts[time_ns - time_ns % period_ns, _word(value)] += 1
    return [(begin, word, times) for (begin, word), times in sorted(counts.items())]


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of some ordered values lies."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


WIDE, NARROW = 520, 310
HEIGHT = 232
MAX_WORDS = 12
MAX_SERIES = len(SERIES)
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
    shown = list(counts.items())[:MAX_WORDS]
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
    named = named if len(named) <= MAX_SERIES else named[: MAX_SERIES - 1]
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
