"""Delivers alarms: to an HTTP address, and as OpenTelemetry's events and gauges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.plugins.watch.settings import WatchSettings
from llmeval_sdk.process.retries import pauses


@dataclass(slots=True)
class AlertMessage:
    """Something to tell people about an alert, kept in the outbox until it has been told."""

    id: str
    alert: str
    kind: str
    at_ns: int
    """When it happened, by the times of the records."""
    text: str
    facts: Mapping[str, object]
    put_ns: int
    """When it was put into the outbox."""
    taken_ns: int = 0
    """When a process took it to send; 0 while none does."""

    def as_plain(self) -> dict[str, object]:
        """Return what people and programs are told."""
        return {"id": self.id, "kind": self.kind, "text": self.text, **self.facts}


# To an HTTP address, as a JSON object of our own or as text in Slack's form.

ATTEMPTS = 4
MAX_PAUSE_SECONDS = 8.0
SECONDS = 10.0
"""How long one attempt may take, as a whole."""
SLACK = "hooks.slack.com"


class Webhook:
    """Sends messages to the address of ``LLMEVAL_ALERT_WEBHOOK``.

    Slack's hosts get the text alone, as they take it; ``for_slack`` says that another one does.

    Raises `ConfigurationError` if the address or the token cannot be used. The error shows neither,
    because both may be secret.
    """

    def __init__(
        self, watching: WatchSettings, *, pause: float = 0.5, for_slack: bool = False
    ) -> None:
        assert watching.alert_webhook is not None
        address = watching.alert_webhook.reveal().strip()
        try:
            parts = urlsplit(address)
            host, _ = parts.hostname or "", parts.port
            host.encode("idna")
        except ValueError:  # a port that is no number, half a bracket, an impossible host name
            parts, host = urlsplit(""), ""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if parts.scheme not in ("http", "https") or not host or not _is_plain(path):
            raise ConfigurationError(
                "LLMEVAL_ALERT_WEBHOOK is not the address of an HTTP server, such as"
                " https://example.com/hook"
            )
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._path = path
        self._token = watching.alert_token.reveal().strip() if watching.alert_token else None
        if self._token and not _is_plain(self._token):
            raise ConfigurationError(
                "LLMEVAL_ALERT_TOKEN cannot be sent in a header: it holds a space, a line break or"
                " a character outside ASCII"
            )
        self._is_for_slack = for_slack or host == SLACK
        self._pause = pause

    def tell(self, message: Mapping[str, object]) -> None:
        """Send one message, with up to four attempts if trying again may help.

        Raises `ExportError` if it was not taken.
        """
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        def is_passing(error: BaseException) -> bool:
            return isinstance(error, ExportError) and error.retryable

        body = {"text": message["text"]} if self._is_for_slack else message
        data = json.dumps(body).encode()
        waits = pauses(self._pause, MAX_PAUSE_SECONDS, spread=(0.0, 1.0))
        for attempt in Retrying(
            wait=lambda _: next(waits),
            stop=stop_after_attempt(ATTEMPTS),
            retry=retry_if_exception(is_passing),
            reraise=True,
        ):
            with attempt:
                self._send(data, str(message.get("id", "")))

    def _send(self, data: bytes, key: str) -> None:
        from llmeval_sdk.exporters.http import HttpSender

        key = key.encode(
            "ascii", "backslashreplace"
        ).decode()  # evaluators have names in any script
        headers = {"content-type": "application/json", "idempotency-key": key}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        sender = HttpSender(self._base, timeout=SECONDS)
        try:
            answer = sender.post(self._path, data, headers)
        finally:
            sender.close()
        if not 200 <= answer.status < 300:
            raise answer.failure()


def _is_plain(text: str) -> bool:
    """Say whether a text may stand in the head of an HTTP request."""
    return text.isascii() and text.isprintable() and " " not in text


# As OpenTelemetry: one event when something changes, and gauges of how each alert stands. All of
# them go through the process's own providers, such as those that ``opentelemetry-instrument llmeval
# watch`` sets up; without the extra ``otel``, or without providers, nothing happens.

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

        ``state`` is that of a `command.Standing`. An alert that cannot be decided has no value
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
