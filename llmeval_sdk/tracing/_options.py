"""The options of the span functions, for the overloads that type checkers read.

The functions themselves repeat them as real parameters, so that `help` and editors show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class SpanOptions(TypedDict, total=False):
    """The options that every kind of span has."""

    evaluators: Sequence[Any]
    session_id: str | None
    user_id: str | None
    tags: Mapping[str, str] | None
    request: Any
    metadata: Mapping[str, Any] | None


class ModelOptions(SpanOptions, total=False):
    """The options of a span around a model call: those of every span, and the model's."""

    model_name: str | None
    model_provider: str | None
    name: str | None
    model: str | None
