"""Alarms as OpenTelemetry: one event when something changes, and gauges of how each alert stands.

All of them go through the process's own providers, such as those that ``opentelemetry-instrument
llmeval watch`` sets up; without the extra ``otel``, or without providers, nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from llmeval_sdk.plugins.watch._watch_state import AlertMessage


EVENT = "llmeval.alert"
ACTIVE = "llmeval.alert.active"
EVIDENCE = "llmeval.alert.evidence"
UNDECIDED = "llmeval.alert.undecided"
SCOPE = "llmeval_sdk"
_UNDECIDED = "undecided"


class Telemetry:
    """The events and gauges of one process. By default they go to its own providers."""

    def __init__(self, logger_provider: Any = None, meter_provider: Any = None) -> None:
        self._logger: Any = None
        self._standings: dict[str, tuple[str, float]] = {}
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
        self._observation = metrics.Observation
        meter.create_observable_gauge(
            ACTIVE,
            [lambda _: self._observe(lambda state, _: int(state == "alarm"))],
            unit="1",
            description="1 while an alarm is in force and not silenced, 0 while there is none;"
            " no value while that cannot be decided",
        )
        meter.create_observable_gauge(
            EVIDENCE,
            [lambda _: self._observe(lambda _, evidence: evidence)],
            unit="1",
            description="Evidence against the bound, 1 being an alarm; no value while it cannot be"
            " decided",
        )
        meter.create_observable_gauge(
            UNDECIDED,
            [lambda _: self._observe(lambda state, _: int(state == _UNDECIDED), every=True)],
            unit="1",
            description="1 while the alert cannot be decided, else 0",
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

    def gauges(self, alert: str, state: str, evidence: float) -> None:
        """Say how an alert stands; ``evidence`` is in parts of what raises an alarm.

        ``state`` is that of a `_watching.Standing`. An alert that cannot be decided has no value
        of `ACTIVE` and `EVIDENCE`, because a 0 would look like calm. So the gauges are observable
        ones: the SDK would repeat the last value of the others for ever.
        """
        self._standings[alert] = state, evidence

    def _observe(
        self, value: Callable[[str, float], float], *, every: bool = False
    ) -> Iterator[Any]:
        for alert, (state, evidence) in tuple(self._standings.items()):
            if every or state != _UNDECIDED:
                yield self._observation(value(state, evidence), {"llmeval.alert": alert})

    def flush(self) -> None:
        """Send what waits; a process that looks once ends right afterwards."""
        for provider in self._providers if self._logger is not None else ():
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush(5_000)
