"""Far ends of every exporter and of the judges' client, each with one fault, on real sockets."""

import socket
from contextlib import contextmanager

from otlp_collector import running_collector

from llmeval_sdk.testing.judge_server import JudgeServer


PORTAL = b"<!DOCTYPE html><html><body>Please sign in to this network.</body></html>"
FAULTS = {
    "healthy": {},
    "closed": {},
    "dns": {},
    "hang": {"hang": True},
    "drip": {"trickle": True},
    "500": {"always": (500, {}, b"broken")},
    "429": {"always": (429, {"retry-after": "30"}, b"slow down")},
    "portal": {"always": (200, {"content-type": "text/html"}, PORTAL)},
    "garbage": {"always": (200, {"content-type": "application/x-protobuf"}, b"\xff\xfe\xfd<>")},
    "redirect": {"always": (302, {"location": "/elsewhere"}, b"")},
    "413": {"max_body": 6_000},
}
"""What each sets on the collector."""
JUDGE_FAULTS = {
    "healthy": "good",
    "closed": "good",
    "dns": "good",
    "hang": "hang",
    "drip": "drip",
    "500": "error",
    "429": "rate_limited",
    "portal": "html",
    "garbage": "malformed",
    "redirect": "redirect",
}
"""What each is to the judge server."""
ADDRESS = {
    "otlp": "OTEL_EXPORTER_OTLP_ENDPOINT",
    "phoenix": "PHOENIX_COLLECTOR_ENDPOINT",
    "mlflow": "MLFLOW_TRACKING_URI",
    "langfuse": "LANGFUSE_BASE_URL",
    "judge": "LLMEVAL_JUDGE_BASE_URL",
}


@contextmanager
def far_end(of, fault):
    """Run one; gives the environment that leads an app there, and what counts what it took."""
    with _judge(fault) if of == "judge" else _collector(fault) as (url, took):
        if fault == "closed":
            url = f"http://127.0.0.1:{unused_port()}"
        if fault == "dns":
            url = "http://no-such-host.invalid:4318"
        if of == "judge":
            env = {
                "LLMEVAL_EXPORTERS": "memory", "LLMEVAL_JUDGE_MODEL": "m", "OPENAI_API_KEY": "k",
                "LLMEVAL_BUDGET_CALLS_PER_MINUTE": "100000",
            }  # fmt: skip
        else:
            keys = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-2"}
            env = {"LLMEVAL_EXPORTERS": of, **(keys if of == "langfuse" else {})}
        yield {**env, ADDRESS[of]: url}, took


def unused_port():
    """Return a port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def _collector(fault):
    with running_collector() as collector:
        collector.pages |= {
            "/v1/": {"data": []},
            "/api/2.0/mlflow/experiments": {"experiment": {"experiment_id": "7"}},
            "/api/3.0/mlflow/traces": {},
            "/api/public/scores": {"message": "Accepted"},
        }
        collector.decode = False
        for name, value in FAULTS[fault].items():
            if name == "hang":
                collector.hang.set()
            else:
                setattr(collector, name, value)
        yield collector.url, lambda: _accepted(collector)


def _accepted(collector):
    """Count spans and evaluations that were answered well."""
    assert not [path for path, _, _ in collector.requests if "elsewhere" in path]
    scores = 0
    for path, body in collector.posted:
        if path.startswith("/v1/span_annotations"):
            scores += len(body["data"])
        elif path.startswith("/api/public/scores"):
            scores += len(body)
        elif path.endswith("/assessments"):
            scores += "feedback" in body["assessment"]
    return collector.span_count + collector.log_count + scores


@contextmanager
def _judge(fault):
    with JudgeServer(default=JUDGE_FAULTS[fault], retry_after=30) as server:
        yield server.base_url, lambda: server.calls
