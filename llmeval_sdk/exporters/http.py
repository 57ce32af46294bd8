"""A small HTTP client for exporters. It keeps one connection and names the reason of every failure.

One thread may use it. The deadline holds for a request as a whole, so that a server that sends one
byte a second holds us up no longer than a server that sends nothing.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.process.exits import thread_deadline
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.retries import retry_after


if TYPE_CHECKING:
    import ssl

    from _typeshed import WriteableBuffer


MAX_ANSWER = 1 << 20
RETRYABLE = frozenset((408, 429, 502, 503, 504))
NOT_A_BACKEND = "not_a_backend"
"""The reason of a failure where something else answered: a proxy, a sign-in page, another
server."""


_MAY_NOT_UNZIP = frozenset((400, 415))
"""Answers of a server that may not read gzip."""
_read_no_gzip: set[tuple[str, int | None, str]] = set()
"""The addresses, by host, port and path, that refused a compressed body and took it plain."""


class ServerAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the request was taken. A web page is no answer of a backend."""
        return 200 <= self.status < 300 and not self._is_page

    @property
    def _is_page(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/html")

    def failure(self) -> ExportError:
        """Return the error for an answer that is not ok."""
        if 200 <= self.status < 300:
            return ExportError(NOT_A_BACKEND, "the answer is a web page: check the address")
        if 300 <= self.status < 400:
            return ExportError(
                f"http_{self.status}", "redirects are not followed: set the address itself"
            )
        return ExportError(
            f"http_{self.status}",
            self.body[:200].decode("utf-8", "replace"),
            retryable=self.status in RETRYABLE,
            retry_after=retry_after(self.headers),
        )


class Tls(NamedTuple):
    """Files for an encrypted connection; the system's authorities by default."""

    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None


class HttpSender:
    """Sends requests to one server and keeps the connection.

    Raises `ConfigurationError` if ``base`` is not the address of a server.
    """

    def __init__(self, base: str, *, timeout: float, tls: Tls | None = None) -> None:
        try:
            parts = urlsplit(base if "//" in base else f"http://{base}")
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            parts, self._host = urlsplit(""), ""
        if not self._host or parts.scheme not in ("http", "https"):
            shown = base.rpartition("@")[2].partition("?")[0]
            raise ConfigurationError(
                f"{shown!r} is not the address of an HTTP server, such as http://localhost:4318"
            )
        self._secure = parts.scheme == "https"
        self.path = parts.path.rstrip("/")
        """The path in the server's address, which begins every other path."""
        self._timeout = timeout
        self._tls = tls or Tls()
        self._connection: HTTPConnection | None = None
        self._has_unzipped = False

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> ServerAnswer:
        """Send a POST request; see `request`."""
        return self.request("POST", path, body, headers)

    def post_zipped(self, path: str, body: bytes, headers: Mapping[str, str]) -> ServerAnswer:
        """Send a POST request with a compressed body to a server that may not read gzip.

        What it refuses for that reason is sent once as it is. If it is taken then, everything else
        for this place goes as it is, as long as the process lives. See `request`.
        """
        place = (self._host, self._port, path)
        if place in _read_no_gzip:
            return self.post(path, body, headers)
        zipped = gzip.compress(body, compresslevel=1, mtime=0)
        answer = self.post(path, zipped, {**headers, "content-encoding": "gzip"})
        if answer.ok:
            self._has_unzipped = True
        if answer.status not in _MAY_NOT_UNZIP or (self._has_unzipped and answer.status != 415):
            return answer
        answer = self.post(path, body, headers)
        if answer.ok:
            _read_no_gzip.add(place)
        return answer

    def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ServerAnswer:
        """Send a request and return the answer, whatever its status is.

        Raises `ExportError`: ``unreachable`` if nothing was sent, ``timeout`` or
        ``connection_lost`` if the server may have taken the request. All of them are worth another
        try. The request ends by this sender's timeout, and by the deadline that `due_by` sets for
        the thread.
        """
        deadline = min(monotonic() + self._timeout, thread_deadline())
        reused = self._connection is not None
        try:
            return self._exchange(method, path, body, headers, deadline)
        except (ConnectionError, HTTPException) as error:
            self.close()
            if not reused:
                raise _lost(error) from error
        try:  # a kept connection may have been closed by the server in the meantime
            return self._exchange(method, path, body, headers, deadline)
        except (ConnectionError, HTTPException) as error:
            self.close()
            raise _lost(error) from error

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def forget(self) -> None:
        """Leave the connection to the parent process, in a child after a fork."""
        if self._connection is not None:
            _of_parents.append(self._connection)
            self._connection = None

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> ServerAnswer:
        connection = self._connect(deadline)
        try:
            timed = connection.sock
            assert isinstance(timed, _TimedSocket)
            timed.until(deadline)
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            content = response.read(MAX_ANSWER)
            headers_of_answer = {key.lower(): value for key, value in response.getheaders()}
            if response.will_close or not response.isclosed():
                self.close()
            return ServerAnswer(response.status, headers_of_answer, content)
        except TimeoutError as error:
            self.close()
            limit = (
                "before the process had to end"
                if deadline == thread_deadline()
                else f"in {self._timeout:g} s"
            )
            raise ExportError(
                "timeout", f"no answer {limit}", retryable=True, answered=False
            ) from error
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            self.close()
            raise _lost(error) from error

    def _connect(self, deadline: float) -> HTTPConnection:
        if self._connection is not None:
            return self._connection
        left = max(0.01, deadline - monotonic())
        connection: HTTPConnection
        try:
            if self._secure:
                connection = HTTPSConnection(
                    self._host, self._port, timeout=left, context=self._context()
                )
            else:
                connection = HTTPConnection(self._host, self._port, timeout=left)
            connection.connect()
        except OSError as error:  # refused, no such host, no route, a bad certificate, a time-out
            raise ExportError("unreachable", type(error).__name__, retryable=True) from error
        connection.sock = _TimedSocket(connection.sock)
        self._connection = connection
        return connection

    def _context(self) -> ssl.SSLContext:
        with loading:
            import ssl

        context = ssl.create_default_context(cafile=self._tls.certificate)
        if self._tls.client_certificate:
            context.load_cert_chain(self._tls.client_certificate, self._tls.client_key)
        return context


_of_parents: list[HTTPConnection] = []
"""Connections of the parent process. They are kept alive, because a finaliser in this child would
close them for the parent."""


def _lost(error: Exception) -> ExportError:
    return ExportError("connection_lost", type(error).__name__, retryable=True, answered=False)


class _TimedSocket(io.RawIOBase):
    """A socket of which every read and write ends by the same deadline."""

    def __init__(self, inner: socket) -> None:
        self._inner = inner
        self._deadline = 0.0
        self._readers = 0
        self._ended = False

    def until(self, deadline: float) -> None:
        self._deadline = deadline

    def _left(self) -> float:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def makefile(self, mode: str = "rb", *_: object, **__: object) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._inner.settimeout(self._left())
            view = view[self._inner.send(view[: 1 << 18]) :]

    def receive(self, buffer: WriteableBuffer) -> int:
        self._inner.settimeout(self._left())
        return self._inner.recv_into(buffer)

    def close(self) -> None:
        """Close the socket after its last reader: the client closes first and then reads on."""
        self._ended = True
        if not self._readers:
            self._inner.close()

    def released(self) -> None:
        self._readers -= 1
        if self._ended:
            self.close()


class _Reader(io.RawIOBase):
    """Reads a response; closing it leaves the connection open."""

    def __init__(self, source: _TimedSocket) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._source.receive(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._source.released()
