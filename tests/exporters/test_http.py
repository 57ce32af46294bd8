"""The exporters' HTTP client."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from otlp_collector import running_collector

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.exporters.http import HttpSender
from llmeval_sdk.process.exits import ending_by, thread_deadline


@pytest.mark.parametrize(
    "address", ["sqlite:///mlflow.db", "file:./mlruns", "http://[::1", "http://h:port", "http://"]
)
def test_what_is_no_servers_address_is_told_at_once(address):
    """Not when the first batch is sent, to a host that nobody meant."""
    with pytest.raises(ConfigurationError, match="is not the address of an HTTP server"):
        HttpSender(address, timeout=1.0)


def test_a_wrong_address_is_told_without_its_password():
    """It may stand in a log."""
    with pytest.raises(ConfigurationError) as told:
        HttpSender("ftp://user:secret@host/x?key=secret", timeout=1.0)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_an_answer_is_read_whole_from_a_server_that_then_closes(protocol):
    """Each request arrives once: one that seemed lost would be sent again."""
    arrived = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_POST(self):
            arrived.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"taken" * 1_000)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        sender = HttpSender(f"http://127.0.0.1:{server.server_port}", timeout=5)
        for body in (b"one", b"two"):
            answer = sender.post("/", body, {})
            assert (answer.status, answer.body) == (202, b"taken" * 1_000)
        sender.close()
    finally:
        server.shutdown()
        server.server_close()
    assert arrived == [b"one", b"two"]


def test_a_request_ends_by_the_deadline_of_its_thread():
    """Whatever time-out it has, and with another one only where that is sooner."""
    with running_collector() as collector:
        collector.hang.set()
        for seconds, deadline in ((600.0, 0.2), (0.2, 600.0)):
            sender = HttpSender(collector.url, timeout=seconds)
            with ending_by(time.monotonic() + deadline), pytest.raises(ExportError) as lost:
                sender.post("/v1/traces", b"", {})
            assert (lost.value.reason, lost.value.answered) == ("timeout", False)
        collector.hang.clear()
    assert thread_deadline() == float("inf")


def test_an_outer_deadline_is_never_put_off():
    """And it holds for the thread that set it only."""
    elsewhere = []
    with ending_by(5.0):
        with ending_by(9.0):
            assert thread_deadline() == 5.0
        thread = threading.Thread(target=lambda: elsewhere.append(thread_deadline()))
        thread.start()
        thread.join()
    assert elsewhere == [float("inf")]
