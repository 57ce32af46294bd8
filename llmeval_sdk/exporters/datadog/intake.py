"""The evaluation endpoint: blocking requests of bounded size and time, every answer read."""

from __future__ import annotations

import gzip
import socket
from http.client import HTTPConnection
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters._http import Answer, Sender, _Bounded
from llmeval_sdk.exporters.datadog.library import Library
from llmeval_sdk.exporters.datadog.metrics import body_of


MAX_BODY = 3 << 20
MAX_METRICS = 500
COMPRESS_FROM = 4_096
NOT_COMPRESSED = frozenset((400, 415))
"""What a server may answer that does not read gzip."""


class Intake:
    """Posts metrics to where ddtrace would post them in the mode in force."""

    def __init__(self, library: Library, *, timeout: float) -> None:
        self._library = library
        self._timeout = timeout
        self._where: tuple[str, str, dict[str, str]] | None = None
        self._sender: Sender | None = None
        self._compress = True

    def post(self, metrics: list[bytes]) -> Answer:
        """Send one request; raises `ExportError` where there is no answer."""
        where = self._library.destination
        if self._sender is None or where != self._where:  # the app may enable ddtrace anew
            self.close()
            self._where = where
            self._sender = _sender(where[0], self._timeout)
        sender, (_, path, headers) = self._sender, where
        headers.setdefault("Content-Type", "application/json")
        body = body_of(metrics)
        if self._compress and len(body) >= COMPRESS_FROM:
            packed = {**headers, "Content-Encoding": "gzip"}
            answer = sender.post(sender.path + path, gzip.compress(body, 5), packed)
            if answer.status not in NOT_COMPRESSED:
                return answer
            plain = sender.post(sender.path + path, body, headers)
            self._compress = not plain.ok
            return plain
        return sender.post(sender.path + path, body, headers)

    def close(self) -> None:
        """Close the connection."""
        if self._sender is not None:
            self._sender.close()

    def after_fork(self) -> None:
        """Leave the connection to the parent."""
        if self._sender is not None:
            self._sender.forget()
        self._sender = None


def explain(answer: Answer) -> str:
    """Say what a person can do about a refusal."""
    if answer.status in (401, 403):
        return f"http_{answer.status}: Datadog refuses the API key; check DD_API_KEY and DD_SITE"
    failure = answer.failure()
    return f"{failure.reason}: {failure}"


def parts(metrics: list[bytes]) -> list[list[bytes]]:
    """Split metrics into requests that the endpoint takes."""
    requests: list[list[bytes]] = []
    size = MAX_BODY
    for written in metrics:
        if size + len(written) > MAX_BODY or len(requests[-1]) >= MAX_METRICS:
            requests.append([])
            size = 0
        requests[-1].append(written)
        size += len(written) + 1
    return requests


def _sender(address: str, timeout: float) -> Sender:
    if address.startswith("unix:"):
        return _UnixSender(address, timeout=timeout)
    return Sender(address, timeout=timeout)


class _UnixSender(Sender):
    """Reaches an agent by its socket file."""

    def __init__(self, address: str, *, timeout: float) -> None:
        super().__init__("http://localhost", timeout=timeout)
        self._file = unquote(urlsplit(address).path)

    def _connect(self, deadline: float) -> Any:
        if self._connection is None:
            file = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            file.settimeout(max(0.01, deadline - monotonic()))
            try:
                file.connect(self._file)
            except OSError as error:
                file.close()
                raise ExportError("unreachable", type(error).__name__, retryable=True) from error
            connection: Any = HTTPConnection("localhost")
            connection.sock = _Bounded(file)
            self._connection = connection
        return self._connection
