"""What exporters over HTTP share: a batch in several requests, and a client of score APIs.

A batch is sent in several requests, so that each record is counted exactly once. When a request
fails in a way that may pass, the exporter raises an error, and delivery calls it again with the
same batch. Records that were settled by then are not sent or counted a second time.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.http import NOT_A_BACKEND, HttpSender, ServerAnswer, Tls
from llmeval_sdk.exporters.otlp.attributes import dumps
from llmeval_sdk.exporters.otlp.wire import Envelope, rejected, resource
from llmeval_sdk.model import Batch, EvaluationEvent, SpanData
from llmeval_sdk.model.protocols import BaseExporter
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.shield import caught, swallow, tell
from llmeval_sdk.statistics.reasons import explain_loss


_T = TypeVar("_T")
MAX_BODY = 3 << 20
"""How many bytes a request may have before it is compressed; collectors commonly take up to 4 MB.
"""


class ExportStep(NamedTuple):
    """One request: its records and how to send them."""

    send: Callable[[list[Any]], ServerAnswer]
    records: list[Any]
    counted: bool = True
    """False for an addition to records that another step counts."""
    rejected: Callable[[bytes], tuple[int, str]] | None = None
    """Reads from a successful answer how many records the server did not take all the same, and
    why.

    Raises ValueError for an answer that no server of this kind would give.
    """
    patience: float = 0.0
    """For how many seconds the answer 404 means that something is not there yet."""


class Progress:
    """What has become of one batch so far."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.begun = monotonic()
        self.steps: list[ExportStep] = []
        self.later: list[ExportStep] = []
        self.delivered = 0
        self.refused: Counter[str] = Counter()

    def settle(self, step: ExportStep, reason: str | None = None) -> None:
        """Count the records of a step as delivered, or as refused for a reason.

        Additions are in no account of records; those that are refused are counted as problems.
        """
        if not step.counted:
            if reason is not None:
                caught.add(f"additions to records: {reason}", len(step.records))
        elif reason is None:
            self.delivered += len(step.records)
        else:
            self.refused[reason] += len(step.records)

    def stopped(self, error: ExportError) -> ExportError:
        """Return a failure with the counts of what was settled before it."""
        error.delivered, error.refused = self.delivered, dict(self.refused)
        return error


class StepwiseExporter(BaseExporter):
    """An exporter that plans each batch as steps. Subclasses write `plan`."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Add the steps of a batch to ``progress``; may raise `ExportError`."""
        raise NotImplementedError

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """Send a batch; when called again with the same one, only what is not settled yet."""
        progress = self._progress
        if progress is None or progress.batch is not batch:
            progress = Progress(batch)
            self.plan(batch, progress)
            self._progress = progress
        while progress.steps:
            self._do(progress.steps[0], progress)
        if progress.later:
            progress.steps, progress.later = progress.later, []
            waiting = ExportError("not_there_yet", retryable=True, retry_after=0.5)
            raise progress.stopped(waiting)
        self._progress = None
        return progress.refused

    def explain(self, answer: ServerAnswer) -> str:
        """Return the log line for a refusal; a subclass may add what a person can do."""
        failure = answer.failure()
        said = str(failure)[:200]
        if said in ("", failure.reason):
            return f"{failure.reason}. {explain_loss(failure.reason).advice}"
        return f"{failure.reason}: {said}"

    def after_fork(self) -> None:
        """Forget in a child what the parent was sending."""
        self._progress = None

    def _do(self, step: ExportStep, progress: Progress) -> None:
        """Send one request and settle its records; raise if another attempt may succeed."""
        try:
            answer = step.send(step.records)
        except ExportError as error:
            raise progress.stopped(error) from error.__cause__
        if answer.ok:
            self._taken(step, answer, progress)
        elif answer.status == 413 and len(step.records) > 1:
            half = len(step.records) // 2
            first, rest = step.records[:half], step.records[half:]
            progress.steps[0:1] = [step._replace(records=first), step._replace(records=rest)]
            return
        elif answer.status == 404 and monotonic() - progress.begun < step.patience:
            progress.later.append(step)
        else:
            failure = answer.failure()
            if failure.retryable:
                raise progress.stopped(failure)
            tell(f"exporter {self.name}", self.explain(answer)[:300])
            progress.settle(step, failure.reason)
        del progress.steps[0]

    def _taken(self, step: ExportStep, answer: ServerAnswer, progress: Progress) -> None:
        try:
            lost, why = step.rejected(answer.body) if step.rejected else (0, "")
        except ValueError as error:
            tell(f"exporter {self.name}", f"{NOT_A_BACKEND}: {error}; check the address")
            progress.settle(step, NOT_A_BACKEND)
            return
        lost = min(lost, len(step.records))
        if lost:
            tell(f"exporter {self.name}", f"the server rejected {lost} records: {why[:200]}")
            progress.settle(step._replace(records=step.records[:lost]), "rejected")
        progress.settle(step._replace(records=step.records[lost:]))


class Endpoint:
    """Where one signal is sent over HTTP: the server and its path, with headers and compression."""

    def __init__(
        self, sender: HttpSender, path: str, headers: Mapping[str, str], *, zipped: bool
    ) -> None:
        self.sender = sender
        self._path = path
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._zipped = zipped

    def send(self, body: bytes) -> ServerAnswer:
        """Send one request; raises `ExportError` where there is no answer."""
        post = self.sender.post_zipped if self._zipped else self.sender.post
        return post(self._path, body, self._headers)


