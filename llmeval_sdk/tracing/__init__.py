"""Spans of the app's own functions: decorators, context, capture.

Knows nothing of queues, evaluators and exporters: a finished span goes to the recorder that the
runtime installs.
"""

from llmeval_sdk.tracing._annotate import (
    annotate,
    annotation_context,
    current_span,
    disabled,
    export_span,
    is_off,
    off,
    read_ids,
)
from llmeval_sdk.tracing._capture import capture
from llmeval_sdk.tracing._finished import (
    adopted,
    leave_to_owner,
    settle,
    span_data,
    without_content,
)
from llmeval_sdk.tracing._ids import new_span_id, new_trace_id
from llmeval_sdk.tracing._kinds import agent, embedding, llm, retrieval, task, tool, workflow
from llmeval_sdk.tracing._portable import from_plain, to_plain
from llmeval_sdk.tracing._propagate import ContextExecutor, extract, inject, wrap_context
from llmeval_sdk.tracing._span import Link, Span, Spec
from llmeval_sdk.tracing._state import Recorder, State, current, state


__all__ = [
    "ContextExecutor",
    "Link",
    "Recorder",
    "Span",
    "Spec",
    "State",
    "adopted",
    "agent",
    "annotate",
    "annotation_context",
    "capture",
    "current",
    "current_span",
    "disabled",
    "embedding",
    "export_span",
    "extract",
    "from_plain",
    "inject",
    "is_off",
    "leave_to_owner",
    "llm",
    "new_span_id",
    "new_trace_id",
    "off",
    "read_ids",
    "retrieval",
    "settle",
    "span_data",
    "state",
    "task",
    "to_plain",
    "tool",
    "without_content",
    "workflow",
    "wrap_context",
]
