"""The decorators and ``with`` blocks, one function for each kind of span.

Each has real parameters and a docstring of its own, so that `help` and editors can show them. All
make a `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, overload

from llmeval_sdk.model import SpanKind
from llmeval_sdk.model.records import EFFECT_TAG
from llmeval_sdk.tracing._scope import Scope, decorated_or_scope, labels


if TYPE_CHECKING:
    from typing_extensions import Unpack


P = ParamSpec("P")
R = TypeVar("R")


@overload
def workflow(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def workflow(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def workflow(
    name: object = None,
    *,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
) -> object:
    """Trace one request to the app, from the question to the answer.

    Everything that runs inside becomes part of its trace, and the finished workflow is what
    evaluators score. It works on plain functions, coroutines, generators and async generators, and
    never raises into them.

    Args:
        name: The span's name; by default that of the decorated function. As a bare decorator
            (``@workflow``), this argument is the function.
        evaluators: Evaluators to run on the span beside the built-in heuristics: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: What was asked. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.workflow
        ... def answer(question: str) -> str:
        ...     return "Slate."
        >>> answer("What is the roof made of?")
        'Slate.'
        >>> with llmeval.workflow("answer", request="What is the roof made of?") as span:
        ...     span.response = "Slate."
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("workflow", name, *options)


@overload
def task(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def task(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def task(
    name: object = None,
    *,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
) -> object:
    """Trace one step of a request that has no kind of its own, such as parsing or formatting.

    The step becomes a span below the active one. Evaluators run on it only where ``evaluators``
    names some.

    Args:
        name: The span's name; by default that of the decorated function. As a bare decorator
            (``@task``), this argument is the function.
        evaluators: Evaluators to run on the span: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: What it works on. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.task
        ... def normalised(question: str) -> str:
        ...     return question.strip().casefold()
        >>> normalised(" Slate? ")
        'slate?'
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("task", name, *options)


@overload
def retrieval(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def retrieval(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def retrieval(
    name: object = None,
    *,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
) -> Any:
    """Trace a search; the passages that it returns become the request's retrieved context.

    A passage is a text, a mapping with ``content`` or ``text``, a `Chunk`, or a document of a
    retrieval library; they stand in rank order. In a ``with`` block, assign them to
    ``span.retrieved_context``.

    Args:
        name: The span's name; by default that of the decorated function. As a bare decorator
            (``@retrieval``), this argument is the function.
        evaluators: Evaluators to run on the span: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: What was searched for. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.retrieval
        ... def search(question: str) -> list[dict]:
        ...     return [{"content": "The roof is slate.", "doc_uri": "survey.pdf", "score": 0.9}]
        >>> chunks = search("What is the roof made of?")
        >>> with llmeval.retrieval("search", request="What is the roof made of?") as span:
        ...     span.retrieved_context = chunks
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("retrieval", name, *options)


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    name: str | None = None,
    *,
    effect: Literal["read", "write"] | None = ...,
    **options: Unpack[SpanOptions],
) -> Scope: ...
def tool(
    name: object = None,
    *,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
    effect: Literal["read", "write"] | None = None,
) -> object:
    """Trace a call of a tool, usually one that a model asked for.

    The arguments and the result are captured as the span's request and response.

    Args:
        name: The span's name; by default that of the decorated function. As a bare decorator
            (``@tool``), this argument is the function.
        evaluators: Evaluators to run on the span: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: What the tool was called with. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.
        effect: ``write`` if the tool changes something, ``read`` if it does not. The scores of an
            agent's run need to know; by default they guess it from the tool's name.

    Examples:
        >>> @llmeval.tool(name="calculator")
        ... def add(left: float, right: float) -> float:
        ...     return left + right
        >>> add(1, 2)
        3
    """
    if effect is not None:
        tags = {**(labels(tags) or {}), EFFECT_TAG: effect}
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("tool", name, *options)


@overload
def agent(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def agent(
    name: object = None,
    *,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
) -> object:
    """Trace a run of an agent: a loop in which a model decides what happens next.

    Like a workflow, a finished agent is scored by evaluators, with what happened inside it.

    Args:
        name: The span's name; by default that of the decorated function. As a bare decorator
            (``@agent``), this argument is the function.
        evaluators: Evaluators to run on the span beside the built-in heuristics: names or objects.
        session_id: The session or conversation; the spans below it belong to it, too.
        user_id: The app's user; kept as a tag.
        tags: Labels to filter by.
        request: The agent's task. Only for a ``with`` block: a decorated
            function's arguments are captured.
        metadata: Anything else worth keeping. Only for a ``with`` block.

    Examples:
        >>> @llmeval.agent
        ... def surveyor(question: str) -> str:
        ...     with llmeval.tool("look_up", request=question) as call:
        ...         call.response = "slate"
        ...     return "The roof is slate."
        >>> surveyor("What is the roof made of?")
        'The roof is slate.'
    """
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("agent", name, *options)


# The kinds of span around a call of a model: ``llm`` and ``embedding``.


@overload
def llm(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def llm(model_or_name: str | None = None, /, **options: Unpack[ModelOptions]) -> Scope: ...
def llm(
    model_or_name: object = None,
    /,
    *,
    model_name: str | None = None,
    model_provider: str | None = None,
    name: str | None = None,
    model: str | None = None,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
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
    return _model_span("llm", model_or_name, name, model, model_name, model_provider, options)


@overload
def embedding(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def embedding(model_or_name: str | None = None, /, **options: Unpack[ModelOptions]) -> Scope: ...
def embedding(
    model_or_name: object = None,
    /,
    *,
    model_name: str | None = None,
    model_provider: str | None = None,
    name: str | None = None,
    model: str | None = None,
    evaluators: Sequence[object] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: object = None,
    metadata: Mapping[str, object] | None = None,
) -> object:
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
    return _model_span("embedding", model_or_name, name, model, model_name, model_provider, options)


def _model_span(  # noqa: PLR0917 - the two functions above name every argument
    kind: SpanKind,
    model_or_name: object,
    name: str | None,
    model: str | None,
    model_name: str | None,
    model_provider: str | None,
    options: tuple[object, ...],
) -> object:
    """Tell whether the first argument is a function, the model's name or the span's name."""
    target: object = name
    model_name = model if model_name is None else model_name
    if isinstance(model_or_name, str) and model_name is None:
        model_name = model_or_name
    elif model_or_name is not None:
        target = model_or_name
    return decorated_or_scope(kind, target, *options, model_name, model_provider)


# The options of the functions above, for the overloads that type checkers read.


class SpanOptions(TypedDict, total=False):
    """The options that every kind of span has."""

    evaluators: Sequence[object]
    session_id: str | None
    user_id: str | None
    tags: Mapping[str, str] | None
    request: object
    metadata: Mapping[str, Any] | None


class ModelOptions(SpanOptions, total=False):
    """The options of a span around a model call: those of every span, and the model's."""

    model_name: str | None
    model_provider: str | None
    name: str | None
    model: str | None
