"""The settings of OTLP, which are mostly OpenTelemetry's own variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import duration, flag, one_of, pairs, secret_pairs


_protocol = one_of("http/protobuf", "grpc")
_compression = one_of("none", "gzip")


def _form(row: str, variable: str, doc: str, read: Callable[[str], Any] = str) -> Any:
    """Declare a variant of the setting ``row`` that applies to spans only, or to scores only."""
    return setting(None, f"OTEL_EXPORTER_OTLP_{variable}", read=read, doc=doc, form_of=row)


@dataclass(frozen=True, kw_only=True)
class OtlpSettings:
    """What OpenTelemetry's own variables say of the exporter `otlp`."""

    otel: str = setting(
        "own",
        "LLMEVAL_OTEL",
        read=one_of("own", "global"),
        doc="`own` sends OTLP itself; `global` uses the app's own OpenTelemetry providers.",
    )
    otel_metrics: bool = setting(
        False,
        "LLMEVAL_OTEL_METRICS",
        read=flag,
        doc="Record scores as a histogram with the app's own MeterProvider.",
    )
    otel_disabled: bool = setting(
        False, "OTEL_SDK_DISABLED", read=flag, doc="Nothing is sent over OTLP."
    )
    otlp_endpoint: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        doc="OTLP server, `http://localhost:4318`; turns `otlp` on.",
    )
    otlp_traces_endpoint: str | None = _form(
        "otlp_endpoint", "TRACES_ENDPOINT", "The second is the whole address for spans."
    )
    otlp_logs_endpoint: str | None = _form(
        "otlp_endpoint", "LOGS_ENDPOINT", "The third is that for scores."
    )
    otlp_protocol: str = setting(
        "http/protobuf",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        read=_protocol,
        doc="The protocol; `grpc` needs `llmeval-inprocess[grpc]`.",
    )
    otlp_traces_protocol: str | None = _form(
        "otlp_protocol", "TRACES_PROTOCOL", "The second is for spans alone.", _protocol
    )
    otlp_logs_protocol: str | None = _form(
        "otlp_protocol", "LOGS_PROTOCOL", "The third is for scores alone.", _protocol
    )
    otlp_headers: Mapping[str, Secret] | None = setting(
        None, "OTEL_EXPORTER_OTLP_HEADERS", read=secret_pairs, doc="Headers of every request."
    )
    otlp_traces_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "TRACES_HEADERS", "The second adds headers for spans.", secret_pairs
    )
    otlp_logs_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "LOGS_HEADERS", "The third adds headers for scores.", secret_pairs
    )
    otlp_timeout: float = setting(
        10.0,
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        read=duration,
        doc="Seconds a request may take; from 500 on, milliseconds.",
    )
    otlp_traces_timeout: float | None = _form(
        "otlp_timeout", "TRACES_TIMEOUT", "The second is for spans alone.", duration
    )
    otlp_logs_timeout: float | None = _form(
        "otlp_timeout", "LOGS_TIMEOUT", "The third is for scores alone.", duration
    )
    otlp_compression: str = setting(
        "none",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        read=_compression,
        doc="Whether what is sent is compressed.",
    )
    otlp_traces_compression: str | None = _form(
        "otlp_compression", "TRACES_COMPRESSION", "The second is for spans alone.", _compression
    )
    otlp_logs_compression: str | None = _form(
        "otlp_compression", "LOGS_COMPRESSION", "The third is for scores alone.", _compression
    )
    otlp_certificate: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CERTIFICATE", doc="File with the authorities to trust."
    )
    otlp_client_certificate: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", doc="File with our certificate."
    )
    otlp_client_key: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CLIENT_KEY", doc="File with the key of our certificate."
    )
    resource_attributes: Mapping[str, str] | None = setting(
        None, "OTEL_RESOURCE_ATTRIBUTES", read=pairs, doc="Resource attributes."
    )
    phoenix_project: str | None = setting(
        None,
        "PHOENIX_PROJECT_NAME",
        doc="Project of OpenInference, such as Phoenix has. Default: the service's name.",
        in_experiment="{name}",
    )
