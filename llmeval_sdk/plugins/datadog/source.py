"""Evaluates the LLM Observability spans of an app that uses ddtrace itself.

    from llmeval_sdk.plugins.datadog.source import evaluate_spans
    evaluate_spans()

The topmost span of a trace is scored, together with the documents and tokens of the spans below it.
An ``llm`` span with a prompt is scored too, by the judges that look at prompts. Scores go where the
exporters send them, joined on Datadog's ids. ddtrace sends the spans themselves; the local store
keeps a copy of them, because it would otherwise hold scores of spans that nobody can look at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from llmeval_sdk.config import hidden, variables
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.model import Chunk, Failure, Prompt, Usage
from llmeval_sdk.model.chat import definitions_of
from llmeval_sdk.model.fields import (
    note_kinds,
    to_chunks,
    to_details,
    to_extractions,
    to_prompt,
    to_usage,
)
from llmeval_sdk.model.records import ANSWERED
from llmeval_sdk.plugins.datadog.flushing import deliver_before_flush
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.foreign import conventions, messages
from llmeval_sdk.tracing.foreign.conventions import first, labels, parsed
from llmeval_sdk.tracing.foreign.reading import SCORED, ForeignSpan, families, scored
from llmeval_sdk.tracing.internals import (
    Link,
    adopted,
    capture,
    contexts_around,
    current,
    inherit_late,
    recorder,
    state,
)


OWN = "llmeval.own"
"""Item on ddtrace's spans that are spans of ours."""
CONTEXTS = "llmeval.contexts"
"""Item on ddtrace's spans that began inside our annotation contexts: the fields of these."""
MAX_DEPTH = 200
_SPELLINGS = {
    "rag_context_variable_keys": "rag_context_variables",
    "rag_query_variable_keys": "rag_query_variables",
}


def evaluate_spans(*, evaluators: Sequence[object] = ()) -> None:
    """Score the spans that ddtrace finishes from now on. A second call changes nothing.

    Args:
        evaluators: names or objects of evaluators that run on each scored span, in addition to the
            built-in heuristics, as in ``workflow(evaluators=…)``.

    Raises:
        ConfigurationError: ddtrace is not installed, or too old to expose what its spans hold.
    """
    if isinstance(evaluators, str):
        raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
    try:
        tracer = import_module("ddtrace").tracer
        event = import_module("ddtrace.llmobs._constants").CACHED_LLMOBS_EVENT_CTX_KEY
    except ImportError:
        raise missing_extra("evaluate_spans()", "datadog", "ddtrace") from None
    except AttributeError:
        raise ConfigurationError(
            "evaluate_spans() needs a newer ddtrace: pip install -U ddtrace"
        ) from None
    deliver_before_flush()
    state.note_named(tuple(evaluators))
    others = list(tracer._span_aggregator.user_processors)
    if not any(isinstance(each, EvaluationTraceFilter) for each in others):
        added = EvaluationTraceFilter(event, tuple(evaluators))
        tracer.configure(trace_processors=[*others, added])
        import_module("ddtrace.internal.core").on("trace.span_start", _note_contexts)
        _teach_the_guides_keys(import_module("ddtrace.llmobs._llmobs"))


def connect(_: object) -> None:
    """Connect where LLM Observability is on, or the environment speaks of it; for ``llmeval run``.

    Without the exporter ``datadog`` nobody has switched it on yet: the app will.
    """
    loaded = sys.modules.get("ddtrace.llmobs")
    is_on = loaded is not None and loaded.LLMObs.enabled
    if is_on or (variables("DD_LLMOBS_") and find_spec("ddtrace") is not None):
        with hidden("DD_LLMOBS_EVALUATOR_SAMPLING_RULES"):  # they can crash ddtrace's import
            evaluate_spans()


def _note_contexts(span: Any) -> None:
    """Note the annotation contexts that a span of LLM Observability begins in."""
    try:
        contexts = contexts_around()
        if contexts and span.span_type == "llm":
            span._set_ctx_item(CONTEXTS, contexts)
    except Exception as error:
        if not swallow("sources.span_start", error):
            raise


def _teach_the_guides_keys(library: Any) -> None:
    """Have ddtrace read the keys of a prompt as its guide spells them, which it drops unread."""
    inner = getattr(library, "_validate_prompt", None)
    if inner is None:
        return

    @wraps(inner)
    def validated(prompt: object, *args: object, **kwargs: object) -> object:
        if isinstance(prompt, dict) and not _SPELLINGS.keys().isdisjoint(prompt):
            meant = {its: prompt[guides] for guides, its in _SPELLINGS.items() if guides in prompt}
            prompt = {**meant, **prompt}
        return inner(prompt, *args, **kwargs)

    library._validate_prompt = validated


