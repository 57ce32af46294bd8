"""Describes an exception that left a span, without running any code of the app."""

from __future__ import annotations

from llmeval_sdk.model import Failure
from llmeval_sdk.tracing._capture import capture, name_of


_CANCELLED = ("CancelledError", "Cancelled", "GeneratorExit")
"""What asyncio and trio throw into a task that is cancelled, and Python into a generator that is
closed, as when a user closes the tab. The app did nothing wrong, so the span has no error."""


def failure_of(error: BaseException) -> Failure | None:
    """Describe an exception; ``None`` for what was stopped on purpose."""
    if not isinstance(error, Exception) and type(error).__name__ in _CANCELLED:
        return None
    return Failure(name_of(type(error)), _first_text(error))


_args_of = BaseException.__dict__["args"].__get__


def _first_text(error: BaseException) -> str:
    """Read an exception's message from its arguments: its own ``__str__`` is the app's code."""
    args = _args_of(error)
    return str(capture(args[0]))[:2_000] if args else ""
