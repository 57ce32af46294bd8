"""The rows of the settings table for OpenTelemetry, Phoenix and MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk._setting import (
    Secret,
    duration,
    flag,
    one_of,
    pairs,
    secret_pairs,
    setting,
)


_OTLP = "OTEL_EXPORTER_OTLP"


def _protocol(text: str) -> str:
    if text.strip().lower() != "http/protobuf":
        raise ValueError("only http/protobuf is spoken, mostly on the collector's port 4318")
    return "http/protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSettings:
    """What OpenTelemetry's own variables say, and where Phoenix and MLflow are."""

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
        None, f"{_OTLP}_ENDPOINT", doc="OTLP server, `http://localhost:4318`; turns `otlp` on."
    )
    otlp_traces_endpoint: str | None = setting(
        None, f"{_OTLP}_TRACES_ENDPOINT", doc="Whole address for spans, where it differs."
    )
    otlp_logs_endpoint: str | None = setting(
        None, f"{_OTLP}_LOGS_ENDPOINT", doc="Whole address for scores, where it differs."
    )
    otlp_protocol: str = setting(
        "http/protobuf",
        f"{_OTLP}_PROTOCOL",
        read=_protocol,
        doc="Only `http/protobuf` is spoken.",
    )
    otlp_headers: Mapping[str, Secret] | None = setting(
        None, f"{_OTLP}_HEADERS", read=secret_pairs, doc="Headers, `key=value,key=value`."
    )
    otlp_traces_headers: Mapping[str, Secret] | None = setting(
        None, f"{_OTLP}_TRACES_HEADERS", read=secret_pairs, doc="More headers, for spans."
    )
    otlp_logs_headers: Mapping[str, Secret] | None = setting(
        None, f"{_OTLP}_LOGS_HEADERS", read=secret_pairs, doc="More headers, for scores."
    )
    otlp_timeout: float = setting(
        10.0,
        f"{_OTLP}_TIMEOUT",
        read=duration,
        doc="Seconds a request may take; from 500 on, milliseconds.",
    )
    otlp_traces_timeout: float | None = setting(
        None, f"{_OTLP}_TRACES_TIMEOUT", read=duration, doc="The same for spans, where it differs."
    )
    otlp_logs_timeout: float | None = setting(
        None, f"{_OTLP}_LOGS_TIMEOUT", read=duration, doc="The same for scores, where it differs."
    )
    otlp_compression: str = setting(
        "none", f"{_OTLP}_COMPRESSION", read=one_of("none", "gzip"), doc="`gzip` or `none`."
    )
    otlp_traces_compression: str | None = setting(
        None,
        f"{_OTLP}_TRACES_COMPRESSION",
        read=one_of("none", "gzip"),
        doc="The same for spans, where it differs.",
    )
    otlp_logs_compression: str | None = setting(
        None,
        f"{_OTLP}_LOGS_COMPRESSION",
        read=one_of("none", "gzip"),
        doc="The same for scores, where it differs.",
    )
    otlp_certificate: str | None = setting(
        None, f"{_OTLP}_CERTIFICATE", doc="File with the authorities to trust."
    )
    otlp_client_certificate: str | None = setting(
        None, f"{_OTLP}_CLIENT_CERTIFICATE", doc="File with our certificate."
    )
    otlp_client_key: str | None = setting(
        None, f"{_OTLP}_CLIENT_KEY", doc="File with the key of our certificate."
    )
    service_name: str | None = setting(
        None, "OTEL_SERVICE_NAME", "DD_SERVICE", doc="Name of the app in every backend."
    )
    resource_attributes: Mapping[str, str] | None = setting(
        None, "OTEL_RESOURCE_ATTRIBUTES", read=pairs, doc="Resource attributes, `key=value,…`."
    )
    phoenix_endpoint: str = setting(
        "http://127.0.0.1:6006",
        "LLMEVAL_PHOENIX_ENDPOINT",
        "PHOENIX_COLLECTOR_ENDPOINT",
        doc="Where Phoenix is.",
    )
    phoenix_api_key: Secret | None = setting(
        None, "PHOENIX_API_KEY", read=Secret, doc="Key for Phoenix."
    )
    phoenix_project: str | None = setting(
        None, "PHOENIX_PROJECT_NAME", doc="Phoenix project. Default: the service's name."
    )
    mlflow_uri: str = setting(
        "http://127.0.0.1:5000",
        "LLMEVAL_MLFLOW_URI",
        "MLFLOW_TRACKING_URI",
        doc="Where the MLflow server is.",
    )
    mlflow_experiment: str | None = setting(
        None,
        "MLFLOW_EXPERIMENT_NAME",
        doc="MLflow experiment, made if absent. Default: the service's name.",
    )
    mlflow_experiment_id: str | None = setting(
        None, "MLFLOW_EXPERIMENT_ID", doc="MLflow experiment by id."
    )
    mlflow_token: Secret | None = setting(
        None, "MLFLOW_TRACKING_TOKEN", read=Secret, doc="Token for MLflow."
    )
    mlflow_username: str | None = setting(None, "MLFLOW_TRACKING_USERNAME", doc="MLflow user.")
    mlflow_password: Secret | None = setting(
        None, "MLFLOW_TRACKING_PASSWORD", read=Secret, doc="MLflow user's password."
    )