class EvaluationTraceFilter:
    """A trace filter of ddtrace that lets everything pass. Never raises, never blocks."""

    def __init__(self, event: str, evaluators: tuple[object, ...]) -> None:
        self._event = event
        self._evaluators = evaluators

    def process_trace(self, trace: list[object]) -> list[object]:
        """Hand the finished spans of a trace over; runs where the last of them finished."""
        try:
            self._take(trace)
        except Exception as error:
            if not swallow("sources.process_trace", error):
                raise
        return trace

    def _take(self, trace: list[Any]) -> None:
        here = current.get()
        if type(here) is Link and not here.recording and here.trace_id == 0:
            if any(span._get_ctx_item(OWN) for span in trace):
                pass  # our delivery finishes spans of ours, and with them a trace of both
            else:
                return  # a judge's own call, or inside disabled()
        events = []
        for span in trace:
            event = span._get_ctx_item(self._event) if span.span_type == "llm" else None
            if event is not None and not span._get_ctx_item(OWN):
                # ``annotation_context(name=…)`` and sampling rules speak of the span's own name
                failed = {
                    "type": span.get_tag("error.type"),
                    "message": span.get_tag("error.message"),
                }
                own = {
                    "name": span.name, "llmobs_name": event.get("name"), "failed": failed,
                    "contexts": span._get_ctx_item(CONTEXTS),
                }  # fmt: skip
                events.append(({**event, **own}, _below_ours(span)))
        target = recorder() if events else None
        if target is None:
            return
        evaluators = self._evaluators

        def read() -> Iterable[Span]:
            return evaluated(events, evaluators)

        target.take(read, 2_000 * len(events), trace=trace[0].trace_id)


def _below_ours(span: Any) -> bool:
    """Say whether a span of ours is above: it is scored then, with what its own spans tell."""
    above = span._parent
    for _ in range(MAX_DEPTH):
        if above is None:
            return False
        if above._get_ctx_item(OWN):
            return True
        above = above._parent
    return False


KINDS = frozenset(("workflow", "task", "retrieval", "llm", "tool", "agent", "embedding"))
RUNNER = "runner.integration:"
"""Tag of spans that evaluators made: those are not evaluated."""


def evaluated(  # noqa: C901
    events: Sequence[tuple[Mapping[str, Any], bool]], evaluators: tuple[Any, ...]
) -> Iterable[Span]:
    """Yield a span of ours for each event, which comes with whether a span of ours is above it.

    The topmost is scored, and so is an ``llm`` span with a prompt, by the judges that look at
    those. The others, which have an owner, are only kept where the exporter is the store.
    """
    known: dict[str, ForeignSpan] = {}
    contexts: dict[str, tuple[Mapping[str, object], ...]] = {}
    below_ours = set()
    for event, is_below_ours in events:
        if not any(str(tag).startswith(RUNNER) for tag in event.get("tags") or ()):
            data = finished(event)
            if data is not None:
                known[data.span_id] = data
                contexts[data.span_id] = event.get("contexts") or ()
                if is_below_ours:
                    below_ours.add(data.span_id)
    parents = {data.span_id: data.parent_id for data in known.values()}
    nearest = {here: above if above in known else None for here, above in parents.items()}
    for span_id, here in families(nearest).items():
        top, family = known[span_id], [known[each] for each in here]
        if span_id in below_ours or top.kind not in SCORED:
            above = None
        else:
            above = scored(_local_root(top), family, evaluators)
            around = (contexts[each.span_id] for each in (top, *family))
            inherit_late(above, next(filter(None, around), ()))
        for data in family:
            if data is not top or above is None:
                is_root = data is top and span_id not in below_ours
                inner = adopted(_local_root(data) if is_root else data)
                inherit_late(inner, contexts[data.span_id])
                inner.owner = above or inner
                yield inner
        if above is not None:
            if top.kind == "llm" and top.prompt is None:
                above.collect(ANSWERED)  # Datadog's Ragas evaluators look at prompts only
            yield above


def _local_root(data: ForeignSpan) -> ForeignSpan:
    return replace(data, outside_parent=data.parent_id is not None)


def _used(event: Mapping[str, Any]) -> tuple[Usage | None, dict[str, float]]:
    told = dict(event.get("metrics") or {})
    note_kinds(told)
    return to_usage(told), to_details(told)


