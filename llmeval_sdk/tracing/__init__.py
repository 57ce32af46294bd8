"""Spans of the app's own functions: decorators, context, capture.

Tracing knows nothing of queues, evaluators and exporters: a finished span goes to the recorder that
the runtime installs. `__all__` is for apps; the other rooms of the package use `internals`.
"""

# Both take locks before each fork and release them after it. They are loaded here, since a fork
# that waits while the worker loads them would release what it never took.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401

from llmeval_sdk.process.loading import watch_forks
from llmeval_sdk.tracing._context import (
    ContextExecutor,
    annotate,
    annotation_context,
    current_span,
    disabled,
    export_span,
    extract,
    inject,
    wrap_context,
)
from llmeval_sdk.tracing._decorators import agent, embedding, llm, retrieval, task, tool, workflow
from llmeval_sdk.tracing._span import Span


watch_forks()

__all__ = [
    "ContextExecutor",
    "Span",
    "agent",
    "annotate",
    "annotation_context",
    "current_span",
    "disabled",
    "embedding",
    "export_span",
    "extract",
    "inject",
    "llm",
    "retrieval",
    "task",
    "tool",
    "workflow",
    "wrap_context",
]
