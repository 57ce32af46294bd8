"""Annotates and finishes ddtrace's spans with our own times, on the delivery thread.

A span that ddtrace has none for, such as one of a judge's run or of another process, gets one here
with our ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from traceback import StackSummary
from typing import Any

from llmeval_sdk.model import Failure, SpanData
from llmeval_sdk.plugins.datadog.exporter._content import fields_of, prompt_of
from llmeval_sdk.plugins.datadog.exporter._library import Library
from llmeval_sdk.plugins.datadog.exporter._live import KEY, MODELS, OWN, Live, OpenSpan
from llmeval_sdk.process.shield import shield, swallow


FLUSH_SPANS = 400
FLUSH_BYTES = 2 << 20


class Spans:
    """Finishes spans, and sends them before a queue of ddtrace's overflows."""

    def __init__(self, library: Library, live: Live) -> None:
        self._library = library
        self._live = live
        self._count = 0
        self._bytes = 0

    def finish(self, spans: Sequence[SpanData]) -> Counter[str]:
        """Finish the spans of a batch; return how many could not be finished, by reason."""
        refused: Counter[str] = Counter()
        made = self._make([span for span in spans if not (span.context and KEY in span.context)])
        for span in spans:
            theirs = made.get(span.span_id) or (span.context or {}).get(KEY)
            if theirs is None or theirs.process is not self._live.process:
                refused["no_ddtrace_span"] += 1
            elif not theirs.finished:
                theirs.finished = True
                self._finish(span, theirs)
                if self._count >= FLUSH_SPANS or self._bytes >= FLUSH_BYTES:
                    self.send()
        return refused

    def send(self) -> None:
        """Let ddtrace send the finished spans."""
        self._count = self._bytes = 0
        self._library.send_spans()

    def _finish(self, span: SpanData, theirs: OpenSpan) -> None:
        opened = theirs.span
        fields = fields_of(span)
        self._annotate(opened, fields)
        try:
            if span.name != opened.name:
                self._annotate(opened, {"_name": span.name})
            prompt = prompt_of(span.prompt) if span.kind == "llm" else None
            if prompt:
                self._annotate(opened, {"prompt": prompt})
            if span.session_id:
                self._annotate(opened, {"tags": {"session_id": span.session_id}})
            for link in span.links:
                if link.trace_id and link.span_id:
                    ids = self._live.ids(link.trace_id, link.span_id)
                    self._annotate(opened, {"_linked_spans": [ids]})
            if span.error is not None:
                _fail(opened, span.error, theirs)
            opened.start_ns = span.start_ns
        finally:
            opened.finish(finish_time=span.end_ns / 1e9)
        self._count += 1
        self._bytes += 2_000 + _weight(fields)

    def _annotate(self, opened: Any, fields: dict[str, Any]) -> None:
        """Annotate a span; a field that ddtrace refuses is left out."""
        annotate = self._library.llmobs.annotate
        with shield("exporter datadog: annotate", calls_out=True):
            annotate(span=opened, **fields)
            return
        if len(fields) > 1:
            for name, value in fields.items():
                self._annotate(opened, {name: value})

    def _make(self, spans: Sequence[SpanData]) -> dict[str, OpenSpan]:
        """Open spans of ddtrace's for those that have none, parents first."""
        made: dict[str, OpenSpan] = {}
        library = self._library
        for span in sorted(spans, key=lambda span: span.start_ns):
            parent = made.get(span.parent_id or "")
            library.active.activate(parent.span if parent else None)
            library.apm.activate(parent.span if parent else None)
            options = {"name": span.name, "session_id": span.session_id}
            if span.kind in MODELS:
                options["model_name"], options["model_provider"] = (
                    span.model_name,
                    span.model_provider,
                )
            try:
                opened = getattr(library.llmobs, span.kind)(**options)
                opened._set_ctx_item(OWN, True)
                self._rename(opened, span, root=parent is None)
            except Exception as error:
                if not swallow("exporter datadog: span", error, calls_out=True):
                    raise
            else:
                made[span.span_id] = OpenSpan(opened, None, None, self._live.process)
            finally:
                library.active.activate(None)
                library.apm.activate(None)
        return made

    def _rename(self, opened: Any, span: SpanData, *, root: bool) -> None:
        """Give a new span our ids, so that its evaluations find it."""
        opened.span_id = int(span.span_id, 16)
        if root:
            self._library.rename(opened, span.trace_id, span.parent_id)


def _fail(opened: Any, failure: Failure, theirs: OpenSpan) -> None:
    """Write an error as ddtrace does, from the traceback that was kept of the exception."""
    kind = theirs.type or failure.type
    opened.error = 1
    opened.set_tag("error.type", kind)
    opened.set_tag("error.message", failure.message)
    if theirs.frames is not None:
        stack = StackSummary.from_list(list(theirs.frames))
        last = f"{kind.removeprefix('builtins.')}: {failure.message}\n"
        lines = ["Traceback (most recent call last):\n", *stack.format(), last]
        opened.set_tag("error.stack", "".join(lines))


def _weight(value: Any) -> int:
    """Estimate the bytes of an annotation."""
    if type(value) is str:
        return len(value)
    if type(value) is dict:
        return sum(map(_weight, value.values())) + 20 * len(value)
    if type(value) is list:
        return sum(map(_weight, value))
    return 8
