"""Starts Phoenix, MLflow and Datadog's test agent on loopback, for tests and demos."""

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep


def free_port():
    """Return a port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url, body=None, headers=None):
    """Ask a server for JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"content-type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def eventually(look, seconds=30.0):
    """Return the first true result of ``look``, which may answer 404 before."""
    end = monotonic() + seconds
    while True:
        try:
            found = look()
        except urllib.error.HTTPError as error:  # 404: it is not there yet
            found = None
            if error.code != 404:
                raise
        if found:
            return found
        assert monotonic() < end, "not in time"
        sleep(0.2)


@contextmanager
def server(backends, backend, command, ready, folder, environment):
    """Run a backend's server for the block; it is ready when an address answers."""
    binary = Path(backends, backend, "bin", command[0]).absolute()
    path = f"{binary.parent}{os.pathsep}{os.environ['PATH']}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [binary, *command[1:]], cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "PATH": path, **environment}, start_new_session=True,
        )  # fmt: skip
        try:
            eventually(
                lambda: process.poll() is not None or _answers(ready), 240
            )  # it compiles what it imports
            assert process.poll() is None, (folder / "log").read_text()[-2_000:]
            yield
        finally:
            os.killpg(process.pid, 15)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait(10)


def _answers(url):
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def phoenix(backends, folder, port=0):
    """Run Phoenix for the block; gives its address."""
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    about = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    with server(backends, "phoenix", ["phoenix", "serve"], f"{url}/v1/projects", folder, about):
        yield url


@contextmanager
def mlflow(backends, folder, port=0):
    """Run an MLflow server for the block; gives its address."""
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    about = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    command = [
        "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", "sqlite:///mlflow.db", "--artifacts-destination", "./artifacts",
    ]  # fmt: skip
    with server(backends, "mlflow", command, f"{url}/health", folder, about):
        yield url


@contextmanager
def otlp_agent(backends, folder, port=0):
    """Run ddapm-test-agent; gives the address of its OTLP port."""
    otlp, grpc = free_port(), free_port()
    port = port or free_port()
    command = [
        "ddapm-test-agent", "--host", "127.0.0.1", "--port", str(port),
        "--otlp-http-port", str(otlp), "--otlp-grpc-port", str(grpc),
    ]  # fmt: skip
    url = f"http://127.0.0.1:{otlp}"
    with server(backends, "ddapm", command, f"{url}/test/session/traces", folder, {}):
        yield url
