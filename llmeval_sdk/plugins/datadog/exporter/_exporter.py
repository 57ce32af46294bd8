"""Sends evaluations to Datadog's endpoint in bounded requests, and reads each answer."""

from __future__ import annotations

import gzip
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.batches import ExportStep, Progress, StepwiseExporter
from llmeval_sdk.exporters.http import HttpSender, ServerAnswer, _TimedSocket
from llmeval_sdk.exporters.otlp.attributes import count_refused, step_events
from llmeval_sdk.model import Batch, EvaluationEvent, Target
from llmeval_sdk.model.protocols import Services
from llmeval_sdk.plugins.datadog.exporter._library import Library
from llmeval_sdk.plugins.datadog.exporter._live import Live
from llmeval_sdk.plugins.datadog.exporter._metrics import (
    Labels,
    UnsendableError,
    body_of,
    encode,
    metric,
)
from llmeval_sdk.plugins.datadog.exporter._spans import Spans
from llmeval_sdk.plugins.datadog.settings import DatadogSettings
from llmeval_sdk.process.shield import shield, swallow


MAX_BODY = 3 << 20
MAX_METRICS = 500
COMPRESS_FROM = 4_096
NOT_COMPRESSED = frozenset((400, 415))
"""Answers of a server that may not read gzip."""


class ScoreIntake:
    """Posts metrics to where ddtrace would post them in its present mode."""

    def __init__(self, library: Library, *, timeout: float) -> None:
        self._library = library
        self._timeout = timeout
        self._where: tuple[str, str, dict[str, str]] | None = None
        self._sender: HttpSender | None = None
        self._compress = True

    def post(self, metrics: list[bytes]) -> ServerAnswer:
        """Send one request; raises `ExportError` where there is no answer."""
        where = self._library.destination
        if self._sender is None or where != self._where:  # the app may have enabled ddtrace again
            self.close()
            self._where = where
            self._sender = _sender(where[0], self._timeout)
        sender, (_, path, headers) = self._sender, where
        headers.setdefault("Content-Type", "application/json")
        body = body_of(metrics)
        if self._compress and len(body) >= COMPRESS_FROM:
            packed = {**headers, "Content-Encoding": "gzip"}
            answer = sender.post(sender.path + path, gzip.compress(body, 5), packed)
            if answer.status not in NOT_COMPRESSED:
                return answer
            plain = sender.post(sender.path + path, body, headers)
            self._compress = not plain.ok
            return plain
        return sender.post(sender.path + path, body, headers)

    def close(self) -> None:
        """Close the connection."""
        if self._sender is not None:
            self._sender.close()

    def after_fork(self) -> None:
        """Leave the connection to the parent."""
        if self._sender is not None:
            self._sender.forget()
        self._sender = None


def explain(answer: ServerAnswer) -> str:
    """Return the log line for a refusal, with what a person can do about it."""
    if answer.status in (401, 403):
        return f"http_{answer.status}: Datadog refuses the API key; check DD_API_KEY and DD_SITE"
    failure = answer.failure()
    return f"{failure.reason}: {failure}"


def parts(metrics: list[bytes]) -> list[list[bytes]]:
    """Split metrics into requests that the endpoint takes."""
    requests: list[list[bytes]] = []
    size = MAX_BODY
    for written in metrics:
        if size + len(written) > MAX_BODY or len(requests[-1]) >= MAX_METRICS:
            requests.append([])
            size = 0
        requests[-1].append(written)
        size += len(written) + 1
    return requests


def _sender(address: str, timeout: float) -> HttpSender:
    if address.startswith("unix:"):
        return _UnixSender(address, timeout=timeout)
    return HttpSender(address, timeout=timeout)


class _UnixSender(HttpSender):
    """A connection to an agent by its socket file."""

    def __init__(self, address: str, *, timeout: float) -> None:
        super().__init__("http://localhost", timeout=timeout)
        self._file = unquote(urlsplit(address).path)

    def _connect(self, deadline: float) -> Any:
        if self._connection is None:
            file = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            file.settimeout(max(0.01, deadline - monotonic()))
            try:
                file.connect(self._file)
            except OSError as error:
                file.close()
                raise ExportError("unreachable", type(error).__name__, retryable=True) from error
            connection: Any = HTTPConnection("localhost")
            connection.sock = _TimedSocket(file)
            self._connection = connection
        return self._connection


