"""The page ``/metrics``, which Prometheus scrapes: what has happened since the viewer began.

Counters have to grow, and a store forgets its oldest traces. So the page counts what arrives while
the viewer runs, and begins at nothing when it is started again, as every exporter does. Scores and
the budget are gauges, since they say how things stand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.store import losses
from llmeval_sdk.store.hourly import OTHER, HourlyTraffic, SpanFacts
from llmeval_sdk.viewer._prometheus_budget import BudgetGauges
from llmeval_sdk.viewer._prometheus_scores import FigureSource, ScoreGauges
from llmeval_sdk.viewer._readers import NoStoreError


MOST_VALUES = 100
"""How many values a label has; the rest is ``_OTHER``, because each is a series of its own."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)


class Metrics:
    """The counters of one viewer, with labels of bounded number."""

    def __init__(self) -> None:
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

    def count(self, span: SpanFacts) -> None:
        """Count one span."""
        error = self._value("error_type", span.error or "")
        took = span.took_ns / 1e9
        if span.is_request:
            name = self._value("name", span.name)
            self._requests.labels(name, error).inc()
            if took >= 0:
                self._took.labels(name).observe(took)
        if span.kind not in ("llm", "embedding"):
            return
        model = self._value("model", span.model or "")
        if took >= 0:
            self._called.labels(model, error).observe(took)
        if span.time_to_first_token is not None:
            self._first.labels(model).observe(span.time_to_first_token)
        for kind, tokens in (("input", span.input_tokens), ("output", span.output_tokens)):
            self._tokens.labels(model, kind).inc(max(tokens or 0, 0))
        if span.cost_usd is not None:
            self._cost.labels(model).inc(max(span.cost_usd, 0.0))
        elif span.error is None:
            self._unpriced.labels(model).inc()

    def lose(self, lost: losses.Losses) -> None:
        """Take over what was lost."""
        self._lost.clear()
        for exporter, reasons in lost.items():
            for reason, times in reasons.items():
                about = self._value("exporter", exporter), self._value("reason", reason)
                self._lost.labels(*about).set(times)

    def _value(self, label: str, value: str) -> str:
        known = self._known.setdefault(label, set())
        if len(known) < MOST_VALUES:
            known.add(value)
        return value if value in known else OTHER


def metrics_page() -> Callable[[Request], Response]:
    """Return the page that shows the metrics, counted from the first time that it is asked for."""
    traffic, metrics = HourlyTraffic(past=False), Metrics()
    traffic.listen(metrics.count)
    source, scores = FigureSource(), ScoreGauges(metrics.registry)
    budget, one_scrape = BudgetGauges(metrics.registry), threading.Lock()

    def show(request: Request) -> Response:
        """Answer in the text format of Prometheus."""
        readers = request.app.state.site.readers
        with one_scrape:
            try:
                with readers.lend() as reader:
                    reader.read(lambda store: traffic.look(store, time.time_ns(), reader.location))
                    metrics.lose(reader.read(losses.total))
                    location = reader.location
                scores.show(source, location)
            except NoStoreError as unread:
                if str(unread):
                    raise
                traffic.expect(str(readers.path))
            budget.show(readers.path)
            text = generate_latest(metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return show
