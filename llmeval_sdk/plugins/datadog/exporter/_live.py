"""Keeps a span of ddtrace open on the app's thread while ours is; the delivery thread finishes it.

Meanwhile our ids are those of Datadog: a span takes the span id of ddtrace's span, and a root takes
the trace id of LLM Observability. An evaluation finds its span by these ids, from any process and
at any time.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from traceback import walk_tb
from typing import Any

from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model.protocols import ContextBridge, LiveSpans, Redaction
from llmeval_sdk.plugins.datadog.exporter._content import dumps, prompt_of
from llmeval_sdk.plugins.datadog.exporter._library import Library
from llmeval_sdk.process.shield import shield, swallow


KEY = "datadog"
OWN = "llmeval.own"
"""Marks ddtrace's spans that are ours, so that a TraceFilter does not take them in again."""
MODELS = frozenset(("llm", "embedding"))
KNOWN_TRACES = 10_000
KNOWN_TEXTS = 1_000
"""How many redacted names and sessions are remembered: almost every span begins with the same ones.
"""
MAX_FRAMES = 30


class OpenSpan:
    """The ddtrace span of one of our spans, and what was active before it."""

    __slots__ = ("around", "around_apm", "finished", "frames", "process", "span", "type")

    def __init__(self, span: Any, around: Any, around_apm: Any, process: object) -> None:
        self.span = span
        self.around = around
        self.around_apm = around_apm
        self.process = process
        self.finished = False
        self.frames: deque[tuple[str, int, str, str | None]] | None = None
        self.type = ""


