"""Traces the calls of one client of OpenAI, without patching the library."""

from __future__ import annotations

from functools import wraps
from typing import Any, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.instrument import _datadog
from llmeval_sdk.plugins.instrument._libraries import check, library


Client = TypeVar("Client")
_COPIES = ("copy", "with_options")
"""Methods that return a further client."""


def wrap_openai(client: Client) -> Client:
    """Trace, score and price each call of this client: chat completions, responses, embeddings.

    Streams, ``parse`` and the clients that ``with_options`` makes are traced too. The client itself
    is changed and returned; wrapping it again changes nothing. Where `instrument` has patched the
    library as well, a call is still counted once.

    Args:
        client: An ``OpenAI``, ``AsyncOpenAI`` or Azure client.

    Raises:
        TypeError: It is no client of OpenAI.
        ConfigurationError: The client has a version that cannot be instrumented.
        MissingExtraError: What instruments it is not installed; the message says what to install.

    Examples:
        >>> client = llmeval.wrap_openai(OpenAI())  # doctest: +SKIP
    """
    versions = check(library("openai"))
    import openai

    if not isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
        raise TypeError(f"wrap_openai() takes a client of openai, not {type(client).__name__}")
    if not hasattr(client.request, "llmeval_wrapped"):
        try:
            _wrap(client, _tracing_call(openai, is_async=isinstance(client, openai.AsyncOpenAI)))
        except (ImportError, AttributeError, TypeError) as error:
            raise ConfigurationError(f"wrap_openai() cannot use {versions}: {error}") from error
    return client


def _wrap(client: Any, call: Any) -> None:
    """Put a client's own methods in the place of those of its class."""
    request = client.request

    @wraps(request)
    def traced(*args: Any, **options: Any) -> Any:
        return call(request, client, args, options)

    traced.llmeval_wrapped = True  # type: ignore[attr-defined]
    client.request = traced
    for name in _COPIES:
        setattr(client, name, _wrapping(getattr(client, name)))


def _wrapping(copy: Any) -> Any:
    @wraps(copy)
    def copied(*args: Any, **options: Any) -> Any:
        return wrap_openai(copy(*args, **options))

    return copied


def _tracing_call(openai: Any, *, is_async: bool) -> Any:
    from openinference.instrumentation import OITracer, TraceConfig
    from openinference.instrumentation.openai import _request

    from llmeval_sdk.plugins.instrument._provider import GatedProvider

    provider = GatedProvider(lambda: not _datadog.sees("openai"))
    tracer: Any = OITracer(provider.get_tracer(_request.__name__), config=TraceConfig())
    kind = _request._AsyncRequest if is_async else _request._Request
    return kind(tracer=tracer, openai=openai)
