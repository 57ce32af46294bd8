"""The kinds of span that run the app's own code; `_model_kinds` has ``llm`` and ``embedding``.

Each is a function with real parameters and a docstring of its own, so that `help` and editors can
show them. All do the same: see `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from llmeval_sdk.model.records import EFFECT_TAG
from llmeval_sdk.tracing._scope import Scope, decorated_or_scope


if TYPE_CHECKING:
    from typing_extensions import Unpack

    from llmeval_sdk.tracing._options import SpanOptions

P = ParamSpec("P")
R = TypeVar("R")


@overload
def workflow(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def workflow(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def workflow(
    name: Any = None,
    *,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
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
    name: Any = None,
    *,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
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
    name: Any = None,
    *,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
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
    name: Any = None,
    *,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
    effect: Literal["read", "write"] | None = None,
) -> Any:
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
        tags = {**(tags or {}), EFFECT_TAG: effect}
    options = (evaluators, session_id, user_id, tags, request, metadata)
    return decorated_or_scope("tool", name, *options)


@overload
def agent(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(name: str | None = None, **options: Unpack[SpanOptions]) -> Scope: ...
def agent(
    name: Any = None,
    *,
    evaluators: Sequence[Any] = (),
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    request: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
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
