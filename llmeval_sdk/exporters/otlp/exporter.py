"""Sends spans and evaluations as OTLP; OpenTelemetry's own variables configure it."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.http import HttpSender, ServerAnswer, Tls
from llmeval_sdk.exporters.otlp.bridge import OtelBridge
from llmeval_sdk.exporters.otlp.wire import Envelope, event_bytes, rejected, resource, span_bytes
from llmeval_sdk.exporters.step_ratings import count_refused, step_events
from llmeval_sdk.exporters.stepwise import ExportStep, Progress, StepwiseExporter
from llmeval_sdk.model import Batch
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.shield import swallow


T = TypeVar("T")
MAX_BODY = 3 << 20
"""How many bytes a request may have before it is compressed; collectors commonly take up to 4 MB.
"""
DEFAULT = "http://localhost:4318"


class OtlpExporter(StepwiseExporter):
    """Sends spans to ``/v1/traces``, evaluations to ``/v1/logs``, and counts by the answers."""

    name = "otlp"

    def __init__(self, settings: Settings, *, meter_provider: Any = None) -> None:
        super().__init__()
        self._endpoints = endpoints(settings)
        self._senders = [endpoint.sender for endpoint in self._endpoints if endpoint is not None]
        self._writer = OtlpWriter(settings)
        self._histogram = None
        if meter_provider is not None or settings.otel_metrics:
            from llmeval_sdk.exporters.otlp.metrics import Histogram

            self._histogram = Histogram(meter_provider)
        self.live = self.bridge = OtelBridge()

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan the spans first: a reader of the evaluations may look for their spans."""
        if self._histogram is not None:
            self._histogram.record(batch)
        self._writer.steps(self._endpoints.traces, batch.spans, span_bytes, progress)
        logs, added = self._endpoints.logs, Progress(batch)
        self._writer.steps(logs, batch.evaluations, event_bytes, progress)
        self._writer.steps(logs, step_events(batch.evaluations), event_bytes, added)
        count_refused(added.refused)
        progress.steps += [step._replace(counted=False) for step in added.steps]

    def close(self, timeout: float, /) -> None:
        """Close the connections."""
        for sender in self._senders:
            sender.close()

    def after_fork(self) -> None:
        """Begin anew in a child: the connections are the parent's."""
        super().after_fork()
        self._writer.after_fork()
        for sender in self._senders:
            sender.forget()


class OtlpWriter:
    """Makes requests of records, each with the description of the app."""

    def __init__(self, settings: Settings, **more: str) -> None:
        self._settings = settings
        self._more = more
        self._envelope: Envelope | None = None

    def steps(
        self,
        endpoint: Endpoint | None,
        records: Sequence[T],
        write: Callable[[T], bytes],
        progress: Progress,
    ) -> None:
        """Add the requests for some records; without an endpoint there are none."""
        if endpoint is None:
            progress.delivered += len(records)
            return
        if self._envelope is None:  # made late, so that it has the id of a forked child
            self._envelope = Envelope(resource(self._settings, **self._more), release())
        wrap, send = self._envelope.wrap, endpoint.send
        for part in _parts(_written(records, write, progress)):
            progress.steps.append(
                ExportStep(lambda records: send(wrap(records)), part, True, rejected)
            )

    def after_fork(self) -> None:
        """Make the description of the app anew, for a forked child."""
        self._envelope = None


class Endpoint:
    """Where one signal is sent over HTTP: the server and its path, with headers and compression."""

    def __init__(
        self, sender: HttpSender, path: str, headers: Mapping[str, str], *, zipped: bool
    ) -> None:
        self.sender = sender
        self._path = path
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._zipped = zipped
        if zipped:
            self._headers["content-encoding"] = "gzip"

    def send(self, body: bytes) -> ServerAnswer:
        """Send one request; raises `ExportError` where there is no answer."""
        if self._zipped:
            body = gzip.compress(body, compresslevel=5, mtime=0)
        return self.sender.post(self._path, body, self._headers)


class Endpoints(NamedTuple):
    """The endpoints of spans and of evaluations; ``None`` where they are not sent."""

    traces: Endpoint | None
    logs: Endpoint | None


def endpoints(settings: Settings) -> Endpoints:
    """Return both endpoints; the one of a signal without an address is ``None``."""
    return Endpoints(_endpoint(settings, "traces"), _endpoint(settings, "logs"))


def _endpoint(settings: Settings, signal: str) -> Endpoint | None:
    """Make the endpoint of a signal, whose own settings override those of all of OTLP."""

    def of_signal(what: str) -> Any:
        own = getattr(settings, f"otlp_{signal}_{what}")
        return getattr(settings, f"otlp_{what}") if own is None else own

    address = getattr(settings, f"otlp_{signal}_endpoint")
    others = (settings.otlp_traces_endpoint, settings.otlp_logs_endpoint)
    if not (address or settings.otlp_endpoint) and any(others):
        return None
    secrets = {**(settings.otlp_headers or {}), **(of_signal("headers") or {})}
    headers = {name: value.reveal() for name, value in secrets.items()}
    timeout, compression = of_signal("timeout"), of_signal("compression")
    if (protocol := of_signal("protocol")) != "http/protobuf":
        transports = registry.table("transports")
        if protocol not in transports:
            raise ConfigurationError(f"OTLP over {protocol} is not part of this installation")
        made: Endpoint = registry.load(transports[protocol])(
            settings, signal, headers, timeout, compression
        )
        return made
    address = address or f"{(settings.otlp_endpoint or DEFAULT).rstrip('/')}/v1/{signal}"
    tls = Tls(settings.otlp_certificate, settings.otlp_client_certificate, settings.otlp_client_key)
    sender = HttpSender(address, timeout=timeout, tls=tls)
    parts = urlsplit(address if "//" in address else f"http://{address}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(sender, path, headers, zipped=compression == "gzip")


def _written(records: Sequence[T], write: Callable[[T], bytes], progress: Progress) -> list[bytes]:
    """Write the records; one that cannot be written is left out."""
    written = []
    for record in records:
        try:
            written.append(write(record))
        except Exception as error:
            if not swallow("exporter otlp: writing", error):
                raise
            progress.refused["unwritable"] += 1
    return written


def _parts(records: list[bytes]) -> list[list[bytes]]:
    """Divide records into requests that are no larger than servers take."""
    parts: list[list[bytes]] = []
    size = MAX_BODY
    for record in records:
        if size + len(record) > MAX_BODY:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += len(record) + 8
    return parts
