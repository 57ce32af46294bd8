"""The page ``/metrics``, which Prometheus scrapes: what has happened since the viewer began.

Counters have to grow, and a store forgets its oldest traces. So the page counts what arrives while
the viewer runs, and begins at nothing when it is started again, as every exporter does. A span
whose trace stayed while others were left out counts as often as it stands for. Scores and the
budget are gauges, since they say how things stand.
"""

from __future__ import annotations

import collections
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk import config
from llmeval_sdk.evaluation import books
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.model import DAY_SECONDS, JUDGE_TAG
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.statistics.reasons import STEPS
from llmeval_sdk.store.files import Unusable, path_of
from llmeval_sdk.store.findings import Finding, findings_of
from llmeval_sdk.store.losses import losses
from llmeval_sdk.store.populations import Population, SharedReadings, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope
from llmeval_sdk.store.state import LEDGER, ledger_path, text_in
from llmeval_sdk.store.weighted import weight_of
from llmeval_sdk.viewer._site import Background, BackgroundTask, NoStoreError


# What ``/metrics`` says of the judges' budget of this host, from the books beside the store.


class BudgetGauges:
    """The gauges of the money that judges may use in this UTC day; ``judge=""`` is all of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._spent = Gauge(
            "llmeval_budget_spent_usd", "US dollars that judges spent in this UTC day",
            ("judge",), registry=registry,
        )  # fmt: skip
        self._left = Gauge(
            "llmeval_budget_left_usd", "US dollars that judges may still spend in this UTC day",
            ("judge",), registry=registry,
        )  # fmt: skip

    def show(self, store: Path) -> None:
        """Take over how the budget stands; nothing is shown of one that this host does not keep."""
        self._spent.clear()
        self._left.clear()
        state = _books_of(store)
        if state is None:
            return
        limit, now = _budget_of(store), time.time()
        for judge, budget in {"": limit, **limit.judges}.items():
            used = books.used(state, now, name=judge)
            self._spent.labels(judge).set(used.usd)
            if budget.usd_per_day is not None:
                left = budget.usd_per_day - used.usd - used.reserved_usd
                self._left.labels(judge).set(max(left, 0.0))


def _books_of(store: Path) -> books.BookState | None:
    """Read the books of this host, without ever writing to them."""
    if config.value_of(runtime.settings(), "shared") is not None:
        return None
    try:
        text = text_in(ledger_path(store), "judges", LEDGER)
        return books.load(text) if text else None
    except (Unusable, ValueError):
        return None


def _budget_of(store: Path) -> Budget:
    """Return the limits of the app, if this process is the app, else those of the settings."""
    settings = runtime.settings()
    is_the_app = runtime.stats().exporters and path_of(settings.store) == store
    pipeline = runtime.pipeline() if is_the_app else None
    if pipeline is not None:
        return pipeline.plan.limiter.budget
    return Budget(usd_per_day=settings.usd_per_day)


# What ``/metrics`` says of scores: means with their intervals, and who was judged.
#
# These are gauges over the last 24 hours of the store. They are the estimates that `llmeval
# report` prints, so a mean stands for all traffic and not only for what was judged.

PERIOD_SECONDS = DAY_SECONDS
MAX_PAIRS = 100
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
    """How many pairs there are beyond `MAX_PAIRS`."""
    read_at: float
    """Seconds since the epoch."""


def _read_figures(location: str, now: float) -> ScoreFigures:
    """Estimate the mean of each evaluator over the spans of each name in the last 24 hours."""
    scope = EvaluationScope(since=int((now - PERIOD_SECONDS) * 1e9))
    with StoreReader(location, seconds=_READING_SECONDS) as reader:
        known = SharedReadings(reader)
        judges = populations(reader, scope, known)
        paid = {population.judge for population in judges}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for group in known.groups(scope):
            if group.name not in paid and group.span_name is not None:
                counts[group.name, group.span_name] += group.rows
        room = max(MAX_PAIRS - len(judges), 0)
        free = [
            replace(
                overall(reader, scope._replace(span_name=span_name), known, name),
                span_name=span_name,
            )
            for (name, span_name), _ in counts.most_common(room)
        ]
    left_out = len(judges) + len(counts) - len(judges[:MAX_PAIRS]) - len(free)
    return ScoreFigures(tuple(judges[:MAX_PAIRS]), tuple(free), left_out, now)


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
            f"Pairs of an evaluator and a name beyond {MAX_PAIRS}, which have no figures here",
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


OTHER = "_OTHER"
MAX_NEW = 200_000
"""How many spans one scrape reads."""
MAX_VALUES = 100
"""How many values a label has; the rest is ``_OTHER``, because each is a series of its own."""
MAX_WEIGHT = 1_000
"""The most spans that one stored span may stand for. `overload` leaves out 98 % at most, so an
honest one stands for 50 at most; a file that somebody else wrote may claim anything."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)


