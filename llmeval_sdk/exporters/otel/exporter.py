"""Sends spans and evaluations as OTLP over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from llmeval_sdk._shield import swallow, tell
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.otel.endpoint import Endpoint, endpoints, resource, version
from llmeval_sdk.exporters.otel.histogram import Histogram
from llmeval_sdk.exporters.otel.request import Envelope, event_bytes, rejected, span_bytes
from llmeval_sdk.exporters.otel.surroundings import Surroundings
from llmeval_sdk.model import Batch


T = TypeVar("T")
MAX_BODY = 3 << 20
"""Bytes of one request before compression; collectors commonly take 4 MB at most."""


class Progress:
    """What became of one batch so far, kept while delivery tries again."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.waiting: list[tuple[Endpoint, list[bytes]]] = []
        self.delivered = 0
        self.refused: Counter[str] = Counter()

    def failed(self, error: ExportError) -> ExportError:
        """Add to a failure what was settled before it."""
        error.delivered, error.refused = self.delivered, dict(self.refused)
        return error


class OtlpExporter:
    """Traces to ``/v1/traces``, evaluations to ``/v1/logs``; answers are read and counted."""

    name = "otlp"

    def __init__(self, settings: Settings, *, meter_provider: Any = None) -> None:
        self._traces, self._logs = endpoints(settings)
        self._histogram = Histogram(settings, meter_provider)
        self._settings = settings
        self._envelope: Envelope | None = None
        self._progress: Progress | None = None
        self.surroundings = Surroundings()
        self.on_start = self.surroundings.on_start
        self.on_end = self.surroundings.on_end

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Send a batch; called again with the same one, send what of it is still to be sent."""
        progress = self._progress
        if progress is None or progress.batch is not batch:
            progress = self._progress = self._begin(batch)
        while progress.waiting:
            endpoint, records = progress.waiting[0]
            self._send(endpoint, records, progress)
        self._progress = None
        return progress.refused

    def flush(self, timeout: float, /) -> None:
        """Do nothing: a batch was answered when `export` returns."""

    def close(self, timeout: float, /) -> None:
        """Close the connections."""
        for endpoint in (self._traces, self._logs):
            if endpoint is not None:
                endpoint.sender.close()

    def after_fork(self) -> None:
        """Begin anew in a child: the connections are the parent's."""
        self._progress = self._envelope = None
        for endpoint in (self._traces, self._logs):
            if endpoint is not None:
                endpoint.sender.forget()

    def _begin(self, batch: Batch) -> Progress:
        progress = Progress(batch)
        for given in batch.evaluations:
            self._histogram.record(given.evaluation)
        self._plan(self._traces, batch.spans, span_bytes, progress)
        self._plan(self._logs, batch.evaluations, event_bytes, progress)
        return progress

    @staticmethod
    def _plan(
        endpoint: Endpoint | None,
        given: Sequence[T],
        write: Callable[[T], bytes],
        progress: Progress,
    ) -> None:
        if endpoint is None:  # not wanted there: nothing is owed
            progress.delivered += len(given)
            return
        records = _written(given, write, progress)
        progress.waiting.extend((endpoint, part) for part in _parts(records))

    def _send(self, endpoint: Endpoint, records: list[bytes], progress: Progress) -> None:
        """Send one request and settle its records; what fails for now raises."""
        if self._envelope is None:
            self._envelope = Envelope(resource(self._settings), version())
        try:
            answer = endpoint.send(self._envelope.wrap(records))
        except ExportError as error:
            raise progress.failed(error) from error.__cause__
        if answer.ok:
            lost, why = rejected(answer.body)
            lost = min(lost, len(records))
            if lost:
                tell(f"exporter {self.name}", f"the server rejected {lost} records: {why[:200]}")
                progress.refused["rejected"] += lost
            progress.delivered += len(records) - lost
        elif answer.status == 413 and len(records) > 1:
            half = len(records) // 2
            progress.waiting[0:1] = [(endpoint, records[:half]), (endpoint, records[half:])]
            return
        else:
            failure = answer.failure()
            if failure.retryable:
                raise progress.failed(failure)
            tell(f"exporter {self.name}", f"{failure.reason}: {str(failure)[:200]}")
            progress.refused[failure.reason] += len(records)
        del progress.waiting[0]


def _written(given: Sequence[T], write: Callable[[T], bytes], progress: Progress) -> list[bytes]:
    """Write each record; one that cannot be written does not cost the others."""
    written = []
    for record in given:
        try:
            written.append(write(record))
        except Exception as error:
            if not swallow("exporter otlp: writing", error):
                raise
            progress.refused["unwritable"] += 1
    return written


def _parts(records: list[bytes]) -> list[list[bytes]]:
    """Split records so that no request is larger than servers take."""
    parts: list[list[bytes]] = []
    size = MAX_BODY
    for record in records:
        if size + len(record) > MAX_BODY:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += len(record) + 8
    return parts
