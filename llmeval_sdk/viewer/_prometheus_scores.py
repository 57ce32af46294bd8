"""What ``/metrics`` says of scores: means with their intervals, and who was judged.

These are gauges over the last 24 hours of the store. They are the estimates that `llmeval report`
prints, so a mean stands for all traffic and not only for what was judged.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry, Counter, Gauge

from llmeval_sdk.estimates.funnels import STEPS
from llmeval_sdk.store.groups import EvaluationScope
from llmeval_sdk.store.populations import Population, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import Scores
from llmeval_sdk.viewer._background import Background, BackgroundTask


PERIOD_SECONDS = 86_400
MOST_PAIRS = 100
"""How many pairs of an evaluator and a span name have figures. The means of the rest cannot be
added up into one, so the rest is counted."""
FRESH_SECONDS = 15.0
"""How old figures may be before they are read anew."""
REST = 10
"""How many times as long as the last reading took the store is left alone."""
WAIT_SECONDS = 3.0
"""How long a scrape waits for new figures, before it is given those of the reading before."""
_READING_SECONDS = 120.0
_LABELS = ("evaluator", "name")


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """What the evaluations of the period add up to, by evaluator and span name."""

    judges: tuple[Population, ...]
    free: tuple[Population, ...]
    left_out: int
    """How many pairs there are beyond `MOST_PAIRS`."""
    read_at: float
    """Seconds since the epoch."""


def _read_figures(location: str, now: float) -> ScoreFigures:
    """Estimate the mean of each evaluator over the spans of each name in the last 24 hours."""
    scope = EvaluationScope(since=int((now - PERIOD_SECONDS) * 1e9))
    with StoreReader(location, seconds=_READING_SECONDS) as reader:
        known = Scores(reader)
        judges = populations(reader, scope, known)
        paid = {population.judge for population in judges}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for group in known.groups(scope):
            if group.name not in paid and group.span_name is not None:
                counts[group.name, group.span_name] += group.rows
        room = max(MOST_PAIRS - len(judges), 0)
        free = [
            replace(
                overall(reader, scope._replace(span_name=span_name), known, name),
                span_name=span_name,
            )
            for (name, span_name), _ in counts.most_common(room)
        ]
    left_out = len(judges) + len(counts) - len(judges[:MOST_PAIRS]) - len(free)
    return ScoreFigures(tuple(judges[:MOST_PAIRS]), tuple(free), left_out, now)


class ScoreGauges:
    """The gauges of scores and judgements, read from the store in the background."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        day = "of the last 24 hours"
        kinds = (*_LABELS, "kind")
        self._mean = gauge("llmeval_score_mean", f"Estimated mean over all traffic {day}", kinds)
        self._low = gauge("llmeval_score_mean_low", "Lower end of its 95 % interval", kinds)
        self._high = gauge("llmeval_score_mean_high", "Upper end of its 95 % interval", kinds)
        self._steps = gauge(
            "llmeval_judge_requests", f"Requests {day} that were left after a step of judging",
            (*_LABELS, "step"),
        )  # fmt: skip
        self._not_run = gauge(
            "llmeval_judge_not_run", f"Judgements {day} that were not made, by reason",
            (*_LABELS, "reason"),
        )  # fmt: skip
        self._cost = gauge(
            "llmeval_judge_cost_usd", f"US dollars {day} that judges cost", _LABELS
        )  # fmt: skip
        self._left_out = gauge(
            "llmeval_score_pairs_left_out",
            f"Pairs of an evaluator and a name beyond {MOST_PAIRS}, which have no figures here",
        )
        self._read_at = gauge(
            "llmeval_score_read_timestamp_seconds", "When the figures of scores were read"
        )
        self._failures = Counter(
            "llmeval_score_read_failures", "Scrapes for which scores could not be read",
            registry=registry,
        )  # fmt: skip
        self._shown: ScoreFigures | None = None

    def show(self, source: FigureSource, location: str) -> None:
        """Take over the figures of a store; where it cannot be read, the old ones stay."""
        try:
            figures = source.figures(location)
        except Exception:  # whatever a damaged row leads to: the counters of this page still count
            self._failures.inc()
            return
        if figures is not self._shown:
            self._shown = figures
            self._replace(figures)

    def _replace(self, figures: ScoreFigures | None) -> None:
        for gauge in (self._mean, self._low, self._high, self._steps, self._not_run, self._cost):
            gauge.clear()
        if figures is None:
            return
        for kind, populations_of_kind in (("judge", figures.judges), ("free", figures.free)):
            for population in populations_of_kind:
                self._show_mean(population, kind)
        for population in figures.judges:
            about = population.judge, population.span_name or ""
            for step in STEPS:
                self._steps.labels(*about, step).set(getattr(population.funnel, step))
            for reason, times in population.funnel.reasons.items():
                self._not_run.labels(*about, reason).set(times)
            if population.cost_usd is not None:
                self._cost.labels(*about).set(population.cost_usd)
        self._left_out.set(figures.left_out)
        self._read_at.set(figures.read_at)

    def _show_mean(self, population: Population, kind: str) -> None:
        """Show a mean with its interval; without an estimate there is no series."""
        estimate = population.estimate
        if estimate is None:
            return
        about = population.judge, population.span_name or "", kind
        self._mean.labels(*about).set(estimate.mean)
        self._low.labels(*about).set(estimate.low)
        self._high.labels(*about).set(estimate.high)


class FigureSource:
    """Gives the figures of a store, none older than they have to be.

    A reading takes seconds where the store holds millions of evaluations. It goes on in the
    background, and a scrape never waits longer than `WAIT_SECONDS` for it.
    """

    def __init__(self, read: Callable[[str, float], ScoreFigures] = _read_figures) -> None:
        self._read = read
        self._background = Background()
        self._location = ""
        self._task: BackgroundTask[ScoreFigures] | None = None
        self._figures: ScoreFigures | None = None
        self._due = 0.0

    def figures(self, location: str) -> ScoreFigures | None:
        """Return the latest figures; ``None`` until the first reading of a store is over.

        Raises what the reading raised.
        """
        if location != self._location:
            self._location, self._task, self._figures, self._due = location, None, None, 0.0
        if self._task is None and time.monotonic() >= self._due:
            begun = time.monotonic()

            def read(_: Callable[[int], None]) -> ScoreFigures:
                try:
                    return self._read(location, time.time())
                finally:
                    self._due = max(
                        begun + FRESH_SECONDS,
                        time.monotonic() + REST * (time.monotonic() - begun),
                    )

            self._task = self._background.start((location, begun), read)
        task = self._task
        if task is not None and task.is_done(WAIT_SECONDS):
            self._task = None
            self._figures = task.result()
        return self._figures
