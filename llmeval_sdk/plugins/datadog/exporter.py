"""Datadog LLM Observability: spans are real spans of ddtrace, and evaluations are sent by this SDK.

While a span of ours is active, it keeps a ddtrace span of the same kind open, so that whatever
ddtrace instruments is nested below it. The delivery thread annotates and finishes that span.
Evaluations bypass ddtrace's queue, which holds 1,000 of them and drops the rest: they are sent to
Datadog's endpoint in bounded requests, and each answer is read.
"""

from __future__ import annotations

import json
import math
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit
from zlib import crc32

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.batches import ExportStep, Progress, StepwiseExporter
from llmeval_sdk.exporters.http import HttpSender, ServerAnswer, _TimedSocket
from llmeval_sdk.exporters.otlp.attributes import count_refused, part_events
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target, values
from llmeval_sdk.model.protocols import Services
from llmeval_sdk.plugins.datadog.library import Library, load
from llmeval_sdk.plugins.datadog.spans import Live, Spans, finite
from llmeval_sdk.process.shield import shield, swallow, tell


MAX_BODY = 3 << 20
MAX_METRICS = 500
REQUEST_SECONDS = 5.0
COMPRESS_FROM = 4_096


class ScoreIntake:
    """Posts metrics to where ddtrace would post them in its present mode."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._where: tuple[str, str, dict[str, str]] | None = None
        self._sender: HttpSender | None = None

    def post(self, metrics: list[bytes]) -> ServerAnswer:
        """Send one request; raises `ExportError` where there is no answer."""
        where = self._library.destination
        if self._sender is None or where != self._where:  # the app may have enabled ddtrace again
            self.close()
            self._where = where
            self._sender = _sender(where[0], REQUEST_SECONDS)
        sender, (_, path, headers) = self._sender, where
        headers.setdefault("Content-Type", "application/json")
        body = body_of(metrics)
        post = sender.post_zipped if len(body) >= COMPRESS_FROM else sender.post
        return post(sender.path + path, body, headers)

    def close(self) -> None:
        """Close the connection."""
        if self._sender is not None:
            self._sender.close()

    def after_fork(self) -> None:
        """Leave the connection to the parent."""
        if self._sender is not None:
            self._sender.forget()
        self._sender = None


def explain(answer: ServerAnswer) -> str:
    """Return the log line for a refusal, with what a person can do about it."""
    if answer.status in (401, 403):
        return f"http_{answer.status}: Datadog refuses the API key; check DD_API_KEY and DD_SITE"
    failure = answer.failure()
    return f"{failure.reason}: {failure}"


def parts(metrics: list[bytes]) -> list[list[bytes]]:
    """Split metrics into requests that the endpoint takes."""
    requests: list[list[bytes]] = []
    size = MAX_BODY
    for written in metrics:
        if size + len(written) > MAX_BODY or len(requests[-1]) >= MAX_METRICS:
            requests.append([])
            size = 0
        requests[-1].append(written)
        size += len(written) + 1
    return requests


def _sender(address: str, timeout: float) -> HttpSender:
    if address.startswith("unix:"):
        return _UnixSender(address, timeout=timeout)
    return HttpSender(address, timeout=timeout)


class _UnixSender(HttpSender):
    """A connection to an agent by its socket file."""

    def __init__(self, address: str, *, timeout: float) -> None:
        super().__init__("http://localhost", timeout=timeout)
        self._file = unquote(urlsplit(address).path)

    def _connect(self, deadline: float) -> HTTPConnection:
        if self._connection is None:
            if not hasattr(socket, "AF_UNIX"):
                raise ExportError("unreachable", "this system has no sockets that are files")
            file = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            file.settimeout(max(0.01, deadline - monotonic()))
            try:
                file.connect(self._file)
            except OSError as error:
                file.close()
                raise ExportError("unreachable", type(error).__name__, retryable=True) from error
            connection = HTTPConnection("localhost")
            connection.sock = _TimedSocket(file)
            self._connection = connection
        return self._connection


_at_signal: set[Callable[[], None]] = set()
"""The functions that ddtrace calls on SIGTERM already."""


class DatadogExporter(StepwiseExporter):
    """A span counts as delivered once ddtrace has it; an evaluation, once Datadog has answered."""

    name = "datadog"

    def __init__(self, library: Library, settings: Settings) -> None:
        super().__init__()
        self.library = library
        self._open_spans = Live(
            library,
            content=settings.capture_content is True,
            names=settings.capture_content in (True, False),
        )
        self.live = self.bridge = self._open_spans
        self._spans = Spans(library, self._open_spans)
        self._intake = ScoreIntake(library)
        self._labels = Labels()
        self._fields = settings.export_fields
        self._flushing: threading.Thread | None = None

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Finish the spans at once, and plan the requests for the evaluations."""
        progress.refused += self._spans.finish(batch.spans)
        progress.delivered = len(batch.spans) - progress.refused.total()
        metrics = self._metrics(batch.evaluations, progress.refused)
        refused: Counter[str] = Counter()
        added = self._metrics(part_events(batch.evaluations, fields=self._fields), refused)
        count_refused(refused)
        progress.steps = [ExportStep(self._intake.post, part) for part in parts(metrics)]
        progress.steps += [ExportStep(self._intake.post, part, False) for part in parts(added)]

    def flush(self, timeout: float, /) -> None:
        """Have ddtrace send its spans; it may hang for longer than we may wait."""
        if self._flushing is not None and self._flushing.is_alive():
            self._flushing.join(timeout)
            return

        def send() -> None:
            with shield("exporter datadog: flush", calls_out=True):
                self._spans.send()

        self._flushing = threading.Thread(target=send, name="llmeval-datadog-flush", daemon=True)
        try:
            self._flushing.start()
        except RuntimeError:  # no thread can be started any more while the interpreter exits
            self._flushing = None
            send()
            return
        self._flushing.join(timeout)

    def close(self, timeout: float, /) -> None:
        """Flush. ddtrace itself stays enabled, because the app may use it too."""
        self.flush(timeout)
        self._intake.close()

    def after_fork(self) -> None:
        """Begin anew in a child: what waits is the parent's."""
        super().after_fork()
        self._flushing = None
        self._open_spans.process = object()
        self._intake.after_fork()

    def explain(self, answer: ServerAnswer) -> str:
        """Return the log line for a refusal, with what a person can do about it."""
        return explain(answer)

    def connect(self, services: Services) -> None:
        """Take over the app's redaction, and take part when ddtrace handles SIGTERM."""
        self._open_spans.use_redaction(services.redaction)
        if services.end not in _at_signal:  # ddtrace handles SIGTERM, and must not be told twice
            _at_signal.add(services.end)
            with shield("exporter datadog: signals", calls_out=True):
                self.library.at_exit_signal(services.end)

    # -- inside ---------------------------------------------------------------------------------

    def _metrics(self, events: Sequence[EvaluationEvent], refused: Counter[str]) -> list[bytes]:
        metrics = []
        for event in events:
            try:
                metrics.append(self._written(event))
            except UnsendableError as reason:
                refused[str(reason)] += 1
            except Exception as error:
                if not swallow("exporter datadog: writing", error):
                    raise
                refused["unwritable"] += 1
        return metrics

    def _written(self, event: EvaluationEvent) -> bytes:
        return encode(
            metric(
                event,
                label=self._labels.of(event.evaluation.name),
                join_on=self._ids(event.target),
                app=self.library.app,
                version=self.library.version,
            )
        )

    def _ids(self, target: Target) -> dict[str, str | None]:
        try:
            ids = self._open_spans.ids(target.trace_id or "0", target.span_id or "0")
        except ValueError:  # ids that are not Datadog's
            return {"span_id": target.span_id, "trace_id": target.trace_id}
        return {
            "span_id": ids["span_id"] if target.span_id else None,
            "trace_id": ids["trace_id"] if target.trace_id else None,
        }