_at_signal: set[Callable[[], None]] = set()
"""The functions that ddtrace calls on SIGTERM already."""


class DatadogExporter(StepwiseExporter):
    """A span counts as delivered once ddtrace has it; an evaluation, once Datadog has answered."""

    name = "datadog"

    def __init__(self, library: Library, settings: Settings) -> None:
        super().__init__()
        self.library = library
        self._open_spans = Live(
            library,
            content=settings.capture_content is True,
            names=settings.capture_content in (True, False),
        )
        self.live = self.bridge = self._open_spans
        self._spans = Spans(library, self._open_spans)
        self._intake = ScoreIntake(library, timeout=settings.of(DatadogSettings).datadog_timeout)
        self._labels = Labels()
        self._flushing: threading.Thread | None = None

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Finish the spans at once, and plan the requests for the evaluations."""
        progress.refused += self._spans.finish(batch.spans)
        progress.delivered = len(batch.spans) - progress.refused.total()
        metrics = self._metrics(batch.evaluations, progress.refused)
        refused: Counter[str] = Counter()
        added = self._metrics(step_events(batch.evaluations), refused)
        count_refused(refused)
        progress.steps = [ExportStep(self._intake.post, part) for part in parts(metrics)]
        progress.steps += [ExportStep(self._intake.post, part, False) for part in parts(added)]

    def flush(self, timeout: float, /) -> None:
        """Have ddtrace send its spans; it may hang for longer than we may wait."""
        if self._flushing is not None and self._flushing.is_alive():
            self._flushing.join(timeout)
            return

        def send() -> None:
            with shield("exporter datadog: flush", calls_out=True):
                self._spans.send()

        self._flushing = threading.Thread(target=send, name="llmeval-datadog-flush", daemon=True)
        try:
            self._flushing.start()
        except RuntimeError:  # no thread can be started any more while the interpreter exits
            self._flushing = None
            send()
            return
        self._flushing.join(timeout)

    def close(self, timeout: float, /) -> None:
        """Flush. ddtrace itself stays enabled, because the app may use it too."""
        self.flush(timeout)
        self._intake.close()

    def after_fork(self) -> None:
        """Begin anew in a child: what waits is the parent's."""
        super().after_fork()
        self._flushing = None
        self._open_spans.process = object()
        self._intake.after_fork()

    def explain(self, answer: ServerAnswer) -> str:
        """Return the log line for a refusal, with what a person can do about it."""
        return explain(answer)

    def connect(self, services: Services) -> None:
        """Take over the app's redaction, and take part when ddtrace handles SIGTERM or flushes."""
        self._open_spans.use_redaction(services.redaction)
        if services.end not in _at_signal:  # ddtrace handles SIGTERM, and must not be told twice
            _at_signal.add(services.end)
            with shield("exporter datadog: signals", calls_out=True):
                self.library.at_exit_signal(services.end)
        with shield("exporter datadog: flush", calls_out=True):
            self.library.before_flush(services.deliver)

    # -- inside ---------------------------------------------------------------------------------

    def _metrics(self, events: Sequence[EvaluationEvent], refused: Counter[str]) -> list[bytes]:
        metrics = []
        for event in events:
            try:
                metrics.append(self._written(event))
            except UnsendableError as reason:
                refused[str(reason)] += 1
            except Exception as error:
                if not swallow("exporter datadog: writing", error):
                    raise
                refused["unwritable"] += 1
        return metrics

    def _written(self, event: EvaluationEvent) -> bytes:
        return encode(
            metric(
                event,
                label=self._labels.of(event.evaluation.name),
                join_on=self._ids(event.target),
                app=self.library.app,
                version=self.library.version,
            )
        )

    def _ids(self, target: Target) -> dict[str, str | None]:
        try:
            ids = self._open_spans.ids(target.trace_id or "0", target.span_id or "0")
        except ValueError:  # ids that are not Datadog's
            return {"span_id": target.span_id, "trace_id": target.trace_id}
        return {
            "span_id": ids["span_id"] if target.span_id else None,
            "trace_id": ids["trace_id"] if target.trace_id else None,
        }