def finished(event: Mapping[str, Any]) -> ForeignSpan | None:
    """Read an event; ``None`` for one that is no span of LLM Observability."""
    meta = event.get("meta") or {}
    kind = (meta.get("span") or {}).get("kind")
    if kind not in KINDS:
        return None
    parent, metadata = str(event.get("parent_id")), meta.get("metadata") or {}
    start = int(event.get("start_ns") or 0)
    extractions = metadata.get("extractions")
    request, response, error = _request(meta), _response(meta), _error(event, meta)
    name, tags = str(event.get("name")), labels(event.get("tags") or ())
    usage, metrics = _used(event) if kind == "llm" else (None, {})
    if kind == "tool":
        name, request = _called(event, parsed((meta.get("input") or {}).get("value")))
        result = conventions.result_in(response)
        response, error = capture(result.result), error or result.error
    return ForeignSpan(
        f"{int(str(event['trace_id']), 16):032x}",
        f"{int(event['span_id']):016x}",
        f"{int(parent):016x}" if parent.isdecimal() and int(parent) else None,
        name,
        kind,
        start,
        start + int(event.get("duration") or 0),
        request=request,
        response=response,
        retrieved_context=_chunks(meta) if kind == "retrieval" else None,
        extractions=to_extractions(capture(extractions)) if isinstance(extractions, list) else None,
        usage=usage,
        metrics=metrics,
        prompt=_prompt(meta) if kind == "llm" else None,
        error=error,
        session_id=event.get("session_id") or tags.get("session_id"),
        tags=_of_the_app(tags),
        model_name=meta.get("model_name"),
        model_provider=meta.get("model_provider"),
        conversation=_conversation(meta) if kind == "llm" else (),
        offered=definitions_of(meta.get("tool_definitions")),
        agent=_agent(metadata),
    )


_ITS_OWN_TAGS = frozenset((
    "agent_service", "ddtrace_version", "decorator", "env", "error", "error_type",
    "git_commit_sha", "git_repository_url", "integration", "language", "ml_app",
    "prompt_tracking_instrumentation_method", "runtime-id",
    "service", "session_id", "source", "version",
))  # fmt: skip
"""What ddtrace writes among the tags of every span; without an agent it writes a dot as ``_``."""


def _of_the_app(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that the app gave a span, with its user as ``user_id``."""
    own = {name: tags[name] for name in tags if name.replace(".", "_") not in _ITS_OWN_TAGS}
    user = first(own, "user_id", "user.id", "usr.id", "usr_id")
    return {**own, "user_id": user} if user else own


def _called(event: Mapping[str, object], value: object) -> tuple[str, object]:
    """Return which tool was called, and with what arguments."""
    name = str(event.get("llmobs_name") or event.get("name"))[:200]
    if isinstance(value, Mapping) and value.get("type") == "tool_call" and "args" in value:
        return str(value.get("name") or name)[:200], capture(value["args"])  # LangChain's
    arguments = capture(conventions.arguments_in(value))
    is_handoff = name.startswith("transfer_to_") and isinstance(arguments, str)
    return name, None if is_handoff else arguments  # its input is the agent that hands over


def _agent(metadata: Mapping[str, object]) -> str | None:
    """Return the agent's own name, or that of the agent that LangChain called a tool for."""
    own = metadata.get("_dd")
    manifest = own.get("agent_manifest") if isinstance(own, dict) else None
    config = metadata.get("tool_config")
    about = config.get("metadata") if isinstance(config, dict) else None
    told = (manifest or {}).get("name") or (about or {}).get("lc_agent_name")
    return str(told)[:200] if told else None


def _conversation(meta: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the messages of a model call and its answer."""
    asked, answered = ((meta.get(side) or {}).get("messages") for side in ("input", "output"))
    return (*messages.listed(asked), *messages.listed(answered))


def _prompt(meta: Mapping[str, Any]) -> Prompt | None:
    prompt = (meta.get("input") or {}).get("prompt")
    if not isinstance(prompt, dict):
        return None
    keys = {
        "rag_context_variables": prompt.get("_dd_context_variable_keys"),
        "rag_query_variables": prompt.get("_dd_query_variable_keys"),
    }
    return to_prompt({**prompt, **{key: value for key, value in keys.items() if value}})


def _error(event: Mapping[str, Any], meta: Mapping[str, Any]) -> Failure | None:
    if event.get("status") != "error":
        return None
    error, told = meta.get("error") or {}, event.get("failed") or {}
    kind = str(told.get("type") or error.get("type") or "error").rpartition(".")[2]
    return Failure(kind, str(told.get("message") or error.get("message") or "")[:2_000])


def _request(meta: Mapping[str, Any]) -> object:
    given = meta.get("input") or {}
    if isinstance(given.get("messages"), list):
        return messages.chat(given["messages"]) or given["messages"]
    value = parsed(given.get("value"))
    return messages.chat(value) or messages.question(value)


def _response(meta: Mapping[str, Any]) -> object:
    given = meta.get("output") or {}
    if isinstance(given.get("messages"), list):
        return messages.answer(given["messages"])
    return parsed(given.get("value"))


def _chunks(meta: Mapping[str, Any]) -> tuple[Chunk, ...] | None:
    documents = (meta.get("output") or {}).get("documents")
    if not isinstance(documents, list):
        return None
    found = [{**each, "doc_uri": each.get("name")} for each in documents if isinstance(each, dict)]
    return to_chunks(capture(found))
