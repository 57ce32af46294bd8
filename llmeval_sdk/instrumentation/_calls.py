"""What becomes of the finished span of an instrumented call.

Below no evaluated span of ours, the call is a request of its own: it is read and scored in the
background, like the spans that other libraries make. Below one, what it tells has to be there when
that span ends, so it is read at once. Inside a span of a model call, it only says what that span
does not know itself, so that the call is counted once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmeval_sdk import runtime
from llmeval_sdk._coerce import to_usage
from llmeval_sdk._process.shield import swallow
from llmeval_sdk.records import OWNERS, Spent, left_by
from llmeval_sdk.sources.otel import Branch, EvaluationSpanProcessor
from llmeval_sdk.sources.reading import of_sdk
from llmeval_sdk.sources.runs import ForeignSpan
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing._inner import (
    adopted,
    current,
    inherit,
    leave_to_owner,
    recorder,
    state,
)


class _Inside(Branch):
    """Stands for a call inside a span of ours that it belongs to."""

    __slots__ = ("ours",)

    def __init__(self, ours: Span) -> None:
        super().__init__(0)
        self.ours = ours


class CallProcessor(EvaluationSpanProcessor):
    """Gets the spans of all instrumented clients. It never raises or blocks."""

    @property
    def exports(self) -> bool:
        """Whether our exporters send the calls: an app's own provider takes spans that it made."""
        return runtime.settings().otel != "global"

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Note which span of ours a call belongs to."""
        ours = current.get()
        if type(ours) is Span and not ours.end_ns and _takes(ours):
            self._admit(span, _Inside(ours))
        elif type(ours) is Span or span.context.trace_id & _LOW_BITS < state.sample_below:
            super().on_start(span, parent_context)

    def on_end(self, span: Any) -> None:
        """Hand a call over, or leave what it tells to the span of ours around it."""
        branch = self._open.get(span.context.span_id)
        if type(branch) is not _Inside:
            super().on_end(span)
            return
        try:
            del self._open[span.context.span_id]
            data = of_sdk(span)
            if data is not None:
                _leave(data, branch.ours, exported=self.exports)
        except Exception as error:
            if not swallow("instrument", error):
                raise


_LOW_BITS = 0xFFFFFFFFFFFFFFFF
_CALLS = ("llm", "embedding")


def _takes(ours: Span) -> bool:
    """Say whether a call inside a span of ours belongs to it or to an evaluated span above it."""
    return ours.is_evaluated or ours.owner is not None or ours.kind in _CALLS


def _leave(data: ForeignSpan, ours: Span, *, exported: bool) -> None:
    """Leave what a call tells to the spans of ours around it, and hand the call's own span on."""
    is_known = ours.kind == data.kind and ours.kind in _CALLS and not ours.end_ns
    kind = "task" if data.kind in OWNERS else data.kind
    call = adopted(replace(data, kind=kind, parent_id=ours.span_id, session_id=ours.session_id))
    call.owner = ours if ours.is_evaluated else ours.owner
    if is_known:
        _complete(ours, call)
        return
    ended, call.end_ns = call.end_ns, 0
    inherit(call)
    call.end_ns = ended
    leave_to_owner(call)
    call.owner = call.owner or call  # where the span around it is over, it is scored nowhere
    target = recorder()
    if target is not None:
        target.take(lambda: (call,), call.size, exported=exported)


def _complete(ours: Span, call: Span) -> None:
    """Tell the span of a model call what it does not know itself: tokens, model, first token.

    Tokens that the app annotated count alone. Those of several calls in one span are summed up.
    """
    for item in left_by(call, keeps=False):
        if type(item) is not Spent:
            ours.collect(item)
    metrics = dict(ours._metrics or {})
    if call.usage is not None and to_usage(metrics) is None:
        ours._usage = call.usage if ours._usage is None else ours._usage + call.usage
    measured = dict(call._metrics or {})
    first_token = measured.pop("time_to_first_token", None)
    for name, number in measured.items():
        metrics[name] = metrics.get(name, 0) + number
    if first_token is not None:
        metrics.setdefault("time_to_first_token", first_token)
    ours._metrics = metrics or None
    spec = ours.spec
    ours.spec = spec._replace(
        model_name=spec.model_name or call.model_name,
        model_provider=spec.model_provider or call.spec.model_provider,
    )
