"""Sends OTLP over gRPC, which needs the package ``grpcio``.

There are no generated stubs: a call without serializers takes the bytes that `wire` writes.

``grpcio`` is loaded by the delivery thread, when it sends for the first time. A process that forks
before that, as the main process of a web server does, has nothing that its children could inherit.
After it, gRPC's own handlers make a fork safe as long as no call is under way. A child that is
forked in the middle of a call would hang in gRPC now and then, so gRPC is refused there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, ExportError, missing_extra
from llmeval_sdk.exporters.http import ServerAnswer
from llmeval_sdk.exporters.otlp.wire import fields
from llmeval_sdk.plugins.grpc import GrpcSettings
from llmeval_sdk.process.exits import thread_deadline
from llmeval_sdk.process.forks import after_in_child


DEFAULT = "http://localhost:4317"
_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_OPTIONS = (
    ("grpc.max_reconnect_backoff_ms", 5_000),  # two minutes by default: far beyond our own retries
    ("grpc.use_local_subchannel_pool", 1),  # no connection is shared with a parent or with the app
)
_RETRYABLE = frozenset(
    ("cancelled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss")
)
"""The codes after which the OTLP specification lets a client send the same data again."""
_UNREACHABLE = ("failed to connect", "errors resolving", "DNS resolution failed")
_LOST = ("Stream removed", "Socket closed", "Connection reset", "GOAWAY", "Broken pipe")
_KEY = re.compile(r"[a-z0-9_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


class GrpcAnswer(ServerAnswer):
    """The answer of a gRPC server. ``status`` is 200, 413 for a message that is too large, or 0."""

    __slots__ = ()

    def failure(self) -> ExportError:
        """Return the error for an answer that is not ok."""
        code, delay = self.headers["code"], self.headers.get("retry-delay")
        return ExportError(
            f"grpc_{code}",
            self.headers["details"][:200],
            retryable=code in _RETRYABLE or (code == "resource_exhausted" and delay is not None),
            retry_after=None if delay is None else float(delay),
        )


class GrpcEndpoint:
    """Where one signal is sent over gRPC, with headers and compression. One thread may use it."""

    def __init__(
        self,
        target: str,
        method: str,
        headers: Mapping[str, str],
        *,
        timeout: float,
        zipped: bool,
        credentials: tuple[bytes | None, ...] | None,
    ) -> None:
        self._target = target
        self._method = method
        self._metadata = tuple(headers.items())
        self._timeout = timeout
        self._zipped = zipped
        self._credentials = credentials
        self._channel: Any = None
        self._call: Any = None
        self.sender = self
        """The object that holds the connection: this one."""

    def send(self, body: bytes) -> ServerAnswer:
        """Send one request; raises `ExportError` where there is no answer."""
        if _parent.was_calling:
            raise ExportError(
                "grpc_after_fork",
                "this process was forked while a gRPC call of its parent was under way, and gRPC "
                "does not survive that; use http/protobuf, or fork before anything is sent",
            )
        import grpc

        if self._call is None:
            self._open(grpc)
        limit = max(0.01, min(self._timeout, thread_deadline() - monotonic()))
        compression = grpc.Compression.Gzip if self._zipped else None
        _calling.add(get_ident())
        try:
            answer = self._call(
                body, timeout=limit, metadata=self._metadata, compression=compression
            )
        except grpc.RpcError as error:
            return _failed(error, limit)
        finally:
            _calling.discard(get_ident())
        return GrpcAnswer(200, {}, answer)

    def close(self) -> None:
        """Close the connection."""
        channel, self._channel, self._call = self._channel, None, None
        if channel is not None:
            channel.close()

    def forget(self) -> None:
        """Leave the connection to the parent process, in a child after a fork."""
        if self._channel is not None:
            _parent.channels.append(self._channel)
        self._channel, self._call = None, None

    def _open(self, grpc: Any) -> None:
        """Connect by gRPC's own functions.

        Tracing libraries put others in their place, which would add exports to the app's traces.
        """
        if self._credentials is None:
            self._channel = unwrap(grpc.insecure_channel)(self._target, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(*self._credentials)
            make_channel = unwrap(grpc.secure_channel)
            self._channel = make_channel(self._target, credentials, options=_OPTIONS)
        self._call = self._channel.unary_unary(self._method)


def make(
    settings: Settings,
    signal: str,
    headers: Mapping[str, str],
    timeout: float,
    compression: str | None,
) -> GrpcEndpoint:
    """Make the endpoint of a signal; raises `ConfigurationError` where it cannot work."""
    if find_spec("grpc") is None:
        raise missing_extra("OTLP over gRPC", "grpc", "grpcio")
    if _is_cooperative():
        raise ConfigurationError(
            "gRPC would stop all greenlets while it waits: use OTEL_EXPORTER_OTLP_PROTOCOL="
            "http/protobuf with gevent and eventlet"
        )
    for key, value in headers.items():
        if not _KEY.fullmatch(key) or key.endswith("-bin") or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"the header {key!r} cannot be sent over gRPC, which takes printable ASCII only"
            )
    own_address = getattr(settings, f"otlp_{signal}_endpoint")
    address = own_address or settings.otlp_endpoint or DEFAULT
    target, secure = _target(address, settings, signal)
    files = (
        settings.otlp_certificate, settings.otlp_client_key, settings.otlp_client_certificate,
    )  # fmt: skip
    credentials = tuple(map(_content, files)) if secure else None
    return GrpcEndpoint(
        target,
        _METHODS[signal],
        headers,
        timeout=timeout,
        zipped=compression == "gzip",
        credentials=credentials,
    )


def _target(address: str, settings: Settings, signal: str) -> tuple[str, bool]:
    """Return the host and port, and whether the connection is encrypted.

    The scheme decides, and OTEL_EXPORTER_OTLP_INSECURE only where there is none. A path, which HTTP
    would use, means nothing here.
    """
    own = settings.of(GrpcSettings)
    insecure = getattr(own, f"otlp_{signal}_insecure")
    has_scheme = "://" in address
    try:
        parts = urlsplit(address if has_scheme else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("", "http", "https"):
        shown = address.rpartition("@")[2].partition("?")[0]
        raise ConfigurationError(
            f"{shown!r} is not the address of a gRPC server, such as {DEFAULT}"
        )
    secure = not (own.otlp_insecure if insecure is None else insecure)
    if has_scheme:
        secure = parts.scheme == "https"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port or (443 if secure else 4317)}", secure


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {type(error).__name__}") from None


def _is_cooperative() -> bool:
    """Return whether threads are greenlets here. A wait inside gRPC would stop all of them."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    return (gevent is not None and gevent.is_module_patched("threading")) or (
        eventlet is not None and eventlet.is_monkey_patched("thread")
    )


