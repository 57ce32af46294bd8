"""A stand-in for Langfuse's server, which checks every request and keeps scores by their ids.

It answers as the endpoints of Langfuse 4 and, with ``generation=3``, as those of Langfuse 3 do. What
is not valid is answered with 400 and fails the test. Run by a Python that has the package
``langfuse``, it also reads every score with the models that the package generates from Langfuse's
API definition; ``tests/backends`` does that.
"""

import base64
import gzip
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler

from http_thread import served_by
from otlp_collector import attributes_of


PUBLIC, SECRET = "pk-lf-1", "sk-lf-2"
TEXTS = ("id", "traceId", "sessionId", "observationId", "name", "comment", "environment")
FIELDS = {
    *TEXTS, "value", "metadata", "dataType", "timestamp", "datasetRunId", "queueId", "configId",
    "source",
}  # fmt: skip
"""All fields of a score; `timestamp` is new in Langfuse 4."""
TYPES = {"NUMERIC": (int, float), "BOOLEAN": (int, float), "CATEGORICAL": (str,)}
ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")


class Invalid(Exception):
    """A request that Langfuse would refuse."""


def check(score, generation=4):
    """Raise `Invalid` for what is no score."""
    if not isinstance(score, dict):
        raise Invalid("no object")
    unknown = set(score) - (FIELDS if generation == 4 else FIELDS - {"timestamp"})
    _require(not unknown, f"unknown fields {unknown}")
    for name in TEXTS:
        _require(
            name not in score or (isinstance(score[name], str) and score[name]), f"{name}: no text"
        )
    _require("name" in score and "value" in score, "name and value are needed")
    subjects = [name for name in ("traceId", "sessionId", "datasetRunId") if name in score]
    _require(len(subjects) == 1, f"a score is about one thing, not {subjects}")
    _require("observationId" not in score or "traceId" in score, "an observation needs its trace")
    kind, value = score.get("dataType", "NUMERIC"), score["value"]
    _require(kind in TYPES, f"no data type: {kind}")
    fits = isinstance(value, TYPES[kind]) and not isinstance(value, bool)
    _require(fits, f"{value!r} is not {kind}")
    _require(kind != "BOOLEAN" or value in (0, 1), f"{value!r} is neither 0 nor 1")
    _require(kind != "CATEGORICAL" or 0 < len(value) <= 500, "a category has 1 to 500 characters")
    _require(isinstance(score.get("metadata", {}), dict), "metadata is an object")
    _require(ENVIRONMENT.fullmatch(score.get("environment", "default")), "no environment")
    if "timestamp" in score:
        time = datetime.fromisoformat(score["timestamp"])
        _require(time.tzinfo is not None, "a time has its offset")


def _require(holds, words):
    if not holds:
        raise Invalid(words)


def _no_constant(text):
    raise Invalid(f"{text} is no JSON")


class LangfuseServer:
    """What arrived: ``scores`` by id and time, as Langfuse keeps them, and ``spans`` by name."""

    def __init__(self, generation=4, *, also=None):
        self.generation = generation
        self.also = also
        """A further check of each score, which raises."""
        self.problems = []
        self.requests = []
        self.scores = {}
        self.spans = {}
        self.headers = {}
        self.resource = {}
        self.answers = []
        """What the next requests are answered with: pairs of a status and a body, or ``None``."""
        self.url = ""

    def score(self, name):
        """Return the one score of a name."""
        (found,) = (score for score in self.scores.values() if score["name"] == name)
        return found

    def receive(self, path, headers, body):
        """Take one request; returns the status and the answer."""
        self.requests.append((path, len(body)))
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        expected = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
        if headers.get("authorization") != f"Basic {expected}":
            return 401, {"message": "Invalid credentials."}
        if self.answers and (answer := self.answers.pop(0)) is not None:
            return answer
        try:
            if path == "/api/public/otel/v1/traces":
                return self._take_spans(headers, body)
            if path == "/api/public/scores":
                _require(len(body) <= 1_000_000, "the body is too large")
                return self._take_scores(json.loads(body, parse_constant=_no_constant))
        except Exception as error:
            self.problems.append(f"{path}: {type(error).__name__}: {error}")
            return 400, {"message": str(error)}
        return 404, {"message": "Not Found"}

    def _take_spans(self, headers, body):
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        _require(headers.get("content-type") == "application/x-protobuf", "no protobuf")
        _require(headers.get("x-langfuse-ingestion-version") == "4", "no ingestion version")
        self.headers = headers
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = attributes_of(resource.resource)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.name] = {
                        "id": span.span_id.hex(), "trace": span.trace_id.hex(),
                        "status": span.status.code, **attributes_of(span),
                    }  # fmt: skip
        return 200, {}

    def _take_scores(self, body):
        if self.generation == 3:
            if isinstance(body, list):
                return 400, {"message": "Invalid request data"}
            self._keep(body)
            return 200, {"id": body["id"]}
        _require(isinstance(body, list), "Langfuse 4 takes lists")
        for score in body:
            self._keep(score)
        return 202, {"message": "Accepted"}

    def _keep(self, score):
        check(score, self.generation)
        if self.also is not None:
            self.also(score)
        self.scores[score["id"], score.get("timestamp")] = score


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {key.lower(): value for key, value in self.headers.items()}
            status, answer = server.receive(self.path, headers, body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    return Handler


@contextmanager
def langfuse_server(generation=4, **options):
    """Run one for the block, and fail if a request was not valid."""
    server = LangfuseServer(generation, **options)
    with served_by(_handler(server)) as server.url:
        yield server
    assert not server.problems


# -- a process of the Python that has the package langfuse ---------------------------------------------


@contextmanager
def langfuse_by_its_package(python):
    """Run the stand-in by such a Python; gives its address and what asks it for what it has."""
    process = subprocess.Popen(
        [python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def ask():
        print(file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    try:
        yield json.loads(process.stdout.readline()), ask
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


def _by_the_package(score):
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    parsed = parse_obj_as(CreateScoreRequest, score)
    _require(not parsed.model_extra, f"unknown to the package: {parsed.model_extra}")


def _fields_of_the_package():
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    return sorted(
        getattr(next(iter(getattr(annotation, "__metadata__", ())), None), "alias", None) or name
        for name, annotation in CreateScoreRequest.__annotations__.items()
        if name != "model_config"
    )


def _serve():
    with langfuse_server(also=_by_the_package) as server:
        print(json.dumps(server.url), flush=True)
        for _ in sys.stdin:
            about = {
                "problems": server.problems, "scores": list(server.scores.values()),
                "spans": list(server.spans), "fields": _fields_of_the_package(),
            }  # fmt: skip
            print(json.dumps(about), flush=True)


if __name__ == "__main__":
    _serve()
