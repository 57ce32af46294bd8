"""Where OTLP goes, by OpenTelemetry's own variables, and what the app is called there."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Mapping
from os import getpid
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from llmeval_sdk.config import Settings
from llmeval_sdk.exporters._http import Answer, Sender, Tls
from llmeval_sdk.exporters.otel import names
from llmeval_sdk.exporters.otel.wire import Attribute


DEFAULT = "http://localhost:4318"


class Endpoint:
    """One signal's server, address, headers and compression."""

    def __init__(
        self, sender: Sender, path: str, headers: Mapping[str, str], *, zipped: bool
    ) -> None:
        self.sender = sender
        self._path = path
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._zipped = zipped
        if zipped:
            self._headers["content-encoding"] = "gzip"

    def send(self, body: bytes) -> Answer:
        """Send one request; raises `ExportError` where there is no answer."""
        if self._zipped:
            body = gzip.compress(body, compresslevel=5, mtime=0)
        return self.sender.post(self._path, body, self._headers)


class Endpoints(NamedTuple):
    """Where spans go and where evaluations go; ``None`` where they do not."""

    traces: Endpoint | None
    logs: Endpoint | None


def endpoints(settings: Settings) -> Endpoints:
    """Read both from the settings. One given alone says that the other signal stays here."""
    base, traces, logs = (
        settings.otlp_endpoint, settings.otlp_traces_endpoint, settings.otlp_logs_endpoint,
    )  # fmt: skip
    if base or not (traces or logs):
        base = (base or DEFAULT).rstrip("/")
        traces, logs = traces or f"{base}/v1/traces", logs or f"{base}/v1/logs"
    return Endpoints(
        _endpoint(settings, "traces", traces) if traces else None,
        _endpoint(settings, "logs", logs) if logs else None,
    )


def _endpoint(settings: Settings, signal: str, address: str) -> Endpoint:
    """Make one signal's endpoint: what is said of OTLP holds where nothing is of the signal."""

    def said(what: str) -> Any:
        own = getattr(settings, f"otlp_{signal}_{what}")
        return getattr(settings, f"otlp_{what}") if own is None else own

    tls = Tls(settings.otlp_certificate, settings.otlp_client_certificate, settings.otlp_client_key)
    headers = {**(settings.otlp_headers or {}), **(said("headers") or {})}
    sender = Sender(address, timeout=said("timeout"), tls=tls)
    parts = urlsplit(address if "//" in address else f"http://{address}")
    return Endpoint(
        sender,
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        {name: value.reveal() for name, value in headers.items()},
        zipped=said("compression") == "gzip",
    )


def resource(settings: Settings, **more: str) -> dict[str, Attribute]:
    """Describe the app: what the environment says of it, and where it runs."""
    given = dict(settings.resource_attributes or {})
    name = settings.service_name or given.get("service.name") or "llmeval"
    return {
        "telemetry.sdk.name": names.SCOPE,
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": version(),
        "process.pid": getpid(),
        "host.name": socket.gethostname(),
        names.OI_PROJECT: settings.phoenix_project or name,
        **given,
        "service.name": name,
        **more,
    }


def version() -> str:
    """Return the version of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of("llmeval-sdk")
    except PackageNotFoundError:
        return "0"
