"""Two reports of the same rows: how each metric changed, how surely, and which rows got worse."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from llmeval_sdk.errors import DataError, missing_extra
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report.aggregate import ANSWER_METRICS, NO_ANSWER_SHARE
from llmeval_sdk.offline.report.row import Row, contributions, digest_of_request
from llmeval_sdk.offline.report.summary import direction, goodness
from llmeval_sdk.text.terminal import plural, printable, score


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.aggregate import ReportContents


RAISED = 2.0
"""How much a row changes on which the model raised only before, or only now: more than a score
can."""
WORSE_BY = 0.05
"""How much a score of a row has to fall for the row to have regressed."""
MAX_TEXT = 4_000
"""How many characters of a text a page shows."""


class RowPair(NamedTuple):
    """One row in both reports."""

    before: Row
    after: Row
    change: float
    """How much the evaluator that got worst changed, from -1 to 1; where none got worse, the one
    that got best. -2 and 2 stand for a row on which the model raises now, or raised before."""


def says(evaluation: Evaluation | None) -> bool:
    """Return whether an evaluation has anything to show: a value, or an error."""
    return evaluation is not None and (evaluation.value, evaluation.error) != (None, None)


def step_of(before: Evaluation | None, after: Evaluation | None) -> float | None:
    """Return by how much an evaluation got better, or worse if that is negative.

    ``None`` stands for less than `WORSE_BY` either way, and for what is neither good nor bad.
    """
    if before is None or after is None:
        return None
    was, now = goodness(before), goodness(after)
    if was is None or now is None or abs(now - was) < WORSE_BY:
        return None
    return now - was


def _row_keys(report: ReportContents) -> Iterator[tuple[Any, int, Row]]:
    """Yield what identifies each row, its place and the row: its id, else its request, counted."""
    times: dict[Any, int] = {}
    for place, row in enumerate(report.rows):
        key = row.record.request_id or digest_of_request(row.record)
        times[key] = times.get(key, 0) + 1
        yield (key, times[key]), place, row


def _row_change(before: Row, after: Row) -> float | None:
    """Return how much a row changed, as `RowPair` has it; ``None`` if nothing did."""
    if (before.error is None) is not (after.error is None):
        return RAISED if after.error is None else -RAISED
    is_same = before.record.response == after.record.response
    changes = []
    for name, later in after.evaluations.items():
        earlier = before.evaluations.get(name)
        if earlier is None:
            continue
        was, now = goodness(earlier), goodness(later)
        if was is not None and now is not None:
            changes.append(now - was)
        is_same = is_same and (earlier.value == later.value or was is None or now is None)
    worst, best = min(changes, default=0.0), max(changes, default=0.0)
    change = worst if worst < 0 else best
    return None if is_same and not change else change


class ChangedRows:
    """The places of the pairs that changed, of which those that got worst are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, int, int]] = []
        """A heap of changes and places; its first got better than all others."""
        self.count = 0

    def add(self, before: int, after: int, change: float | None) -> None:
        """Take in a pair by its places in both reports."""
        if change is None:
            return
        self.count += 1
        entry = -change, -after, before
        if len(self._kept) < self._most:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def read(self, baseline: ReportContents, report: ReportContents) -> tuple[RowPair, ...]:
        """Return the pairs that are kept, the worst change first."""
        return tuple(
            RowPair(baseline.rows[before], report.rows[-after], -change)
            for change, after, before in sorted(self._kept, reverse=True)
        )


CONFIDENCE = 0.95
RESAMPLES = 2_000
MAX_DRAWS = 50_000_000
"""Rows times resamples for one metric, at most; a mean of so many rows needs fewer resamples."""
MIN_PAIRS = 20
"""Pairs below which no interval is given: resampling so few says little."""
MIN_DIFFERENCE = 0.01
"""The least difference that makes a metric worse: with many rows even a tiny one is sure."""


