"""Evaluates the spans of any OpenTelemetry instrumentation.

    from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
    provider.add_span_processor(EvaluationSpanProcessor())

MLflow keeps its spans from the app's provider unless ``MLFLOW_USE_DEFAULT_TRACER_PROVIDER=false``;
OpenTelemetry's own instrumentations write no messages unless
``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only`` asks for them (with
``OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental``).

The topmost span of a trace that describes a model, an agent, a chain or a retrieval is scored,
together with the documents and tokens of the spans below it. A span that ends after its local root,
as a streamed call does, is scored when it ends. A span below an evaluated span of ours is not
scored separately. Scores go where the exporters send them. The spans themselves are exported by
whatever exports them already; the local store keeps a copy of them, because it would otherwise hold
scores of spans that nobody can look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmeval_sdk.process import app_resource
from llmeval_sdk.process.shield import caught, swallow
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.foreign import conventions
from llmeval_sdk.tracing.foreign.reading import evaluated
from llmeval_sdk.tracing.internals import contexts_around, deliver, is_off, recorder


MAX_OPEN = 20_000
"""The most spans that may be open at a time; beyond that the oldest is given up and counted."""
MAX_SPANS = 1_000
"""The most spans that are kept of one local part of a trace."""
OWN_SCOPE = "llmeval_sdk"


class Branch:
    """The part of a trace below one span whose parent is elsewhere, or nowhere."""

    __slots__ = ("above", "contexts", "handed", "parents", "root", "spans")

    def __init__(self, root: int, above: int = 0) -> None:
        self.root = root
        self.above = above
        """The span of ours that it stands below, if any."""
        self.spans: list[Any] = []
        self.handed = 0
        """How many of the spans were handed over."""
        self.parents: dict[int, int] = {}
        """Of every span of the branch: steps that matter may be far apart."""
        self.contexts: dict[int, tuple[Mapping[str, Any], ...]] = {}
        """The fields of the annotation contexts that a span began in, if there are any."""


_BELOW_OURS = Branch(0)
"""Stands for the branch of spans that are not scored."""


class EvaluationSpanProcessor:
    """A span processor that passes finished spans to our pipeline. It never raises or blocks.

    Args:
        evaluators: names or objects of evaluators that run on each scored span, in addition to the
            built-in heuristics, as in ``workflow(evaluators=…)``.
    """

    @property
    def exports(self) -> bool:
        """Whether our exporters send the spans, because nobody else does."""
        return False

    def __init__(self, *, evaluators: Sequence[object] = ()) -> None:
        if isinstance(evaluators, str):
            raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
        self._evaluators = tuple(evaluators)
        self._open: dict[int, Branch] = {}

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Note which local part of its trace a span belongs to."""
        try:
            if not span.context.trace_flags.sampled:
                return  # not exported, so its scores would belong to nothing
            parent = span.parent
            branch = self._open.get(parent.span_id) if parent is not None else None
            around = current_span(parent_context)
            ours = getattr(around, "llmeval_span", None)
            ours = ours if isinstance(ours, Span) else None
            is_below = ours is not None and (ours.is_evaluated or ours.owner is not None)
            if is_below or is_seen_call(around, but=self):
                branch = _BELOW_OURS
            number = ours.span_number if ours is not None else 0
            self._admit(span, branch or Branch(span.context.span_id, number))
        except Exception as error:
            if not swallow("sources.on_start", error):
                raise

    def _admit(self, span: Any, branch: Branch) -> None:
        """Note that a span is open."""
        if len(self._open) >= MAX_OPEN:  # some are never ended, such as streams left unread
            caught.add("sources: too many open spans")
            self._open.pop(next(iter(self._open)), None)
        self._open[span.context.span_id] = branch
        span.llmeval_seen = self
        contexts = contexts_around()
        if contexts and branch is not _BELOW_OURS and len(branch.contexts) < 10 * MAX_SPANS:
            branch.contexts[span.context.span_id] = contexts

    def _on_ending(self, span: object) -> None:
        """Do nothing: a part of the SDK's protocol."""

    def on_end(self, span: Any) -> None:
        """Keep a span if it matters; once the local root has ended, hand all kept spans over."""
        try:
            branch = self._open.pop(span.context.span_id, None)
            if branch is None or branch is _BELOW_OURS:
                return
            parent = span.parent.span_id if span.parent is not None else 0
            if parent and len(branch.parents) < 10 * MAX_SPANS:
                branch.parents[span.context.span_id] = parent
            scope = span.instrumentation_scope
            if (
                len(branch.spans) < MAX_SPANS
                and (scope is None or scope.name != OWN_SCOPE)
                and conventions.may_matter(span.attributes or {})
            ):
                branch.spans.append(span)
            if branch.root not in self._open and parent not in self._open:
                self._hand_over(branch)
        except Exception as error:
            if not swallow("sources.on_end", error):
                raise

    def shutdown(self) -> None:
        """Forget the open spans, and deliver the scores of those that ended.

        It waits for as long as the end of the process may: the setting LLMEVAL_SHUTDOWN_TIMEOUT.
        """
        self._open.clear()
        _deliver(None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score, judge and deliver what ended so far; return whether that was done in time."""
        return _deliver(timeout_millis / 1_000)

    def _hand_over(self, branch: Branch) -> None:
        spans, handed = branch.spans[:], branch.handed
        branch.handed = len(spans)
        target = recorder() if len(spans) > handed else None
        if target is None:
            return
        app_resource.note(spans[handed])
        new = frozenset(span.context.span_id for span in spans[handed:])
        parents, evaluators, above = branch.parents, self._evaluators, branch.above
        contexts = branch.contexts

        def read() -> Iterable[Span]:
            return evaluated(spans, parents, evaluators, new, above, contexts=contexts)

        trace = spans[handed].context.trace_id
        target.take(read, 2_000 * len(new), exported=self.exports, trace=trace)


def _deliver(timeout: float | None) -> bool:
    """Do what `llmeval_sdk.flush` does, except on a thread that is delivering as it calls."""
    if is_off():  # our own exporter flushes the app's provider, which calls its processors
        return True
    try:
        return deliver(timeout)
    except Exception as error:
        if not swallow("sources.force_flush", error):
            raise
        return False


def current_span(context: Any = None) -> object:
    """Return the span of OpenTelemetry that is current in a context."""
    from opentelemetry.trace import get_current_span

    return get_current_span(context)


def is_seen_call(span: object, *, but: EvaluationSpanProcessor | None = None) -> bool:
    """Say whether a span of OpenTelemetry is a model call that reaches us already.

    Args:
        span: a span that is open.
        but: a processor that puts its own spans together and counts a call inside a call once.
    """
    seen_by = getattr(span, "llmeval_seen", None)
    if seen_by is None or seen_by is but:
        return False
    return conventions.kind_of(getattr(span, "attributes", None) or {}) == "llm"