class Client:
    """One vendor's server: OTLP for spans and JSON for the rest, over one connection."""

    def __init__(self, settings: Settings, address: str, headers: Mapping[str, str]) -> None:
        tls = Tls(
            settings.otlp_certificate, settings.otlp_client_certificate, settings.otlp_client_key
        )
        self._sender = HttpSender(address, timeout=settings.otlp_timeout, tls=tls)
        self._headers = {"content-type": "application/json", **headers}
        compression = settings.otlp_traces_compression or settings.otlp_compression
        self._zipped = compression != "none"

    def traces(self, path: str = "/v1/traces", **more: str) -> Endpoint:
        """Return the endpoint for spans, with further headers."""
        headers = {key: value for key, value in self._headers.items() if key != "content-type"}
        path = self._sender.path + path
        return Endpoint(self._sender, path, {**headers, **more}, zipped=self._zipped)

    def call(self, method: str, path: str, body: object = None) -> ServerAnswer:
        """Send plain values as JSON; raises `ExportError` where there is no answer."""
        data = None if body is None else dumps(body).encode("utf-8", "replace")
        return self._sender.request(method, self._sender.path + path, data, self._headers)

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def forget(self) -> None:
        """Leave the connection to the parent, after a fork."""
        self._sender.forget()


class OtlpWriter:
    """Makes requests of records, each with the description of the app."""

    def __init__(self, settings: Settings, **more: str) -> None:
        self._settings = settings
        self._more = more
        self._envelope: Envelope | None = None

    def steps(
        self,
        endpoint: Endpoint | None,
        records: Sequence[_T],
        write: Callable[[_T], bytes],
        progress: Progress,
    ) -> None:
        """Add the requests for some records; without an endpoint there are none."""
        if endpoint is None:
            progress.delivered += len(records)
            return
        if self._envelope is None:  # made late, so that it has the id of a forked child
            self._envelope = Envelope(resource(self._settings, **self._more), release())
        wrap, send = self._envelope.wrap, endpoint.send
        for part in _parts(_written(records, write, progress)):
            progress.steps.append(
                ExportStep(lambda records: send(wrap(records)), part, True, rejected)
            )

    def after_fork(self) -> None:
        """Make the description of the app anew, for a forked child."""
        self._envelope = None


def _written(
    records: Sequence[_T], write: Callable[[_T], bytes], progress: Progress
) -> list[bytes]:
    """Write the records; one that cannot be written is left out."""
    written = []
    for record in records:
        try:
            written.append(write(record))
        except Exception as error:
            if not swallow("exporter otlp: writing", error):
                raise
            progress.refused["unwritable"] += 1
    return written


def _parts(records: list[bytes]) -> list[list[bytes]]:
    """Divide records into requests that are no larger than servers take."""
    parts: list[list[bytes]] = []
    size = MAX_BODY
    for record in records:
        if size + len(record) > MAX_BODY:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += len(record) + 8
    return parts


class ScoreApiExporter(StepwiseExporter):
    """Sends spans and scores over one client; a batch was answered when `export` returns."""

    _client: Client
    _writer: OtlpWriter

    def close(self, timeout: float, /) -> None:
        """Close the connection."""
        self._client.close()

    def after_fork(self) -> None:
        """Leave the parent's connections alone, and open others when they are needed."""
        super().after_fork()
        self._writer.after_fork()
        self._client.forget()


def basic(user: str, password: str) -> dict[str, str]:
    """Return the header that says who asks, by user and password."""
    return {"authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


def none_rejected(response: bytes) -> tuple[int, str]:
    """Check the body of a successful answer; raises ValueError if it is not JSON.

    For APIs that take all records of a request or none of them.
    """
    if response:
        json.loads(response)
    return 0, ""


def is_repeatable(event: EvaluationEvent) -> bool:
    """Say whether a second evaluation of this name on this span is the same one again."""
    return event.id == f"{event.target.span_id}-{event.evaluation.name}"


class _Retrieval(NamedTuple):
    parent: str | None
    documents: int | None
    start_ns: int


class Retrievals:
    """Remembers the retrievals of recent traces, to find the one whose documents a judge rated."""

    MAX_TRACES = 2_000
    MAX_SPANS = 1_000

    def __init__(self) -> None:
        self._traces: OrderedDict[str, dict[str, _Retrieval]] = OrderedDict()

    def note(self, span: SpanData) -> None:
        """Remember a finished span."""
        trace = self._traces.setdefault(span.trace_id, {})
        self._traces.move_to_end(span.trace_id)
        if len(trace) < self.MAX_SPANS:
            chunks = span.retrieved_context if span.kind == "retrieval" else None
            documents = None if chunks is None else len(chunks)
            trace[span.span_id] = _Retrieval(span.parent_id, documents, span.start_ns)
        while len(self._traces) > self.MAX_TRACES:
            self._traces.popitem(last=False)

    def find(self, trace_id: str | None, below: str | None, documents: int) -> str | None:
        """Return the latest retrieval below a span with this many documents, else the span."""
        trace = self._traces.get(trace_id or "", {})
        candidates = [
            (place.start_ns, span_id)
            for span_id, place in trace.items()
            if place.documents == documents and self._is_below(trace, span_id, below)
        ]
        return max(candidates)[1] if candidates else None

    @staticmethod
    def _is_below(trace: dict[str, _Retrieval], span_id: str, top: str | None) -> bool:
        here: str | None = span_id
        for _ in range(len(trace) + 1):
            if here == top:
                return True
            place = trace.get(here or "")
            if place is None:
                return False
            here = place.parent
        return False