def _failed(error: Any, limit: float) -> GrpcAnswer:
    """Return the server's refusal; raises `ExportError` where the call had no answer."""
    code, details = error.code().name.lower(), error.details() or ""
    if code == "deadline_exceeded":
        words = f"no answer in {limit:.3g} s"
        raise ExportError("timeout", words, retryable=True, answered=False) from error
    if code == "unavailable" and details.startswith(_UNREACHABLE):
        raise ExportError("unreachable", details[:300], retryable=True) from error
    if code == "unavailable" and any(words in details for words in _LOST):
        raise ExportError(
            "connection_lost", details[:300], retryable=True, answered=False
        ) from error
    headers = {"code": code, "details": details}
    if (delay := _retry_delay(error.trailing_metadata())) is not None:
        headers["retry-delay"] = str(delay)
    is_too_large = code == "resource_exhausted" and "larger than max" in details
    return GrpcAnswer(413 if is_too_large else 0, headers, b"")


def _retry_delay(metadata: Any) -> float | None:
    """Return the seconds of a RetryInfo among the details of a status; ``None`` without one."""
    for key, status in metadata or ():
        if key == "grpc-status-details-bin":
            with suppress(ValueError, TypeError, IndexError):
                for detail in _messages(status, 3):
                    if b"google.rpc.RetryInfo" in b"".join(_messages(detail, 1)):
                        delay = _messages(_messages(detail, 2)[0], 1)
                        parts = dict(fields(delay[0])) if delay else {}
                        return float(parts.get(1, 0)) + float(parts.get(2, 0)) / 1e9
    return None


def _messages(data: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(data) if field == number and isinstance(value, bytes)]


# -- forks ----------------------------------------------------------------------------------------


class _Parent:
    """What a forked child has of the process that it was forked from."""

    def __init__(self) -> None:
        self.was_calling = False
        """Whether a call was under way at the fork."""
        self.channels: list[Any] = []
        """Kept alive, because a finaliser in this child would close them for the parent."""


_parent = _Parent()
_calling: set[int] = set()
"""The threads that are inside a call."""


def _after_fork() -> None:
    _parent.was_calling = _parent.was_calling or bool(_calling)
    _calling.clear()


after_in_child(_after_fork)