class Live(LiveSpans, ContextBridge):
    """The live hooks. Every call is cheap, and guarded because ddtrace raises in user code.

    ddtrace may send what is put on its span here as it is, so it is redacted here. If the app
    redacts with a function of its own, that function may hang and must not run on the app's thread.
    The prompt then waits for delivery.
    """

    gives_ids = True

    def __init__(self, library: Library, *, content: bool = True, names: bool = True) -> None:
        self._library = library
        self._content = content
        self._names = names
        self._traces: OrderedDict[int, str] = OrderedDict()
        self.use_redaction(Redactor(("all",)))
        self.process = object()
        """A child that was forked gets a new one: the spans of its parent are finished by the
        parent."""

    def use_redaction(self, redaction: Redaction) -> None:
        """Redact with this function from now on; until then, built-in detectors are used."""
        self._detect = redaction.detect
        self._has_custom = redaction.has_custom
        self._detect_text: Callable[[str], str] = lru_cache(KNOWN_TEXTS)(redaction.detect)

    def on_start(self, span: Any) -> None:
        """Open ddtrace's span of the same kind, and take over its ids."""
        try:
            self._open(span)
        except Exception as error:
            if not swallow("exporter datadog: span", error, calls_out=True):
                raise

    def on_end(self, span: Any) -> None:
        """Make active again what was active before, unless something else has taken its place."""
        theirs = span.context.get(KEY) if span.context else None
        if theirs is None:
            return
        try:
            self._leave(span, theirs)
        except Exception as error:
            if not swallow("exporter datadog: span", error, calls_out=True):
                raise

    def on_drop(self, span: Any) -> None:
        """Finish ddtrace's span if delivery will not; it would hold back the whole trace."""
        theirs = span.context.get(KEY) if span.context else None
        if theirs is not None and not theirs.finished and theirs.process is self.process:
            theirs.finished = True
            with shield("exporter datadog: span", calls_out=True):
                theirs.span.finish(finish_time=span.end_ns / 1e9)

    def ids_of(self, span: Any) -> dict[str, str] | None:
        """Return Datadog's ids of a span of ours, as `LLMObs.export_span` does."""
        if not span.context or KEY not in span.context:
            return None
        return self.ids(span.trace_id, span.span_id)

    def ids(self, trace_id: str, span_id: str) -> dict[str, str]:
        """Return Datadog's ids for ours."""
        trace = self._traces.get(int(trace_id, 16)) if self._traces else None
        return {"span_id": str(int(span_id, 16)), "trace_id": trace or trace_id}

    def read_ids(self, trace_id: str | None, span_id: str) -> tuple[str | None, str]:
        """Return our ids for those of Datadog, whose span ids are decimal; keep ours."""
        if not (span_id.isascii() and span_id.isdecimal()) or int(span_id) >> 64:
            return trace_id, span_id
        if len(span_id) == 16 and span_id[0] == "0":  # no decimal number begins with zero
            return trace_id, span_id
        for number, trace in list(self._traces.items()):
            if trace == trace_id:
                trace_id = f"{number:032x}"
        return trace_id, f"{int(span_id):016x}"

    def mirror(self, span: Any) -> None:
        """Tell ddtrace at once what its children inherit: the prompt and the session."""
        theirs = span.context.get(KEY) if span.context else None
        if theirs is None:
            return
        with shield("exporter datadog: prompt", calls_out=True):
            session = self._text(span.session_id)
            prompt = self._prompt(span.prompt) if span.kind == "llm" else None
            tags = {"session_id": session} if session else None
            if prompt or tags:
                self._library.llmobs.annotate(span=theirs.span, prompt=prompt, tags=tags)

    def annotation_context(self, **fields: Any) -> Any:
        """Open ddtrace's annotation context, whose fields reach instrumented clients.

        A session and a user are tags there.
        """
        whose = {name: fields[name] for name in ("session_id", "user_id") if fields.get(name)}
        tags = {**(fields.get("tags") or {}), **whose} if self._names else None
        return self._library.llmobs.annotation_context(
            prompt=self._prompt(fields.get("prompt")),
            tags=tags and self._plain(tags),
            name=self._text(fields.get("name")),
        )

    # -- the contexts, for generators -----------------------------------------------------------

    def parent(self) -> Any:
        """Return nothing: the parent is whatever ddtrace has active when the span is opened."""
        return None

    def get(self) -> Any:
        """Return what is active in ddtrace."""
        library = self._library
        return (library.active.active(), library.apm.active())

    def put(self, context: Any) -> None:
        """Make active what `get` returned."""
        library = self._library
        library.active.activate(context[0])
        library.apm.activate(context[1])

    # -- inside ---------------------------------------------------------------------------------

    def _text(self, text: Any) -> str | None:
        """Return a name or a session redacted."""
        return self._detect_text(str(text)) if text and self._names else None

    def _prompt(self, prompt: Any) -> dict[str, Any] | None:
        """Return a prompt with its secrets redacted; ``None`` if it has to wait or stay here.

        It waits if the app redacts with a function of its own, which only the worker calls.
        """
        fields = prompt_of(prompt) if self._content and not self._has_custom else None
        return fields and self._plain(fields)

    def _plain(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Redact a value of the app, whose texts may be of classes of its own."""
        redacted: dict[str, Any] = self._detect(json.loads(dumps(fields)))
        return redacted

    def _open(self, span: Any) -> None:
        library = self._library
        llmobs = library.llmobs
        if not llmobs.enabled or (span.context and KEY in span.context):
            return
        around, around_apm = library.active.active(), library.apm.active()
        spec = span.spec
        begin = getattr(llmobs, spec.kind)
        name, session = self._text(spec.name) or spec.kind, self._text(span.session_id)
        if spec.kind in MODELS:
            opened = begin(
                name=name,
                session_id=session,
                model_name=spec.model_name,
                model_provider=spec.model_provider,
            )
        else:
            opened = begin(name=name, session_id=session)
        span.context = {
            **(span.context or {}),
            KEY: OpenSpan(opened, around, around_apm, self.process),
        }
        opened._set_ctx_item(OWN, True)
        span.span_number = opened.span_id
        parent = span.parent
        mine = parent.context.get(KEY) if getattr(parent, "context", None) else None
        if mine is None or mine.span is not around:
            self._agree(span, opened, around, below=mine is not None)

    def _agree(self, span: Any, opened: Any, around: Any, *, below: bool) -> None:
        """Make both trace ids the same if ddtrace's parent is not the span of our parent."""
        trace = self._library.trace_of(opened)
        number = int(trace, 16)
        if below:
            wanted = self._traces.get(span.trace_number) or f"{span.trace_number:032x}"
            if trace != wanted:  # our parent has ended, which made this a root of ddtrace's
                self._library.rename(opened, wanted, span.parent.span_id)
        elif span.parent is None:
            span.trace_number = number
            span.parent_number = getattr(around, "span_id", None) or 0
        elif span.trace_number != number:  # a trace of another library or process around ours
            self._traces[span.trace_number] = trace
            if len(self._traces) > KNOWN_TRACES:
                self._traces.popitem(last=False)

    def _leave(self, span: Any, theirs: OpenSpan) -> None:
        library = self._library
        if library.active.active() is theirs.span:
            library.active.activate(theirs.around)
        if library.apm.active() is theirs.span:
            library.apm.activate(theirs.around_apm)
        if span.error is not None and self._names:
            _keep_traceback(span.error.type, theirs, None if self._content else "")
        if not span.flags & 1:  # another library's sampler has dropped it
            self.on_drop(span)


def _keep_traceback(name: str, theirs: OpenSpan, source: str | None) -> None:
    """Keep where an exception came from, without reading a source file on the app's thread.

    ``source`` stands for the source line of each frame: with ``None`` delivery reads the line,
    which may quote a text, and with an empty text it is left out.
    """
    import sys

    kind, _, trace = sys.exc_info()
    if trace is not None and kind is not None and kind.__name__ == name:
        theirs.frames = deque(
            (
                (frame.f_code.co_filename, line, frame.f_code.co_name, source)
                for frame, line in walk_tb(trace)
            ),
            MAX_FRAMES,
        )
        theirs.type = f"{kind.__module__}.{name}"
