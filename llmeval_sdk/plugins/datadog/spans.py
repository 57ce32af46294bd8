"""Spans of ddtrace with our times: opened on the app's thread, annotated and finished at delivery.

A span that ddtrace has none for, such as one of a judge's run or of another process, gets one at
delivery, with our ids.
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from traceback import StackSummary, walk_tb
from typing import Any

from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model import Chunk, Failure, Prompt, SpanData, Usage
from llmeval_sdk.model.chat import completion_messages, content_of, messages_of, role_of, unwrapped
from llmeval_sdk.model.fields import to_prompt
from llmeval_sdk.model.protocols import ContextBridge, LiveSpans, Redaction
from llmeval_sdk.plugins.datadog.library import Library
from llmeval_sdk.process.pieces import json_text, read_json
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
                if not swallow("exporter datadog: span", error):
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


# A span of ddtrace stays open on the app's thread while ours is; the delivery thread finishes it.
#
# Meanwhile our ids are those of Datadog: a span takes the span id of ddtrace's span, and a root
# takes the trace id of LLM Observability. An evaluation finds its span by these ids, from any
# process and at any time.


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
            if not swallow("exporter datadog: span", error):
                raise

    def on_end(self, span: Any) -> None:
        """Make active again what was active before, unless something else has taken its place."""
        theirs = span.context.get(KEY) if span.context else None
        if theirs is None:
            return
        try:
            self._end(span, theirs)
        except Exception as error:
            if not swallow("exporter datadog: span", error):
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
        """Pass the prompt and the session on to ddtrace's span, from which its children inherit."""
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
        """Return ``None``, so that the span that ddtrace has active becomes the parent."""
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

    def leave(self, span: Any) -> None:
        """Make active what was before a span of ours, unless something else is active."""
        theirs, library = span.context.get(KEY) if span.context else None, self._library
        if theirs is not None and library.active.active() is theirs.span:
            library.active.activate(theirs.around)
        if theirs is not None and library.apm.active() is theirs.span:
            library.apm.activate(theirs.around_apm)

    # -- inside ---------------------------------------------------------------------------------

    def _text(self, text: Any) -> str | None:
        """Return a name or a session redacted."""
        return self._detect_text(str(text)) if text and self._names else None

    def _prompt(self, prompt: Any) -> dict[str, object] | None:
        """Return a prompt with its secrets redacted; ``None`` if it has to wait or stay here.

        It waits if the app redacts with a function of its own, which only the worker calls.
        """
        fields = prompt_of(prompt) if self._content and not self._has_custom else None
        return fields and self._plain(fields)

    def _plain(self, fields: dict[str, Any]) -> dict[str, object]:
        """Redact a value of the app, whose texts may be of classes of its own."""
        redacted: dict[str, object] = self._detect(json.loads(dumps(fields)))
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
            span.outside_parent = span.parent_number != 0
        elif span.trace_number != number:  # a trace of another library or process around ours
            self._traces[span.trace_number] = trace
            if len(self._traces) > KNOWN_TRACES:
                self._traces.popitem(last=False)

    def _end(self, span: Any, theirs: OpenSpan) -> None:
        self.leave(span)
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


# The arguments of ddtrace's ``annotate`` for a finished span.


_DROPPED: tuple[object, ...] = (None, (), [], {}, "")


def fields_of(span: SpanData) -> dict[str, object]:
    """Return the arguments for a span; what is absent is left out."""
    fields = {
        "metadata": metadata(span),
        "metrics": metrics(span.metrics, span.usage if span.kind in ("llm", "embedding") else None),
        "tags": {str(key): str(value) for key, value in span.tags.items()},
        "input_data": _input(span),
        "output_data": _output(span),
    }
    return {key: value for key, value in fields.items() if value not in _DROPPED}


def _input(span: SpanData) -> object:
    if span.kind == "llm":
        return messages(span.request, "user")
    if span.kind == "embedding":
        return _texts(span.request)
    return span.request


def _output(span: SpanData) -> object:
    if span.kind == "llm":
        return messages(span.response, "assistant")
    if span.kind == "retrieval" and span.retrieved_context is not None:
        return [document(chunk) for chunk in span.retrieved_context]
    if span.kind == "embedding":
        return None if span.response is None else _embedding(span.response)
    return None if span.kind == "retrieval" else span.response


def metadata(span: SpanData) -> dict[str, Any]:
    """Return the app's metadata, with those fields of ours that Datadog has none for."""
    sent: dict[str, Any] = {str(key): finite(value) for key, value in span.attributes.items()}
    if span.kind != "retrieval" and span.retrieved_context is not None:
        sent["retrieved_context"] = [document(chunk) for chunk in span.retrieved_context]
    if span.extractions is not None:
        sent["extractions"] = [
            {
                "value": finite(extraction.value),
                "chunk_number": extraction.chunk_number,
                "confidence": finite(extraction.confidence),
                "evidence": extraction.evidence,
            }
            for extraction in span.extractions
        ]
    for name, value in span.expected.items():
        chunks = type(value) is tuple and value and type(value[0]) is Chunk
        sent[name] = [document(chunk) for chunk in value] if chunks else finite(value)
    if span.kind == "retrieval" and span.response is not None:
        sent["returned"] = finite(span.response)
    return sent


