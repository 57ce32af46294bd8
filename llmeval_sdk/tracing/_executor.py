"""A thread pool that keeps the active span; apart, as its base costs an import of 8 ms."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar


P = ParamSpec("P")
R = TypeVar("R")


class ContextExecutor(ThreadPoolExecutor):
    """A thread pool whose tasks see the span that was active when they were submitted."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Schedule a call in a copy of the caller's context."""
        call: Any = copy_context().run
        return super().submit(call, fn, *args, **kwargs)
