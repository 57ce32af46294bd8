"""Decorators that deliver what an invocation has recorded before it returns."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, overload

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline.runtime import flush
from llmeval_sdk.process.shield import shield
from llmeval_sdk.process.threads import HelperThreads


_Handler = TypeVar("_Handler", bound=Callable[..., Any])

TIMEOUT_SECONDS = 2.0
MARGIN_SECONDS = 0.05
OUTAGE_SECONDS = 0.2
"""How long an invocation waits at most after one whose records could not be delivered in time.

Without it each invocation would last ``timeout`` seconds longer while the far end is down."""


@overload
def lambda_handler(handler: _Handler, /) -> _Handler: ...
@overload
def lambda_handler(
    *, timeout: float = TIMEOUT_SECONDS, margin: float = MARGIN_SECONDS
) -> Callable[[_Handler], _Handler]: ...
def lambda_handler(
    handler: object = None, /, *, timeout: float = TIMEOUT_SECONDS, margin: float = MARGIN_SECONDS
) -> Any:
    """Decorate a handler of AWS Lambda: what it records is judged and delivered before it returns.

    The result or the exception of the handler stays what it is, and nothing is raised. The handler
    is called with an event and a context; where the context does not say how much time is left, as
    in a test, ``timeout`` alone counts. What is not delivered in time waits for the next
    invocation, and `llmeval_sdk.stats` counts it.

    Args:
        handler: the handler, where the decorator is written without parentheses.
        timeout: how many seconds to wait at most. After an invocation whose records could not be
            delivered in time, the next ones wait 0.2 s at most until one succeeds.
        margin: how many seconds of the invocation's time to leave to Lambda itself.

    Raises:
        ConfigurationError: ``timeout`` or ``margin`` is no number of seconds, or what is decorated
            cannot be called or is a generator.

    Examples:
        >>> @lambda_handler
        ... def handler(event, context):
        ...     return {"answer": answer(event["question"])}
    """
    margin = _seconds("margin", margin)

    def limit(args: tuple[object, ...], kwargs: dict[str, Any]) -> float:
        context = args[1] if len(args) > 1 else kwargs.get("context")
        return _time_left(context) - margin

    return _decorated(handler, _Flushing("lambda_handler", timeout), limit)


@overload
def flush_after(function: _Handler, /) -> _Handler: ...
@overload
def flush_after(*, timeout: float = TIMEOUT_SECONDS) -> Callable[[_Handler], _Handler]: ...
def flush_after(function: object = None, /, *, timeout: float = TIMEOUT_SECONDS) -> Any:
    """Decorate any function: what it records is judged and delivered before it returns.

    This is `lambda_handler` for a function that is told nothing of the time it has left: in Azure
    Functions, in Cloud Run, or a short job. While the records of an ``async def`` are delivered,
    its event loop goes on with other requests.

    Args:
        function: the function, where the decorator is written without parentheses.
        timeout: how many seconds to wait at most, as for `lambda_handler`.

    Raises:
        ConfigurationError: ``timeout`` is no number of seconds, or what is decorated cannot be
            called or is a generator.

    Examples:
        >>> @flush_after(timeout=1.0)
        ... async def main(request):
        ...     return await answer(request.params["question"])
    """
    return _decorated(function, _Flushing("flush_after", timeout), lambda *_: math.inf)


class _Flushing:
    """Flushes after each call of one function; remembers whether the last flush came through."""

    def __init__(self, site: str, timeout: float) -> None:
        self.site = site
        self._timeout = _seconds("timeout", timeout)
        self._is_outage = False
        self._helper_threads = HelperThreads(site)

    def flush(self, limit: float) -> None:
        """Deliver what was recorded, for at most ``limit`` seconds."""
        with shield(self.site):
            most = min(self._timeout, OUTAGE_SECONDS) if self._is_outage else self._timeout
            outcome = flush(max(0.0, min(most, limit)))
            # A judge that takes its time is no outage: the time for it is the caller's choice.
            self._is_outage = not outcome.complete and not outcome.pending_judgements

    async def flush_off_the_loop(self, limit: float) -> None:
        """Do the same on another thread, while the event loop goes on."""
        with shield(self.site):
            await self._helper_threads.call_async(self.flush, limit)


def _decorated(
    handler: Any, flushing: _Flushing, limit: Callable[[tuple[Any, ...], dict[str, Any]], float]
) -> Any:
    if handler is None:
        return lambda function: _decorated(_callable(function), flushing, limit)
    handler = _callable(handler)

    @wraps(handler)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return handler(*args, **kwargs)
        finally:
            flushing.flush(limit(args, kwargs))

    @wraps(handler)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            result = await handler(*args, **kwargs)
        except (asyncio.CancelledError, GeneratorExit):  # whoever stops it does not want to wait
            flushing.flush(0.0)
            raise
        except BaseException:
            await flushing.flush_off_the_loop(limit(args, kwargs))
            raise
        await flushing.flush_off_the_loop(limit(args, kwargs))
        return result

    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is ``async def``
    )
    return call_async if is_async else call


def _callable(handler: Any) -> Any:
    if not callable(handler):
        raise ConfigurationError(
            f"a {type(handler).__name__} cannot be decorated: decorate the handler, and name "
            "options by keyword, such as timeout=1.0"
        )
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigurationError(
            f"{handler.__name__} is a generator, which has recorded nothing yet when it is called: "
            "decorate the function that reads it to its end"
        )
    return handler


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigurationError(f"{name}={value!r}: use a number of seconds, 0 or more")
    return float(value)


def _time_left(context: Any) -> float:
    """Return how many seconds the invocation has left; infinite where nothing says it."""
    try:
        left = float(context.get_remaining_time_in_millis()) / 1_000
    except Exception:  # no context of Lambda, as in a test
        return math.inf
    return math.inf if math.isnan(left) else left
