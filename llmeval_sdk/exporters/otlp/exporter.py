"""Sends spans and evaluations as OTLP; OpenTelemetry's own variables configure it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.batches import Endpoint, OtlpWriter, Progress, StepwiseExporter
from llmeval_sdk.exporters.http import HttpSender, Tls
from llmeval_sdk.exporters.otlp.attributes import count_refused, part_events
from llmeval_sdk.exporters.otlp.bridge import OtelBridge
from llmeval_sdk.exporters.otlp.wire import event_bytes, span_bytes
from llmeval_sdk.model import Batch


if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


DEFAULT = "http://localhost:4318"


class OtlpExporter(StepwiseExporter):
    """Sends spans to ``/v1/traces``, evaluations to ``/v1/logs``, and counts by the answers."""

    name = "otlp"

    def __init__(self, settings: Settings, *, meter_provider: MeterProvider | None = None) -> None:
        super().__init__()
        self._endpoints = endpoints(settings)
        self._senders = [endpoint.sender for endpoint in self._endpoints if endpoint is not None]
        self._writer = OtlpWriter(settings)
        self._fields = settings.export_fields
        self._histogram = None
        if meter_provider is not None or settings.otel_metrics:
            from llmeval_sdk.exporters.otlp.app_providers import Histogram

            self._histogram = Histogram(meter_provider)
        self.live = self.bridge = OtelBridge()

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan the spans first: a reader of the evaluations may look for their spans."""
        if self._histogram is not None:
            self._histogram.record(batch)
        self._writer.steps(self._endpoints.traces, batch.spans, span_bytes, progress)
        logs, added = self._endpoints.logs, Progress(batch)
        self._writer.steps(logs, batch.evaluations, event_bytes, progress)
        parts = part_events(batch.evaluations, fields=self._fields)
        self._writer.steps(logs, parts, event_bytes, added)
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
    return Endpoint(sender, path, headers, zipped=compression != "none")
