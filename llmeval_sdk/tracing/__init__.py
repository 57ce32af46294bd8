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
from llmeval_sdk.tracing._ids import new_span_id, new_trace_id
from llmeval_sdk.tracing._kinds import agent, embedding, llm, retrieval, task, tool, workflow
from llmeval_sdk.tracing._portable import from_plain, to_plain
from llmeval_sdk.tracing._propagate import ContextExecutor, extract, inject, wrap_context
from llmeval_sdk.tracing._records import (
    ANSWERED,
    context_of,
    leave_to_owner,
    record_of,
    request_of,
    settle,
    span_data,
    spent_by,
    without_content,
)
from llmeval_sdk.tracing._span import Link, Retrieved, Span, Spent
from llmeval_sdk.tracing._state import Recorder, State, current, state


__all__ = [
    "ANSWERED",
    "ContextExecutor",
    "Link",
    "Recorder",
    "Retrieved",
    "Span",
    "Spent",
    "State",
    "agent",
    "annotate",
    "annotation_context",
    "capture",
    "context_of",
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
    "record_of",
    "request_of",
    "retrieval",
    "settle",
    "span_data",
    "spent_by",
    "state",
    "task",
    "to_plain",
    "tool",
    "without_content",
    "workflow",
    "wrap_context",
]
