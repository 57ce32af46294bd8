"""Alarms as OpenTelemetry: one event when something changes, and a gauge of what is in force.

Both go through the process's own providers, such as ``opentelemetry-instrument llmeval watch`` sets
up; without the extra ``otel``, or without providers, nothing happens.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from llmeval_sdk.cli._watch_state import AlertMessage


EVENT = "llmeval.alert"
ACTIVE = "llmeval.alert.active"
EVIDENCE = "llmeval.alert.evidence"
SCOPE = "llmeval_sdk"


class Telemetry:
    """Events and gauges of one process; providers may be given to it."""

    def __init__(self, logger_provider: Any = None, meter_provider: Any = None) -> None:
        self._logger: Any = None
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
            return
        from opentelemetry import _logs, metrics

        self._severity = _logs.SeverityNumber
        self._providers = (
            logger_provider or _logs.get_logger_provider(),
            meter_provider or metrics.get_meter_provider(),
        )
        self._logger = self._providers[0].get_logger(SCOPE)
        meter = self._providers[1].get_meter(SCOPE)
        self._active = meter.create_gauge(
            ACTIVE, unit="1", description="1 while an alarm is in force and not silenced, else 0"
        )
        self._evidence = meter.create_gauge(
            EVIDENCE, unit="1", description="Evidence against the bound, 1 being an alarm"
        )

    def event(self, message: AlertMessage) -> None:
        """Send what there is to tell."""
        if self._logger is None:
            return
        level = self._severity.WARN if message.kind == "raised" else self._severity.INFO
        about = {"llmeval.alert": message.alert, "llmeval.alert.change": message.kind}
        self._logger.emit(
            timestamp=message.at_ns,
            severity_number=level,
            severity_text=level.name,
            body=message.text,
            attributes=about,
            event_name=EVENT,
        )

    def gauges(self, alert: str, *, active: bool, evidence: float) -> None:
        """Say how an alert stands; ``evidence`` is in parts of what raises an alarm."""
        if self._logger is not None:
            self._active.set(int(active), {"llmeval.alert": alert})
            self._evidence.set(evidence, {"llmeval.alert": alert})

    def flush(self) -> None:
        """Send what waits; a process that looks once ends right afterwards."""
        for provider in self._providers if self._logger is not None else ():
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush(5_000)
