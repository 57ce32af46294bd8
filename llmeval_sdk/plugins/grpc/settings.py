"""The settings that only OTLP over gRPC has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmeval_sdk.config.reading import flag, setting


def _form(variable: str, doc: str) -> Any:
    return setting(
        None, f"OTEL_EXPORTER_OTLP_{variable}", read=flag, doc=doc, form_of="otlp_insecure"
    )


@dataclass(frozen=True, kw_only=True)
class GrpcSettings:
    """Whether connections are encrypted, by OpenTelemetry's own variables."""

    otlp_insecure: bool = setting(
        False,
        "OTEL_EXPORTER_OTLP_INSECURE",
        read=flag,
        doc="Whether gRPC is not encrypted, for an address without `http://` or `https://`.",
    )
    otlp_traces_insecure: bool | None = _form("TRACES_INSECURE", "The second is for spans alone.")
    otlp_logs_insecure: bool | None = _form("LOGS_INSECURE", "The third is for scores alone.")