@dataclass(frozen=True, slots=True)
class Change:
    """One metric in both reports, over the rows that are rated in both."""

    path: str
    pairs: int
    before: float
    after: float
    low: float | None = None
    """The 95 % interval of ``difference``, where there are enough pairs."""
    high: float | None = None
    direction: int = 1
    """1 where more is better, -1 where less is, 0 where neither is."""
    chance: float | None = None
    """How likely so great a difference is where nothing changed (two-sided p, paired)."""

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def verdict(self) -> Literal["better", "worse", "changed", "unchanged", "unsure"]:
        """What the interval says; ``unsure`` where it holds 0, or there is none."""
        if self.low is None or self.high is None:
            return "unsure" if self.difference else "unchanged"
        if self.low == self.high == 0:
            return "unchanged"
        if self.low <= 0 <= self.high:
            return "unsure"
        if self.direction == 0:
            return "changed"
        return "better" if (self.low > 0) is (self.direction > 0) else "worse"


def surely_worse(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return what got worse even when all metrics are seen together.

    Of twenty metrics that did not change, one looks changed at 95 %. Holm's procedure keeps the
    chance that any is blamed wrongly at 5 %, however many there are.
    """
    known = sorted((each for each in changes if each.chance is not None), key=_chance)
    sure = []
    for place, change in enumerate(known):
        if _chance(change) > (1 - CONFIDENCE) / (len(known) - place):
            break
        if change.verdict == "worse" and abs(change.difference) >= MIN_DIFFERENCE:
            sure.append(change)
    return tuple(sure)


def _chance(change: Change) -> float:
    return 1.0 if change.chance is None else change.chance


def _metric_change(
    np: Any,
    random: Any,
    path: str,
    before: array[float],
    after: array[float],
    *,
    direction: int,
) -> Change:
    """Compare the values of a metric, pair by pair."""
    one, other = np.frombuffer(before), np.frombuffer(after)
    low = high = chance = None
    if len(one) >= MIN_PAIRS:
        low, high = interval(np, random, other - one)
        chance = _by_chance(other - one)
    means = float(one.mean()), float(other.mean())
    return Change(path, len(one), *means, low, high, direction, chance)


def interval(np: Any, random: Any, differences: Any) -> tuple[float, float]:
    """Return the percentile interval of the mean difference, from rows drawn with replacement."""
    count = len(differences)
    if not differences.any():
        return 0.0, 0.0
    resamples = int(min(RESAMPLES, max(200, MAX_DRAWS // count)))
    means = [differences[random.integers(0, count, count)].mean() for _ in range(resamples)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _by_chance(differences: Any) -> float:
    """Return the two-sided p of the mean difference, which is about normal from 20 pairs on."""
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if not spread:
        return 0.0 if mean else 1.0
    return math.erfc(abs(mean) / spread * math.sqrt(len(differences) / 2))


def describe_change(change: Change) -> str:
    """Say a change in one line."""
    between = ""
    if change.low is not None and change.high is not None:
        between = f", 95 % [{change.low:+.3g}, {change.high:+.3g}]"
    return (
        f"{change.path}: {change.before:.4g} to {change.after:.4g} "
        f"({change.difference:+.3g}{between})"
    )


_Both = tuple["array[float]", "array[float]"]
"""A metric's values before and after, pair by pair."""


@dataclass(frozen=True, slots=True)
class Regression:
    """One row on which one evaluator says something worse than before."""

    row: Row
    evaluator: str
    before: Evaluation
    after: Evaluation | None
    """``None`` where the model raised."""

    def __repr__(self) -> str:
        now = "raised" if self.after is None else score(self.after.value)
        before = score(self.before.value)
        return f"<Regression {printable(self.row.id, 60)}: {self.evaluator} {before} to {now}>"


NOTHING_COMPARED = "no metric has a value in both reports: nothing was compared"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `Report.compare` found."""

    pairs: int
    """Rows that are in both reports."""
    only_before: int
    only_after: int
    changes: tuple[Change, ...]
    regressions: tuple[Regression, ...]
    """By how much worse, the worst first; at most `MAX_CHANGED_ROWS`."""
    regressed: int
    """How many rows regressed in all."""
    lost: tuple[str, ...] = ()
    """Evaluators that rated rows before and none of them now."""
    rows: tuple[RowPair, ...] = ()
    """Rows side by side whose answer or scores changed, the worst change first; at most
    `MAX_CHANGED_ROWS`."""
    changed: int = 0
    """How many rows changed in all."""
    unrated: Mapping[str, int] = field(default_factory=dict)
    """How many rows that an evaluator rated before it does not rate now, though the model did not
    raise on them; evaluators that rate all of them are left out."""
    rated_before: Mapping[str, int] = field(default_factory=dict)
    """How many of the rows in both reports each evaluator rated before."""
    gone: Mapping[str, int] = field(default_factory=dict)
    """How many rows that an evaluator rated before are not in the data now."""

    def __repr__(self) -> str:
        return (
            f"<Comparison of {self.pairs:,} rows, {len(self.changes)} metrics: {len(self.worse)} "
            f"worse, {len(self.lost)} lost, {self.regressed:,} rows regressed>"
        )

    def __str__(self) -> str:
        """Say how each metric changed, and how many rows got worse."""
        only = f"{self.only_before:,} only before, {self.only_after:,} only now"
        worse = plural(self.regressed, "row")
        said = [f"{plural(self.pairs, 'row')} in both, {only}; {worse} got worse"]
        said += [
            f"{describe_change(each)} {each.verdict}" for each in self.changes[:MAX_CHANGED_ROWS]
        ]
        said += [
            f"{name}: rated rows before, and none of them now"
            for name in self.lost[:MAX_CHANGED_ROWS]
        ]
        said += [
            f"{name}: {plural(rows, 'row')} rated before, and not now"
            for name, rows in list(self.unrated.items())[:MAX_CHANGED_ROWS]
            if name not in self.lost
        ]
        said += [
            f"{name}: {plural(rows, 'row')} rated before, and not in the data now"
            for name, rows in list(self.gone.items())[:MAX_CHANGED_ROWS]
        ]
        if self.is_empty:
            said.append(NOTHING_COMPARED)
        return "\n".join(printable(line, 300) for line in said)

    @property
    def is_empty(self) -> bool:
        """Whether no metric could be compared, so that nothing is known of any."""
        return not self.lost and all(each.path in ANSWER_METRICS for each in self.changes)

    @property
    def worse(self) -> tuple[Change, ...]:
        """The metrics that surely got worse, seen together; the surest first.

        Tokens and seconds are not among them: they depend on the machine and on how much is said.
        """
        return surely_worse(each for each in self.changes if not each.path.startswith("agent/"))


MAX_CHANGED_ROWS = 100


def compare(
    report: ReportContents,
    baseline: ReportContents,
    *,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
) -> Comparison:
    """See `Report.compare`; memory is 16 bytes for each row and metric.

    ``tick`` is told of each row that was read: of the baseline, and then of the report.
    """
    try:
        import numpy as np
    except ImportError:
        raise missing_extra("comparing reports", "pandas", "numpy") from None
    tick = tick or (lambda _: None)
    where = {}
    for key, place, _ in _row_keys(baseline):
        where[key] = place
        tick(1)
    metrics = _paths(report, baseline)
    regressions_found: list[tuple[float, int, Regression]] = []
    gone: set[str] = set()
    unrated: Counter[str] = Counter()
    rated_before: Counter[str] = Counter()
    answers = _answer_values()
    changed = ChangedRows(MAX_CHANGED_ROWS)
    pairs = regressed = only_after = 0
    for key, place, after in _row_keys(report):
        tick(1)
        index = where.pop(key, None)
        if index is None:
            only_after += 1
            continue
        pairs += 1
        before = baseline.rows[index]
        rated, missing = _note(before, after, metrics)
        gone |= missing
        if after.error is None:
            rated_before.update(rated)
            unrated.update(missing)
        _note_answers(before, after, answers)
        changed.add(index, place, _row_change(before, after))
        worse = list(_regressions(before, after))
        regressed += bool(worse)
        regressions_found.extend((by, -place, each) for by, each in worse)
        if len(regressions_found) > 4 * MAX_CHANGED_ROWS:
            regressions_found = _worst(regressions_found)
    if not pairs:
        raise DataError(
            "the two reports have no row in common: rows are paired by request_id, else by request"
        )
    left_out = _rated_in(baseline, where.values())
    random = np.random.default_rng(seed)
    changes = [
        _metric_change(np, random, path, *both, direction=direction(name, path))
        for name, paths in metrics.items()
        for path, both in paths.items()
        if both[0]
    ]
    has_answers = any(each.aggregate.answer_shares() for each in (report, baseline))
    changes += [
        _metric_change(np, random, path, *both, direction=-1 if path == NO_ANSWER_SHARE else 0)
        for path, both in answers.items()
        if has_answers and any(map(any, both))
    ]
    lost = (
        name
        for name, paths in metrics.items()
        if name in gone
        and name in report.evaluators
        and not any(both[0] for both in paths.values())
    )
    regressions = tuple(each for _, _, each in _worst(regressions_found))
    about = (pairs, len(where), only_after, tuple(changes), regressions, regressed, tuple(lost))
    return Comparison(
        *about,
        rows=changed.read(baseline, report),
        changed=changed.count,
        unrated={name: unrated[name] for name in report.evaluators if unrated[name]},
        rated_before=dict(rated_before),
        gone={name: left_out[name] for name in report.evaluators if left_out[name]},
    )


def _worst(regressions: list[tuple[float, int, Regression]]) -> list[tuple[float, int, Regression]]:
    return sorted(regressions, key=lambda each: each[:2], reverse=True)[:MAX_CHANGED_ROWS]


def _paths(report: ReportContents, baseline: ReportContents) -> dict[str, dict[str, _Both]]:
    """Return room for the values of every metric that either report has, by evaluator."""
    values: dict[str, dict[str, _Both]] = {}
    for each in (report, baseline):
        for name, tally in each.aggregate.tallies.items():
            for path in tally.sums:
                values.setdefault(name, {}).setdefault(path, (array("d"), array("d")))
    return values


def _rated_in(report: ReportContents, places: Iterable[int]) -> Counter[str]:
    """Count by evaluator which rows of some places it rated."""
    rated: Counter[str] = Counter()
    for place in sorted(places):
        said = report.rows[place].evaluations
        rated.update(name for name, each in said.items() if each.value is not None)
    return rated


def _answer_values() -> dict[str, _Both]:
    """Return room for what is noted of each pair's answers."""
    return {path: (array("d"), array("d")) for path in ANSWER_METRICS}


def _note_answers(before: Row, after: Row, answers: dict[str, _Both]) -> None:
    """Note of a pair which answers got lost, and which the app abstained from.

    Rows on which the model raised are counted as that, and data without answers has none to lose.
    """
    if before.error is not None or after.error is not None:
        return
    for (ones, others), state in zip(answers.values(), ("lost", "abstained"), strict=True):
        ones.append(float(before.answer == state))
        others.append(float(after.answer == state))


def _note(
    before: Row, after: Row, metrics: dict[str, dict[str, _Both]]
) -> tuple[set[str], set[str]]:
    """Note the metrics of a pair.

    Return the evaluators that rated it before, and those of them that do not now.

    A category that is not a row's is 0 there.
    """
    rated, unrated = set(), set()
    for name, paths in metrics.items():
        earlier, later = before.evaluations.get(name), after.evaluations.get(name)
        if earlier is None or earlier.value is None:
            continue
        rated.add(name)
        if later is None or later.value is None:
            unrated.add(name)
            continue
        one, other = contributions(earlier), contributions(later)
        for path, (ones, others) in paths.items():
            ones.append(one.get(path, 0.0))
            others.append(other.get(path, 0.0))
    return rated, unrated


def _regressions(before: Row, after: Row) -> Iterator[tuple[float, Regression]]:
    for name, earlier in before.evaluations.items():
        was = goodness(earlier)
        if was is None:
            continue
        if after.error is not None:
            yield was + 1, Regression(after, name, earlier, None)
            continue
        now = after.evaluations.get(name)
        step = step_of(earlier, now)
        if step is not None and step < 0:
            yield -step, Regression(after, name, earlier, now)
