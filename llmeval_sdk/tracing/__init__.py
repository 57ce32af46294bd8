"""Spans of the app's own functions: decorators, context, capture.

Tracing knows nothing of queues, evaluators and exporters: a finished span goes to the recorder that
the runtime installs. `__all__` is for apps; the other rooms of the package use `internals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.tracing._context import (
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


if TYPE_CHECKING:
    from llmeval_sdk.tracing._executor import ContextExecutor

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


def __getattr__(name: str) -> object:
    if name == "ContextExecutor":
        from llmeval_sdk.tracing._executor import ContextExecutor

        return ContextExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