def metrics(own: Mapping[str, float], usage: Usage | None) -> dict[str, float]:
    """Return the numbers of a span, tokens by Datadog's names; only finite ones."""
    sent = {
        str(name): value
        for name, value in own.items()
        if type(value) in (int, float) and math.isfinite(value)
    }
    if usage is not None:
        sent.setdefault("input_tokens", usage.input_tokens)
        sent.setdefault("output_tokens", usage.output_tokens)
        sent.setdefault("total_tokens", usage.total_tokens)
        if usage.cost_usd is not None and math.isfinite(usage.cost_usd):
            sent.setdefault("total_cost", usage.cost_usd)
    return sent


def document(chunk: Chunk) -> dict[str, object]:
    """Write a chunk as one of Datadog's documents, whose text and id are strings."""
    fields: dict[str, Any] = {"text": chunk.content or ""}
    name = chunk.doc_uri
    if name and chunk.page is not None:
        name = f"{name} p. {chunk.page}"
    if name:
        fields["name"] = name
    if chunk.chunk_id is not None:
        fields["id"] = str(chunk.chunk_id)
    if chunk.score is not None and math.isfinite(chunk.score):
        fields["score"] = float(chunk.score)
    return fields


def prompt_of(prompt: Any) -> dict[str, object] | None:
    """Write a prompt as ddtrace reads it."""
    captured = prompt if type(prompt) is Prompt else to_prompt(prompt) if prompt else None
    if captured is None:
        return None
    fields: dict[str, Any] = {
        "id": captured.id,
        "version": captured.version,
        "template": captured.template,
        "variables": {str(key): value for key, value in captured.variables.items()},
        "tags": captured.tags and {str(key): str(value) for key, value in captured.tags.items()},
        "rag_context_variables": list(captured.rag_context_variables),
        "rag_query_variables": list(captured.rag_query_variables),
    }
    if captured.chat_template and not captured.template:
        fields["chat_template"] = [dict(turn) for turn in captured.chat_template]
    return {key: value for key, value in fields.items() if value}


def messages(value: Any, role: str) -> list[dict[str, Any]] | None:
    """Write a request or a response as messages; a plain text gets the given role."""
    if value is None:
        return None
    turns = messages_of(value) or completion_messages(value)
    if turns is None and type(value) is dict and {"role", "content"} <= value.keys():
        turns = [value]
    if not turns or not all(type(turn) is dict for turn in turns):
        return [{"role": role, "content": value if type(value) is str else dumps(value)}]
    return [_message(unwrapped(turn), role) for turn in turns if isinstance(turn, Mapping)]


def _message(turn: Mapping[str, Any], role: str) -> dict[str, object]:
    content = content_of(turn)
    message: dict[str, Any] = {
        "role": role_of(turn) or role,
        "content": content if type(content) is str else "" if content is None else dumps(content),
    }
    calls = [_tool_call(call) for call in turn.get("tool_calls") or () if type(call) is dict]
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_call(call: Mapping[str, Any]) -> dict[str, object]:
    function = call.get("function") if type(call.get("function")) is dict else call
    assert function is not None
    arguments = function.get("arguments")
    if type(arguments) is str:
        try:
            arguments = read_json(arguments)
        except ValueError:
            arguments = {"text": arguments}
    return {
        "name": str(function.get("name") or ""),
        "arguments": arguments if type(arguments) is dict else {"value": arguments},
        "tool_id": str(call.get("id") or ""),
        "type": str(call.get("type") or "function"),
    }


def _texts(value: Any) -> object:
    """Return what was embedded as texts."""
    if type(value) is dict:
        value = value.get("input", dumps(value))
    if type(value) is list:
        return [text if type(text) is str else dumps(text) for text in value]
    return value if value is None or type(value) is str else dumps(value)


def _embedding(value: Any) -> str:
    """Describe vectors instead of sending their numbers."""
    if type(value) is str:
        return value
    if type(value) is list and value and type(value[0]) in (int, float):
        return f"1 vector of {len(value)} numbers"
    if type(value) is list and value and type(value[0]) is list:
        return f"{len(value)} vectors of {len(value[0])} numbers"
    return dumps(value)


def dumps(value: Any) -> str:
    """Write a captured value as JSON, with text in place of the numbers that JSON lacks."""
    return json_text(_ENCODER, finite(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def finite(value: Any) -> Any:
    """Return a captured value with NaN and infinities as text.

    Datadog refuses a whole request because of one of them.
    """
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if type(value) is dict:
        return {str(key): finite(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [finite(item) for item in value]
    return value
