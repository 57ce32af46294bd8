"""OTLP over gRPC."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.config.reading import Table, flag, setting
from llmeval_sdk.pipeline.plan import Plugin


def _form(variable: str, doc: str) -> Any:
    return setting(
        None, f"OTEL_EXPORTER_OTLP_{variable}", read=flag, doc=doc, form_of="otlp_insecure"
    )


class GrpcSettings(Table):
    """Whether connections are encrypted, by OpenTelemetry's own variables."""

    otlp_insecure: bool = setting(
        False,
        "OTEL_EXPORTER_OTLP_INSECURE",
        read=flag,
        doc="Whether gRPC is not encrypted, for an address without `http://` or `https://`.",
    )
    otlp_traces_insecure: bool | None = _form("TRACES_INSECURE", "The second is for spans alone.")
    otlp_logs_insecure: bool | None = _form("LOGS_INSECURE", "The third is for scores alone.")


class GrpcPlugin(Plugin):
    """The protocol ``grpc`` of the exporter ``otlp``."""

    name = "grpc"
    settings = {"OTLP over gRPC": ":GrpcSettings"}
    transports = {"grpc": "exporter:make"}


plugin = GrpcPlugin()