# Evaluations as Datadog's metrics; a label has letters, digits and underscores only.


MAX_LABEL = 200
_GOOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")
_OTHER = re.compile(r"[^A-Za-z0-9_]")


def label_of(name: str) -> str:
    """Return the label for a name. It is the same one in every process.

    ``ragas:context_precision`` becomes ``ragas__context_precision``, because
    ``ragas_context_precision`` is another metric.
    """
    if _GOOD.fullmatch(name):
        return name
    label = _OTHER.sub("_", name.replace(":", "__"))
    if not label.strip("_"):  # nothing is left of the name, and two such names must stay apart
        label = f"evaluation_{crc32(name.encode('utf-8', 'replace')):08x}"
    elif not label[0].isalpha():
        label = f"e{label}" if label[0] == "_" else f"e_{label}"
    if len(label) > MAX_LABEL:
        end = f"_{crc32(name.encode('utf-8', 'replace')):08x}"
        label = label[: MAX_LABEL - len(end)] + end
    return label


class Labels:
    """The labels of one process; logs once if two names share one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the label for a name."""
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = label_of(name)
            other = self._names.setdefault(label, name)
            if other != name:
                tell(
                    f"exporter datadog: label {label[:60]}",
                    f"{other[:60]!r} and {name[:60]!r} are one evaluation in Datadog: rename one",
                )
        return label


ASSESSMENTS = ("pass", "fail")
JOIN_KEY = "join_on"
"""Key in an Evaluation's metadata of what to join on instead of a span."""


class UnsendableError(ValueError):
    """An evaluation that Datadog has no place for; the message is the reason that is counted."""


