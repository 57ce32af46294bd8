"""Sends spans and evaluations as OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from llmeval_sdk._process.shield import swallow
from llmeval_sdk.config import Settings
from llmeval_sdk.exporters._stepwise import Progress, Step, StepwiseExporter
from llmeval_sdk.exporters.otel.endpoint import Endpoint, endpoints, resource, version
from llmeval_sdk.exporters.otel.histogram import Histogram
from llmeval_sdk.exporters.otel.request import Envelope, event_bytes, rejected, span_bytes
from llmeval_sdk.exporters.otel.surroundings import Surroundings
from llmeval_sdk.model import Batch


T = TypeVar("T")
MAX_BODY = 3 << 20
"""Bytes of one request before compression; collectors commonly take 4 MB at most."""


class OtlpWriter:
    """Writes records into requests for endpoints, under one description of the app."""

    def __init__(self, settings: Settings, **more: str) -> None:
        self._settings = settings
        self._more = more
        self._envelope: Envelope | None = None

    def steps(
        self,
        endpoint: Endpoint | None,
        given: Sequence[T],
        write: Callable[[T], bytes],
        progress: Progress,
    ) -> None:
        """Add the requests for some records; where there is no endpoint, nothing is owed."""
        if endpoint is None:
            progress.delivered += len(given)
            return
        if self._envelope is None:  # made here, so that a child process tells its own id
            self._envelope = Envelope(resource(self._settings, **self._more), version())
        wrap, send = self._envelope.wrap, endpoint.send
        for part in _parts(_written(given, write, progress)):
            progress.steps.append(Step(lambda records: send(wrap(records)), part, True, rejected))

    def after_fork(self) -> None:
        """Describe the child anew."""
        self._envelope = None


class OtlpExporter(StepwiseExporter):
    """Traces to ``/v1/traces``, evaluations to ``/v1/logs``; answers are read and counted."""

    name = "otlp"

    def __init__(self, settings: Settings, *, meter_provider: Any = None) -> None:
        super().__init__()
        self._endpoints = endpoints(settings)
        self._writer = OtlpWriter(settings)
        self._histogram = Histogram(settings, meter_provider)
        self.surroundings = Surroundings()
        self.on_start = self.surroundings.on_start
        self.on_end = self.surroundings.on_end

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan spans first: whoever reads the events may look for their spans."""
        for given in batch.evaluations:
            self._histogram.record(given.evaluation)
        self._writer.steps(self._endpoints.traces, batch.spans, span_bytes, progress)
        self._writer.steps(self._endpoints.logs, batch.evaluations, event_bytes, progress)

    def flush(self, timeout: float, /) -> None:
        """Do nothing: a batch was answered when `export` returns."""

    def close(self, timeout: float, /) -> None:
        """Close the connections."""
        for endpoint in self._endpoints:
            if endpoint is not None:
                endpoint.sender.close()

    def after_fork(self) -> None:
        """Begin anew in a child: the connections are the parent's."""
        super().after_fork()
        self._writer.after_fork()
        for endpoint in self._endpoints:
            if endpoint is not None:
                endpoint.sender.forget()


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
