"""What exporters to score APIs share: the client, and which retrieval a score is about."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from llmeval_sdk.config import Settings
from llmeval_sdk.exporters.http import HttpSender, ServerAnswer, Tls
from llmeval_sdk.exporters.otlp import content
from llmeval_sdk.exporters.otlp.exporter import Endpoint, OtlpWriter
from llmeval_sdk.exporters.stepwise import StepwiseExporter
from llmeval_sdk.model import EvaluationEvent, SpanData


class Client:
    """One vendor's server: OTLP for spans and JSON for the rest, over one connection."""

    def __init__(self, settings: Settings, address: str, headers: Mapping[str, str]) -> None:
        tls = Tls(
            settings.otlp_certificate, settings.otlp_client_certificate, settings.otlp_client_key
        )
        self._sender = HttpSender(address, timeout=settings.otlp_timeout, tls=tls)
        self._headers = {"content-type": "application/json", **headers}
        self._zipped = settings.otlp_compression == "gzip"

    def traces(self, path: str = "/v1/traces", **more: str) -> Endpoint:
        """Return the endpoint for spans, with further headers."""
        headers = {key: value for key, value in self._headers.items() if key != "content-type"}
        path = self._sender.path + path
        return Endpoint(self._sender, path, {**headers, **more}, zipped=self._zipped)

    def call(self, method: str, path: str, body: Any = None) -> ServerAnswer:
        """Send plain values as JSON; raises `ExportError` where there is no answer."""
        data = None if body is None else content.dumps(body).encode("utf-8", "replace")
        return self._sender.request(method, self._sender.path + path, data, self._headers)

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def forget(self) -> None:
        """Leave the connection to the parent, after a fork."""
        self._sender.forget()


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
