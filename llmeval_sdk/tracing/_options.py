"""The options that the functions for all kinds of span have in common, as type checkers see them.

An overload names them once. The functions themselves have real parameters, for `help` and editors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class SpanOptions(TypedDict, total=False):
    """The options of every kind of span."""

    evaluators: Sequence[Any]
    session_id: str | None
    user_id: str | None
    tags: Mapping[str, str] | None
    request: Any
    metadata: Mapping[str, Any] | None


class ModelOptions(SpanOptions, total=False):
    """The options of a call of a model."""

    model_name: str | None
    model_provider: str | None
    name: str | None
    model: str | None