class SpanFacts(NamedTuple):
    """The facts about one span that are counted."""

    took_ns: int
    name: str
    kind: str | None
    is_request: int
    model: str | None
    error: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    time_to_first_token: float | None
    inclusion_probability: float | None


class NewSpans:
    """The spans of the app that arrive in a store after the first look at it."""

    def __init__(self) -> None:
        self._place: tuple[int, str] | None = None
        """Up to which row the spans were read, and of which store."""

    def expect(self, store: str) -> None:
        """Note that a store does not exist yet: all that it will hold is new."""
        self._place = self._place or (0, store)

    def read(self, connection: sqlite3.Connection, store: str) -> list[SpanFacts]:
        """Return what has arrived. ``store`` says which file it is: another one begins anew."""
        last = connection.execute("SELECT ifnull(max(seq), 0) FROM spans").fetchone()[0]
        if self._place is None or self._place[1] != store:
            self._place = last, store
            return []
        # SQLite gives the numbers of the newest rows again after these were deleted.
        rows = connection.execute(_NEW, (min(self._place[0], last), MAX_NEW)).fetchall()
        self._place = (rows[-1][0] if rows else min(self._place[0], last)), store
        return [SpanFacts(*row) for _, is_judges, *row in rows if not is_judges]


_NEW = f"""
SELECT seq, instr(ifnull(tags, ''), '"{JUDGE_TAG}"') > 0, end_ns - start_ns, name, kind,
  parent_id IS NULL, model_name, error_type, input_tokens + 0, output_tokens + 0, cost_usd + 0.0,
  time_to_first_token + 0.0, inclusion_probability + 0.0
FROM spans WHERE seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - constants


class Metrics:
    """The counters of one viewer, with labels of bounded number."""

    def __init__(self) -> None:
        self._owed: dict[int, float] = {}
        """By histogram, the part of an observation that the next ones are to make whole."""
        self.registry = registry = CollectorRegistry()
        self._known: dict[str, set[str]] = {}
        self._requests = Counter(
            "llmeval_requests", "Requests by the name of their first span, and how they failed",
            ("name", "error_type"), registry=registry,
        )  # fmt: skip
        self._took = Histogram(
            "llmeval_request_duration_seconds", "Duration of requests", ("name",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._called = Histogram(
            "gen_ai_client_operation_duration_seconds", "Duration of model calls",
            ("gen_ai_request_model", "error_type"), buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._first = Histogram(
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            "Time to the first part of a streamed answer", ("gen_ai_request_model",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "gen_ai_client_token_usage", "Tokens of model calls",
            ("gen_ai_request_model", "gen_ai_token_type"), registry=registry,
        )  # fmt: skip
        self._cost = Counter(
            "llmeval_cost_usd", "US dollars of model calls, where the price is known",
            ("gen_ai_request_model",), registry=registry,
        )  # fmt: skip
        self._unpriced = Counter(
            "llmeval_unpriced_calls", "Model calls that ended well and whose cost is unknown",
            ("gen_ai_request_model",), registry=registry,
        )  # fmt: skip
        self._lost = Gauge(
            "llmeval_lost_records", "Records that no process that wrote the store could deliver",
            ("exporter", "reason"), registry=registry,
        )  # fmt: skip
        self._findings = Gauge(
            "llmeval_findings", "What `llmeval doctor` says of the store, with the number it is of",
            ("severity", "kind", "about"), registry=registry,
        )  # fmt: skip

    def count(self, span: SpanFacts) -> None:
        """Count one span, and what it stands for."""
        weight = min(weight_of(span.inclusion_probability), MAX_WEIGHT)
        error = self._value("error_type", span.error or "")
        took = span.took_ns / 1e9
        if span.is_request:
            name = self._value("name", span.name)
            self._requests.labels(name, error).inc(weight)
            if took >= 0:
                self._observe(self._took.labels(name), took, weight)
        if span.kind not in ("llm", "embedding"):
            return
        model = self._value("model", span.model or "")
        if took >= 0:
            self._observe(self._called.labels(model, error), took, weight)
        if span.time_to_first_token is not None:
            self._observe(self._first.labels(model), span.time_to_first_token, weight)
        for kind, tokens in (("input", span.input_tokens), ("output", span.output_tokens)):
            self._tokens.labels(model, kind).inc(weight * max(tokens or 0, 0))
        if span.cost_usd is not None:
            self._cost.labels(model).inc(weight * max(span.cost_usd, 0.0))
        elif span.error is None:
            self._unpriced.labels(model).inc(weight)

    def _observe(self, histogram: Histogram, value: float, weight: float) -> None:
        """Observe a value as often as its span stands for, which a histogram counts one by one."""
        owed = self._owed.get(id(histogram), 0.0) + weight
        for _ in range(int(owed)):
            histogram.observe(value)
        self._owed[id(histogram)] = owed % 1

    def find(self, found: Iterable[Finding]) -> None:
        """Take over what is to be known of the store."""
        self._findings.clear()
        for finding in found:
            severity = "problem" if finding.is_problem else "note"
            about = self._value("about", finding.about)
            self._findings.labels(severity, finding.kind, about).set(finding.number)

    def lose(self, lost: dict[str, dict[str, int]]) -> None:
        """Take over what was lost."""
        self._lost.clear()
        for exporter, reasons in lost.items():
            for reason, times in reasons.items():
                about = self._value("exporter", exporter), self._value("reason", reason)
                self._lost.labels(*about).set(times)

    def _value(self, label: str, value: str) -> str:
        known = self._known.setdefault(label, set())
        if len(known) < MAX_VALUES:
            known.add(value)
        return value if value in known else OTHER


def metrics_page() -> Callable[[Request], Response]:
    """Return the page that shows the metrics, counted from the first time that it is asked for."""
    spans, metrics = NewSpans(), Metrics()
    source, scores = FigureSource(), ScoreGauges(metrics.registry)
    budget, one_scrape = BudgetGauges(metrics.registry), threading.Lock()

    def show(request: Request) -> Response:
        """Answer in the text format of Prometheus."""
        readers = request.app.state.site.readers
        with one_scrape:
            try:
                with readers.lend() as reader:
                    for span in reader.read(lambda store: spans.read(store, reader.location)):
                        metrics.count(span)
                    metrics.lose(reader.read(losses))
                    limit = runtime.settings().store_max_bytes
                    with suppress(sqlite3.Error):  # the counters of this page still count
                        metrics.find(findings_of(reader, limit, time.time_ns()))
                    location = reader.location
                scores.show(source, location)
            except NoStoreError as unread:
                if str(unread):
                    raise
                spans.expect(str(readers.path))
            budget.show(readers.path)
            text = generate_latest(metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return show
