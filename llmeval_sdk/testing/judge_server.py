"""An OpenAI-compatible server on the loopback interface, for tests and demos without a model.

By default it answers our own judges by rules on shared words; this is the stand-in, and every
rationale says so. For tests it can do to a client whatever a server in production may do::

    with JudgeServer(script=["rate_limited", "good"]) as server:
        llm = OpenAILLM("stand-in", base_url=server.base_url)

``python -m llmeval_sdk.testing.judge_server`` serves the stand-in until it is interrupted.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar
from warnings import warn

from llmeval_sdk.testing._behaviours import (
    MODEL,
    Answer,
    Behaviour,
    ServedAnswer,
    behave,
    embeddings,
    error,
    models,
    stand_in,
)


if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MODEL", "Answer", "Behaviour", "JudgeServer", "ReceivedRequest", "stand_in"]

_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request that arrived: its path, its headers in lower case, its decoded body."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class JudgeServer:
    """Serves ``/v1/chat/completions``, ``/v1/embeddings`` and ``/v1/models`` while it is entered.

    Args:
        answer: Decides the content of a good reply; the stand-in by default.
        script: How the first chat calls are answered, one entry each: a `Behaviour` or an answer.
        default: How the calls after the script are answered.
        delay: How many seconds ``slow`` waits.
        retry_after: How many seconds ``rate_limited`` asks the client to wait.
        key: If given, every other key is refused with 401 and a message that quotes the sent key.
        port: The port to listen on; 0 takes a free one.
    """

    stands_in_for: ClassVar[str] = "judge"

    def __init__(
        self,
        answer: Answer = stand_in,
        *,
        script: Iterable[Behaviour | Answer] = (),
        default: Behaviour = "good",
        delay: float = 0.2,
        retry_after: float = 1.0,
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.script: deque[Behaviour | Answer] = deque(script)
        self.default: Behaviour = default
        self.delay = delay
        self.retry_after = retry_after
        self.key = key
        self.requests: list[ReceivedRequest] = []
        self.stopping = threading.Event()
        self._port = port
        self._server: _ListeningServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Address for a client, ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """How many chat completions were asked for."""
        return len(self.chats)

    @property
    def chats(self) -> list[ReceivedRequest]:
        """The chat completion requests, in the order in which they came."""
        return [
            request for request in list(self.requests) if request.path.endswith("/chat/completions")
        ]

    def start(self) -> None:
        """Listen and serve on daemon threads."""
        self._server = _ListeningServer(self, self._port)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="judge-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, cut every open connection and wait for the threads to end."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self.stopping.set()
        server.shutdown()
        thread.join(_JOIN_SECONDS)
        server.cut()
        server.server_close()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def refused(self, request: ReceivedRequest) -> ServedAnswer | None:
        """Return what a request with a wrong key gets."""
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is None or sent == self.key:
            return None
        return error(401, f"Incorrect API key provided: {sent}", "invalid_api_key")

    def reply(self, request: ReceivedRequest) -> ServedAnswer:
        """Decide what one request gets."""
        if (refused := self.refused(request)) is not None:
            return refused
        if request.path.endswith("/embeddings"):
            return embeddings(request.body)
        if request.path.endswith("/models"):
            return models()
        if not request.path.endswith("/chat/completions"):
            return error(404, f"There is no {request.path}.", "not_found")
        try:
            entry = self.script.popleft()
        except IndexError:
            entry = self.default
        if callable(entry):
            return behave("good", request.body, entry, self.retry_after)
        return behave(entry, request.body, self.answer, self.retry_after)


class _ListeningServer(ThreadingHTTPServer):
    """Knows its connections, so that it can end with them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: JudgeServer, port: int) -> None:
        self.owner = owner
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="judge-server-connection",
            daemon=True,
        )
        self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Close the connections that clients keep open, and wait for their threads."""
        deadline = time.monotonic() + _JOIN_SECONDS
        for connection, thread in list(self._open.items()):
            try:  # noqa: SIM105
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            thread.join(max(0.0, deadline - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that hang up; show mistakes of the server or its answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # with delayed acknowledgement each call would take 40 ms
    wbufsize = -1
    server: _ListeningServer
    _BREAKS: ClassVar[frozenset[str]] = frozenset({"reset", "hang"})

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        owner = self.server.owner
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ReceivedRequest(self.path.partition("?")[0], headers, json.loads(text or b"{}"))
        owner.requests.append(request)
        answer = owner.reply(request)
        if answer.manner in self._BREAKS:
            if answer.manner == "hang":
                owner.stopping.wait()
            self.close_connection = True
            return
        if answer.manner == "slow":
            owner.stopping.wait(owner.delay)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.manner == "drip":
            self._drip(answer.body)
        else:
            self.wfile.write(answer.body)

    def _drip(self, body: bytes) -> None:
        for position in range(len(body)):
            self.wfile.write(body[position : position + 1])
            self.wfile.flush()
            if self.server.owner.stopping.wait(0.02):
                self.close_connection = True
                return

    def log_message(self, *_: Any) -> None:
        """Say nothing: what came is in ``requests``."""


def __getattr__(name: str) -> Any:
    """Return what was called ``Seen``: a class of `llmeval_sdk.estimates` has that name as well."""
    if name == "Seen":
        warn("Seen is called ReceivedRequest now", DeprecationWarning, stacklevel=2)
        return ReceivedRequest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(
    arguments: list[str] | None = None, *, server_class: type[JudgeServer] = JudgeServer
) -> None:
    """Serve the stand-in until interrupted."""
    import argparse

    name = server_class.stands_in_for
    module = f"{name.partition(' ')[0]}_server"
    parser = argparse.ArgumentParser(prog=f"python -m llmeval_sdk.testing.{module}")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    options = parser.parse_args(arguments)
    with server_class(port=options.port) as server:
        sys.stdout.write(f"stand-in {name} (rules, no model) at {server.base_url}\n")
        sys.stdout.flush()
        try:
            server.stopping.wait()
        except KeyboardInterrupt:
            sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main()