def metric(
    event: EvaluationEvent, *, label: str, join_on: Mapping[str, str | None], app: str, version: str
) -> dict[str, object]:
    """Return the metric of an evaluation, joined to its span by the ids that Datadog knows.

    The same event always gives the same metric, so that sending it twice changes nothing. A failed
    evaluator has a label of its own, ``<label>_error``, with the type of the failure as its
    category, and so has what has no value, ``<label>_no_value``: Datadog keeps one type of values
    for each label. Raises `UnsendableError`.
    """
    evaluation = event.evaluation
    metadata = dict(evaluation.metadata)
    tags = metadata.pop("tags", None)
    app = str(metadata.pop("ml_app", None) or app)
    kind, value = _value(evaluation)
    suffix = _suffix(evaluation)
    fields: dict[str, Any] = {
        "label": label[: MAX_LABEL - len(suffix)] + suffix,
        "metric_type": kind,
        f"{kind}_value": value,
        "ml_app": app,
        "timestamp_ms": event.timestamp_ns // 1_000_000,
        "tags": _tags(evaluation, tags, app, version),
        **_target(evaluation, metadata, join_on),
    }
    assessment = _assessment(evaluation)
    if assessment:
        fields["assessment"] = assessment
    reasoning = evaluation.error.message if evaluation.error else evaluation.explanation
    if reasoning:
        fields["reasoning"] = reasoning
    fields["metadata"] = _metadata(evaluation, metadata)
    return fields


def _suffix(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return "_error"
    return "" if evaluation.value is not None else "_no_value"


def _value(evaluation: Evaluation) -> tuple[str, object]:
    value = evaluation.value
    if evaluation.error is not None:
        return "categorical", evaluation.error.type
    if value is None:
        return "categorical", evaluation.label or "not_applicable"
    if type(value) is bool:
        return "boolean", value
    if type(value) is str:
        return "categorical", value
    number = float(value)
    if not math.isfinite(number):
        raise UnsendableError("not_finite")
    return "score", number


def _target(
    evaluation: Evaluation, metadata: dict[str, Any], ids: Mapping[str, str | None]
) -> dict[str, object]:
    """Add what the evaluation is about; people's feedback has the ids at its top level."""
    span_id = ids.get("span_id")
    other = metadata.pop(JOIN_KEY, None)
    scope = "session" if metadata.get("scope") == "session" else "span"
    scope = str(metadata.pop("eval_scope", None) or scope)
    if evaluation.evaluator_kind == "human" and type(metadata.get("submitter")) is dict:
        submitter = {str(key): str(item) for key, item in metadata.pop("submitter").items()}
        about = other if type(other) is dict else {"span_id": span_id} if span_id else None
        if about is None:
            raise UnsendableError("no_span")
        return {"event_kind": "feedback", "submitter": submitter, **about}
    if type(other) is dict and "tag" in other:
        return {"event_kind": "evaluation", "join_on": other, "eval_scope": scope}
    if not span_id or not ids.get("trace_id"):
        raise UnsendableError("no_span")
    return {"event_kind": "evaluation", "join_on": {"span": dict(ids)}, "eval_scope": scope}


def _tags(evaluation: Evaluation, own: object, app: str, version: str) -> list[str]:
    tags = {
        "ddtrace.version": version,
        "ml_app": app,
        "evaluator": evaluation.name,
        "evaluator_kind": evaluation.evaluator_kind,
        "evaluator_version": evaluation.evaluator_version,
    }
    if type(own) is dict:
        tags.update({str(key): str(value) for key, value in own.items()})
    return [f"{key}:{value}" for key, value in tags.items()]


def _assessment(evaluation: Evaluation) -> str | None:
    if evaluation.error is not None:
        return None
    if type(evaluation.value) is bool and evaluation.label is None:
        return values.word(evaluation.value)
    for word in (evaluation.label, evaluation.value):
        if type(word) is str and word.lower() in ASSESSMENTS:
            return word.lower()
    return None


def _metadata(evaluation: Evaluation, metadata: dict[str, object]) -> dict[str, Any]:
    sent: dict[str, Any] = finite(metadata)
    for key, value in (
        ("label", evaluation.label),
        ("inclusion_probability", evaluation.inclusion_probability),
        ("probability", evaluation.probability),
        ("duration_seconds", evaluation.duration),
    ):
        if value is not None:
            sent.setdefault(key, finite(value))
    usage = evaluation.usage
    if usage is not None:
        sent.setdefault("total_tokens", usage.total_tokens)
        if usage.cost_usd is not None:
            sent.setdefault("cost_usd", finite(usage.cost_usd))
    return sent


def encode(fields: Mapping[str, object]) -> bytes:
    """Write a metric as JSON; NaN raises instead of spoiling the whole request."""
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "replace")


def body_of(metrics: list[bytes]) -> bytes:
    """Wrap metrics as one request."""
    start = b'{"data":{"type":"evaluation_metric","attributes":{"metrics":['
    return b"".join((start, b",".join(metrics), b"]}}}"))


def make(settings: Settings) -> DatadogExporter:
    """Make the exporter ``datadog``; raises `ConfigurationError` if ddtrace cannot be used."""
    return DatadogExporter(load(settings), settings)
