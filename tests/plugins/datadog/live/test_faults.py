"""Whatever the far end does, the app's calls are quick, nothing raises, and the account adds up."""

import gzip
import io
import json
import socket
import threading

import pytest


def said(arrived):
    return dict(line.split(" ", 1) for line in arrived.output.splitlines())


def run(agent, folder, url, *arguments, **env):
    return agent.run(
        "faults.py", *arguments, mode="no-apm", folder=folder, DD_TRACE_AGENT_URL=url,
        LLMEVAL_SHUTDOWN_TIMEOUT="1", **env,
    )  # fmt: skip


@pytest.fixture
def hole():
    """Accepts and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("status", [403, 400])
def test_a_refusal_is_permanent_and_told(agent, tmp_path, intake, status):
    """No score is tried again; a person reads what to check."""
    with intake(lambda _: status) as server:
        arrived = run(agent, tmp_path, server.url, "10")
    facts = said(arrived)
    assert arrived.code == 0
    assert facts["balanced"] == "True"
    assert f"'http_{status}': 201" in facts["evaluations"]
    assert int(facts["worst_ms"]) < 500
    if status == 403:
        assert "check DD_API_KEY" in arrived.errors


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (302, {"Location": "http://127.0.0.1:9/elsewhere"}, "http_302"),
        (200, {"Content-Type": "text/html"}, "not_a_backend"),
    ],
)
def test_what_something_else_answers_delivers_no_score(
    agent, tmp_path, intake, status, headers, reason
):
    """A redirect is not followed, and a sign-in page is no intake."""
    with intake(status, headers=headers) as server:
        arrived = run(agent, tmp_path, server.url, "10")
    facts = said(arrived)
    assert (arrived.code, facts["balanced"]) == (0, "True")
    assert f"'{reason}': 201" in facts["evaluations"]


def test_a_name_that_nobody_knows_costs_a_call_nothing(agent, tmp_path):
    """What cannot be delivered is counted."""
    arrived = run(agent, tmp_path, "http://no-such-host.invalid:8126", "2")
    assert (arrived.code, said(arrived)["balanced"]) == (0, "True")
    assert int(said(arrived)["worst_ms"]) < 500
    assert arrived.errors.count("llmeval_sdk") <= 3


def test_scores_wait_for_a_far_end_that_is_busy(agent, tmp_path, intake):
    """503 and 429 are tried again, after the time that was asked for, and each arrives once."""
    with intake(
        lambda n: (503, 429)[n % 2] if n < 6 else 202, headers={"Retry-After": "0.1"}
    ) as server:
        arrived = run(agent, tmp_path, server.url, "20")
        taken = server.arrived
    assert said(arrived)["balanced"] == "True"
    assert " 402 0" in said(arrived)["evaluations"]
    assert len(taken.evaluations) >= 201


def test_a_request_that_is_too_large_is_halved(agent, tmp_path, intake):
    """Until it is taken."""
    refused = []

    with intake(202) as server:
        handler = server.server.RequestHandlerClass
        plain = handler.do_POST

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            if not self.path.endswith("eval-metric"):
                return plain(self)
            body = self.rfile.read(length)
            many = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
            if len(json.loads(many)["data"]["attributes"]["metrics"]) > 3:
                refused.append(length)
                self.send_response(413)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            self.rfile = io.BytesIO(body)
            return plain(self)

        handler.do_POST = do_POST
        arrived = run(agent, tmp_path, server.url, "10")
        taken = server.arrived
    assert refused
    assert len(taken.evaluations) == 201
    assert said(arrived)["evaluations"].startswith("{} 0 402 0")


def test_a_far_end_that_hangs_never_holds_a_call(agent, tmp_path, hole):
    """Alone, ddtrace blocks a call for 15 seconds once 5 MiB wait; here only its own exit is slow."""
    arrived = run(agent, tmp_path, hole, "2", "--big")
    facts = said(arrived)
    assert arrived.code == 0
    assert int(facts["worst_ms"]) < 500
    assert facts["balanced"] == "True"
    assert "problems {}" in arrived.output


def test_no_agent_at_all_costs_a_call_nothing(agent, tmp_path):
    """What cannot be delivered is counted, in every mode."""
    arrived = run(agent, tmp_path, "http://127.0.0.1:9", "2")
    assert arrived.code == 0
    assert int(said(arrived)["worst_ms"]) < 500
    assert said(arrived)["balanced"] == "True"
    assert arrived.errors.count("llmeval_sdk") <= 3


def test_an_intake_that_reads_no_gzip_gets_plain_text(agent, tmp_path, intake):
    """It is tried once, and remembered."""
    with intake(202) as server:
        handler = server.server.RequestHandlerClass
        plain, packed = handler.do_POST, []

        def do_POST(self):
            if self.headers.get("Content-Encoding") == "gzip":
                self.rfile.read(int(self.headers["Content-Length"]))
                packed.append(1)
                self.send_response(415)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            plain(self)

        handler.do_POST = do_POST
        run(agent, tmp_path, server.url, "10")
        assert len(server.arrived.evaluations) == 201
    assert len(packed) == 1


def test_an_agent_on_a_socket_file_is_reached(agent, tmp_path):
    """The agent's address may be unix:///..."""
    path = tmp_path / "apm.socket"
    seen = []
    done = threading.Event()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen(16)

    def answer(connection):
        with connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                length = 0
                while (header := stream.readline().strip()) != b"":
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                stream.read(length)
                seen.append(line)
                connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    def serve():
        while not done.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        run(agent, tmp_path, f"unix://{path}", "10")
    finally:
        done.set()
        server.close()
    assert any(b"eval-metric" in line for line in seen)
