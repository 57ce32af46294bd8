"""The table of metrics on a report's page: values, distributions and changes.

Each drawing is one cell of the table and is written as SVG by hand: a chart library would need ten
times the text for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from llmeval_sdk.model import values
from llmeval_sdk.offline.report._page_markup import cells, mark, metric, table, text
from llmeval_sdk.offline.report.aggregate import Aggregate, EvaluatorTally
from llmeval_sdk.offline.report.compare import Change
from llmeval_sdk.offline.report.gate import ReportGate, above, below
from llmeval_sdk.offline.report.outputs import metric_called
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.summary import STOOD_IN, MetricLine, lines, shown
from llmeval_sdk.text.terminal import changed_by, number


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.contents import ReportContents


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


def _ends(tally: EvaluatorTally) -> tuple[float, float] | None:
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


_SECTIONS = {"response": "Response", "retrieval": "Retrieval", "agent": "Cost and time"}
_OTHERS = "Heuristics and your own"
_FAILED = "Failed"


def metrics(
    report: ReportContents,
    histograms: Histograms,
    gate: ReportGate,
) -> str:
    """Make the table, in the sections of the schema; above them what failed."""
    sections: dict[str, list[MetricLine]] = {}
    failed = {
        *map(metric_called, below(report, gate.at_least, gate.min_rated)),
        *map(metric_called, above(report, gate.at_most, gate.min_rated)),
    }
    bounds = {metric_called(path): bound for path, bound in gate.at_least.items()}
    failed |= set() if gate.compared is None else {each.path for each in gate.compared.worse}
    for line in lines(report):
        part = line.path.partition("/")[0]
        title = _FAILED if line.path in failed else _SECTIONS.get(part, _OTHERS)
        sections.setdefault(title, []).append(line)
    changes = _Changes(gate.compared)
    head = [("", "metric"), ("number", "value"), ("desk", ""), ("desk", "distribution")]
    head += [("number", "rows"), *changes.titles]
    rows = []
    for title in (_FAILED, *_SECTIONS.values(), _OTHERS):
        if title in sections:
            rows.append(f'<tr class="section"><th colspan="{len(head)}">{title}</th></tr>')
        rows += [
            cells([*_about(line, histograms, bounds), *changes.of(line.path)])
            for line in sections.get(title, ())
        ]
    return table(head, rows)


def _about(
    line: MetricLine, histograms: Histograms, at_least: Mapping[str, float]
) -> Iterable[tuple[str, str]]:
    less = ' <span class="soft" title="less is better">↓</span>'
    by = f" {mark(STOOD_IN, good=None)}" if line.stood_in else ""
    yield "", metric(line.path, line.evaluator) + less * values.high_is_bad(line.evaluator) + by
    yield "number", shown(line.value)
    is_share = not line.path.startswith("agent/")
    yield "desk", bar(line.value, at_least.get(line.path)) if is_share else ""
    yield "desk", histograms.draw(line.evaluator)
    why = ""
    if line.why:
        kind = "bad" if line.failed else "soft"
        why = f'<br><small class="{kind}">{text(line.why)}</small>'
    yield "number", f"{line.rated:,}{why}"


class _Changes:
    """The columns that stand there only where there is a baseline."""

    def __init__(self, compared: Comparison | None) -> None:
        changes = () if compared is None else compared.changes
        self._by_path: dict[str, Change] = {each.path: each for each in changes}
        self._is_shown = compared is not None
        ends = [
            abs(end) for each in changes if _is_share(each) for end in (each.low, each.high) if end
        ]
        self._reach = max(ends, default=0.0)

    @property
    def titles(self) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        return [("number desk", "before"), ("number", "difference"), ("desk", "95 % interval")]

    def of(self, path: str) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        change = self._by_path.get(path)
        if change is None:
            return [("desk", ""), ("", ""), ("desk", "")]
        by = changed_by(change.difference)
        shown_difference = f'<span class="{change.verdict}">{by}</span>'
        drawn = difference(change, self._reach) if _is_share(change) else ""
        return [
            ("number soft desk", shown(change.before)),
            ("number", shown_difference),
            ("desk", drawn),
        ]


def _is_share(change: Change) -> bool:
    return 0 <= change.before <= 1 and 0 <= change.after <= 1
