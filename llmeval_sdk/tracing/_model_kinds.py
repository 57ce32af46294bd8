"""The kinds of span around a call of a model: ``llm`` and ``embedding``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from llmeval_sdk.model import SpanKind
from llmeval_sdk.tracing._scope import Scope, decorated_or_scope


if TYPE_CHECKING:
    from typing_extensions import Unpack

    from llmeval_sdk.tracing._options import ModelOptions

P = ParamSpec("P")
R = TypeVar("R")


@overload
def llm(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def llm(model_or_name: str | None = None, /, **options: Unpack[ModelOptions]) -> Scope: ...
def llm(
    model_or_name: Any = None,
    /,
    *,
    model_name: str | None = None,
    model_provider: str | None = None,
    name: str | None = None,
    model: str | None = None,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Trace one call of a language model.

    A response in the form of a known client (OpenAI, Anthropic …) also gives the token counts; else
    annotate them as ``metrics``.

    Args:
        model_or_name: The model's name, as in ddtrace; beside ``model_name`` it is the span's name.
            As a bare decorator (``@llm``), this argument is the function.
        model_name: The model's name, which prices and token counts go by.
        model_provider: Who serves the model, such as ``openai``.
        name: The span's name; by default that of the decorated function.
        model: Another name for ``model_name``.
        evaluators: Evaluators to run on the span: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: The messages or the prompt. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.llm(model_name="gpt-4o-mini", model_provider="openai")
        ... def complete(prompt: str) -> str:
        ...     return "Slate."
        >>> with llmeval.llm("gpt-4o-mini", request="What is the roof made of?") as span:
        ...     span.response = complete("What is the roof made of?")
        ...     span.annotate(metrics={"input_tokens": 12, "output_tokens": 2})
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return _model_span("llm", model_or_name, name, model_name or model, model_provider, options)


@overload
def embedding(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def embedding(model_or_name: str | None = None, /, **options: Unpack[ModelOptions]) -> Scope: ...
def embedding(
    model_or_name: Any = None,
    /,
    *,
    model_name: str | None = None,
    model_provider: str | None = None,
    name: str | None = None,
    model: str | None = None,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Trace a call of a model that turns texts into vectors.

    Like ``llm``, it knows the model's name; its texts are the request.

    Args:
        model_or_name: The model's name, as in ddtrace; beside ``model_name`` it is the span's name.
            As a bare decorator (``@embedding``), this argument is the function.
        model_name: The model's name, which prices and token counts go by.
        model_provider: Who serves the model, such as ``openai``.
        name: The span's name; by default that of the decorated function.
        model: Another name for ``model_name``.
        evaluators: Evaluators to run on the span: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: The texts. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.embedding(model_name="text-embedding-3-small", model_provider="openai")
        ... def embed(texts: list[str]) -> list[list[float]]:
        ...     return [[0.1, 0.2] for text in texts]
        >>> embed(["slate"])
        [[0.1, 0.2]]
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return _model_span(
        "embedding", model_or_name, name, model_name or model, model_provider, options
    )


def _model_span(  # noqa: PLR0917 - the two functions above name every argument
    kind: SpanKind,
    model_or_name: Any,
    name: str | None,
    model_name: str | None,
    model_provider: str | None,
    options: tuple[Any, ...],
) -> Any:
    """Tell whether the first argument is a function, the model's name or the span's name."""
    target: Any = name
    if isinstance(model_or_name, str) and model_name is None:
        model_name = model_or_name
    elif model_or_name is not None:
        target = model_or_name
    return decorated_or_scope(kind, target, *options, model_name, model_provider)
