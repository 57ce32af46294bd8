"""Real apps in processes of their own, against Datadog's own test agent on the loopback interface."""

import base64
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest


HERE = Path(__file__).parent
AGENT = os.environ.get("DDAPM_TEST_AGENT") or str(
    Path(sys.prefix + "-agent") / "bin" / "ddapm-test-agent"
)
QUIET = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_CRASHTRACKING_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
}
DEAD = "http://127.0.0.1:9"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Arrived:
    """What reached the agent, and what the app said."""

    spans: list = field(default_factory=list)
    evaluations: list = field(default_factory=list)
    output: str = ""
    errors: str = ""
    code: int = 0
    seconds: float = 0.0

    def span(self, name):
        (found,) = [span for span in self.spans if span["name"] == name]
        return found

    def evaluation(self, label, *, on=None):
        found = [
            each
            for each in self.evaluations
            if each["label"] == label
            and (
                on is None
                or each.get("join_on", {}).get("span", {}).get("span_id") == on["span_id"]
            )
        ]
        assert len(found) == 1, (label, [each["label"] for each in self.evaluations])
        return found[0]

    def children(self, parent):
        mine = [span for span in self.spans if span["parent_id"] == parent["span_id"]]
        return sorted(mine, key=lambda span: span["start_ns"])

    def tree(self, span):
        """Return a span as its name, or a tuple of its name and its children's trees."""
        below = [self.tree(child) for child in self.children(span)]
        return (span["name"], *below) if below else span["name"]

    def roots(self, name):
        return [s for s in self.spans if s["parent_id"] == "undefined" and s["name"] == name]


def read(requests):
    """Sort the bodies of requests into spans and evaluations."""
    found = Arrived()
    for path, body in requests:
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        if path.endswith("api/v2/llmobs"):
            found.spans += [span for envelope in json.loads(body) for span in envelope["spans"]]
        elif path.endswith("eval-metric"):
            text = body.decode()
            assert "NaN" not in text
            assert "Infinity" not in text
            found.evaluations += json.loads(body)["data"]["attributes"]["metrics"]
    return found


class Lab:
    """Runs an app in a mode and returns what arrived."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return reply.read()

    def received(self, token):
        requests = json.loads(self.get(f"/test/session/requests?test_session_token={token}"))
        return read((r["url"].split("?")[0], base64.b64decode(r["body"])) for r in requests)

    def environment(self, mode, token, folder):
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("DD_", "LLMEVAL_", "OTEL_", "OPENAI_"))
        }
        env |= QUIET | {
            "DD_LLMOBS_ENABLED": "1",
            "DD_LLMOBS_ML_APP": "roofs",
            "DD_TRACE_AGENT_URL": self.url,
            "LLMEVAL_STORE": str(folder / "store.db"),
            "_DD_TRACE_WRITER_ADDITIONAL_HEADERS": f"X-Datadog-Test-Session-Token:{token}",
        }
        if mode in ("no-apm", "agentless"):
            env["DD_APM_TRACING_ENABLED"] = "false"
        if mode == "agentless":
            env |= {
                "DD_LLMOBS_AGENTLESS_ENABLED": "1",
                "DD_API_KEY": "not-a-key",
                "DD_LLMOBS_OVERRIDE_ORIGIN": f"{self.url}/evp_proxy/v2",
                "DD_TRACE_AGENT_URL": DEAD,
            }
        return env

    def run(
        self, app, *arguments, mode="agent", folder, command=(), timeout=150, settle=0.0, **env
    ):
        """Run an app to its end; ``settle`` is how long what it left on its way may still take."""
        token = uuid4().hex
        self.get(f"/test/session/start?test_session_token={token}")
        environment = self.environment(mode, token, folder) | env
        environment = {key: value for key, value in environment.items() if value is not None}
        begun = time.monotonic()
        done = subprocess.run(
            [*command, sys.executable, str(HERE / "apps" / app), *arguments],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        found = self.received(token)
        found.output, found.errors = done.stdout, done.stderr
        found.code, found.seconds = done.returncode, seconds
        return found


@pytest.fixture(scope="session")
def agent(tmp_path_factory):
    """The test agent, forwarding nothing."""
    folder = tmp_path_factory.mktemp("agent")
    port = free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith("DD_")}
    command = [
        AGENT, "--host", "127.0.0.1", "--port", str(port), "--otlp-http-port", str(free_port()),
        "--otlp-grpc-port", str(free_port()), "--web-ui-port", str(free_port()),
        "--max-requests", "5000", "--disable-llmobs-data-forwarding", "--snapshot-dir", str(folder),
        "--vcr-cassettes-directory", str(folder), "--log-level", "WARNING",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    lab = Lab(port)
    deadline = time.monotonic() + 60
    while True:
        try:
            lab.get("/info")
            break
        except OSError:
            assert process.poll() is None, (folder / "log").read_text()[-2_000:]
            assert time.monotonic() < deadline
            threading.Event().wait(0.1)
    yield lab
    process.terminate()
    process.wait(10)


class Intake:
    """An intake of our own that answers as it is told."""

    def __init__(self, status=202, *, hang=False, headers=None):
        self.requests, self.release = [], threading.Event()
        intake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                intake.requests.append((self.path.split("?")[0], body, dict(self.headers)))
                if hang:
                    intake.release.wait(60)
                    return
                answer = status(len(intake.requests)) if callable(status) else status
                self.send_response(answer)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def arrived(self):
        return read((path, body) for path, body, _ in self.requests)


@pytest.fixture
def intake():
    return Intake
