"""What leaves by the three values of ``LLMEVAL_CAPTURE_CONTENT``, read at the wire of each exporter."""

import gzip
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import llmeval_sdk as llmeval
from llmeval_sdk import Chunk, Extraction, Prompt, config
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters import memory
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM, capture


TEXTS = ("q-text", "a-text", "chunk-text", "value-text", "proof-text", "prompt-text", "error-text",
         "why-text", "meta-text", "verdict-text", "own-text")  # fmt: skip
NAMES = ("span-name", "tag-name", "session-name", "doc-name", "chunk-name", "metric-name",
         "label-name")  # fmt: skip
VERDICT = '{"rationale": "verdict-text", "rating": "yes"}'


@llmeval.heuristic
def own_score(record):
    """Score, and quote."""
    return llmeval.Evaluation(
        "own_score", 0.25, label="label-name", explanation=f"own-text {record.response}"
    )


def run():
    """Put every text and every name wherever the app can put one."""
    with (
        pytest.raises(ValueError),
        llmeval.workflow("span-name", tags={"k": "tag-name"}, session_id="session-name") as span,
    ):
        with llmeval.retrieval("span-name search") as step:
            step.retrieved_context = [
                Chunk("chunk-text", "doc-name", "chunk-name", 0.5, 1, "bm25", {"m": "meta-text"})
            ]
        with llmeval.llm(name="span-name ask", request="q-text", model_name="gpt-4o") as step:
            step.annotate(prompt=Prompt("p", "1", "prompt-text {q}", variables={"q": "q-text"}))
            step.response = "a-text"
        span.annotate(
            request="q-text", response="a-text", value="value-text",
            extractions=[Extraction("value-text", 1, "HIGH", "proof-text")],
            metadata={"note": "meta-text"}, metrics={"metric-name": 7.0},
        )  # fmt: skip
        llmeval.submit_evaluation(
            label="submitted", value=0.5, reasoning="why-text", assessment="label-name",
            metadata={"m": "meta-text"}, tags={"t": "tag-name"},
        )  # fmt: skip
        raise ValueError("error-text")


class _Wire(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.seen.append(self.path.encode() + b"\n" + body)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *about):
        pass


@pytest.fixture
def wire():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Wire)
    server.seen, server.daemon_threads = [], True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


class _Providers:
    """OpenTelemetry providers of an app, and what they exported."""

    def __init__(self):
        self.spans, self.logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.reader = InMemoryMetricReader()
        self.exporter = AppOtelExporter(
            config.Settings(),
            tracer_provider=tracers,
            logger_provider=loggers,
            meter_provider=MeterProvider([self.reader], shutdown_on_exit=False),
        )

    def written(self):
        logs = [log.to_json() for log in self.logs.get_finished_logs()]
        spans = [span.to_json() for span in self.spans.get_finished_spans()]
        return "\n".join([*spans, *logs, self.reader.get_metrics_data().to_json()]).encode()


def sent(exporter, value, wire, tmp_path, capsys):
    """Run with one exporter, and return all that it wrote or sent, as bytes."""
    url = f"http://127.0.0.1:{wire.server_port}"
    options = {
        "local": {"store": str(tmp_path / "s.db")},
        "otlp": {"otlp_endpoint": url},
        "phoenix": {"phoenix_endpoint": url},
        "mlflow": {"mlflow_uri": url, "mlflow_experiment_id": "1"},
    }.get(exporter, {})
    memory.clear()
    app = _Providers() if exporter == "global" else None
    llmeval.configure(
        exporters=[app.exporter if app else exporter], capture_content=value, llm=FakeLLM(VERDICT),
        evaluators=[own_score, "relevance_to_query"], **options,
    )  # fmt: skip
    run()
    runtime.flush(20)
    if exporter == "local":
        with closing(sqlite3.connect(tmp_path / "s.db")) as store:
            return "\n".join(store.iterdump()).encode()
    if app:
        return app.written()
    if exporter == "console":
        return capsys.readouterr().err.encode()
    if exporter == "memory":
        return repr((memory.spans(), memory.evaluations())).encode()
    return b"\n".join(wire.seen)


EXPORTERS = ("local", "otlp", "console", "memory", "phoenix", "mlflow", "global")
"""``global`` stands for ``otel="global"``: through the app's own OpenTelemetry providers."""


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.plugin("phoenix", "mlflow")
def test_without_content_names_leave_and_no_text_does(exporter, wire, tmp_path, capsys):
    """Names of spans, tags, sessions, documents and metrics, scores and their labels."""
    seen = sent(exporter, False, wire, tmp_path, capsys)
    assert b"span-name" in seen or exporter in ("phoenix", "mlflow")
    assert [text for text in TEXTS if text.encode() in seen] == []


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.plugin("phoenix", "mlflow")
def test_with_scores_only_nothing_leaves_that_the_app_named(exporter, wire, tmp_path, capsys):
    """Ids, kinds, times, usage, models, types of errors, and the names and values of scores do."""
    seen = sent(exporter, "scores", wire, tmp_path, capsys)
    assert [text for text in (*TEXTS, *NAMES) if text.encode() in seen] == []
    assert b"own_score" in seen
    if exporter in ("local", "memory", "otlp", "global"):
        assert b"gpt-4o" in seen
        assert b"ValueError" in seen


@pytest.mark.parametrize("exporter", ["local", "global"])
def test_all_that_was_put_there_leaves_by_default(exporter, wire, tmp_path, capsys):
    """Else the tests above would prove nothing."""
    seen = sent(exporter, True, wire, tmp_path, capsys)
    assert [text for text in (*TEXTS, *NAMES) if text.encode() not in seen] == []


def test_the_variable_takes_three_values(monkeypatch):
    """And the words of OpenTelemetry's variable."""
    for text, value in (("0", False), ("true", True), ("Scores", "scores"), ("NO_CONTENT", False)):
        read = config.from_environment({"LLMEVAL_CAPTURE_CONTENT": text})
        assert read.capture_content == value


def test_another_value_in_code_is_an_error():
    """A misspelt word must not send what was meant to stay."""
    with pytest.raises(ConfigurationError, match="did you mean 'scores'"):
        llmeval.configure(capture_content="score")


def test_what_a_judge_or_an_evaluator_writes_is_redacted_too():
    """An error may quote the key that was refused, and an explanation what it read elsewhere."""
    key = "sk-" + "abcdefghij0123456789xyz"

    @llmeval.heuristic
    def leaks(record):
        return llmeval.Evaluation("leaks", 1.0, explanation=key, metadata={"token": "hunter2"})

    @llmeval.heuristic
    def fails(record):
        raise ValueError(f"Incorrect API key provided: {key}")

    llm = FakeLLM(VERDICT.replace("verdict-text", f"it is {key}"))
    options = {"llm": llm, "evaluators": [leaks, fails, "relevance_to_query"]}
    with capture(raise_again=False, **options) as seen:
        with llmeval.workflow("w", request="q") as span:
            span.response = "a"
        seen.drain()
    shown = repr((seen.spans, seen.evaluations))
    assert key not in shown
    assert "hunter2" not in shown
    scores = seen.scores("w")
    assert scores["leaks"].explanation == "<redacted:api_key>"
    assert scores["fails"].error.message == "Incorrect API key provided: <redacted:api_key>"
    assert scores["relevance_to_query"].explanation == "it is <redacted:api_key>"
