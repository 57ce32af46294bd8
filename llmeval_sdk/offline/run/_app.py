"""The app under evaluation: called for a row, under tracing, so that its spans become inputs."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation.resolve import load
from llmeval_sdk.model import Failure, Record, Usage
from llmeval_sdk.model.chat import split_request
from llmeval_sdk.model.coerce import to_answer, to_usage
from llmeval_sdk.offline.data.record import absent, record_from
from llmeval_sdk.offline.run.experiment import Trail, with_ids
from llmeval_sdk.process.helper_threads import HelperThreads
from llmeval_sdk.tracing import Span


Open = Callable[[Record], AbstractContextManager[tuple[Span, Trail]]]
"""Opens the span of a row; what happens below it is kept in the trail."""


class App:
    """Calls ``model=``: plain function or coroutine function, generator or not.

    It gets the row's request as it is, as the function behind a decorator gets it online. A
    function whose only parameter is named for chat requests (`CHAT_PARAMETERS`) gets a text as
    ``{"messages": [{"role": "user", "content": …}]}``, and one that calls it ``messages`` gets that
    list; of ``{query, history}``, the history and then the query.

    It returns the response: a text, a chat completion, an iterator of texts, or a mapping of
    columns (``response``, ``retrieved_context``, ``abstained`` …).
    """

    def __init__(self, function: Callable[[Any], Any], open_span: Open) -> None:
        self._function = function
        self._open = open_span
        self._aside = HelperThreads("model=")
        self._is_async = _returns_awaitable(function)
        self._form = _form_of(function)

    async def answer(self, record: Record) -> Record | Failure:
        """Return the row with what the app made of it, or what it raised."""
        trail: Trail | None = None
        try:
            with self._open(record) as (span, trail):
                result = _plain(await self._call(self._form(record.request)))
                result = None if absent(result) else result
                columns = _columns(result)
                span.annotate(response=columns.get("response") if columns is result else result)
            joined = _joined(record, columns, trail, span)
            return joined if joined.usage else replace(joined, usage=_usage(result))
        except DataError as error:
            return Failure("DataError", str(error))
        except Exception as error:
            return Failure(type(error).__name__, f"{str(error)[:2_000]} ({_place(error)})")

    async def _call(self, request: Any) -> Any:
        if self._is_async:
            result = self._function(request)
            if inspect.isasyncgen(result):
                return "".join([str(part) async for part in result])
            return await result
        result = await self._aside.call_async(_call_plainly, self._function, request)
        return await result if inspect.isawaitable(result) else result


CHAT_PARAMETERS = ("messages", "model_input", "chat_request")
"""Names of a parameter that say that a function takes a chat request, as agents do that were
written for a server. So does an annotation that is a mapping."""


def _form_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes the argument of a function of a row's request, by its signature."""
    try:
        signature = _signature_of(function)
    except (TypeError, ValueError):  # a builtin without one
        return _as_it_is
    parameter = next(iter(signature.parameters.values()), None)
    if parameter is None:
        return _as_it_is
    if parameter.name == "messages":
        return _messages
    is_chat = _takes_mappings(parameter.annotation) or parameter.name in CHAT_PARAMETERS
    return _chat if is_chat else _as_it_is


def _takes_mappings(annotation: Any) -> bool:
    """Return whether an annotation is that of a mapping, one that may be ``None`` too."""
    kind = get_origin(annotation) or annotation
    if kind is Annotated:
        return _takes_mappings(annotation.__origin__)
    if kind in (Union, UnionType):
        kinds = [each for each in get_args(annotation) if each is not type(None)]
        return bool(kinds) and all(map(_takes_mappings, kinds))
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _signature_of(function: Callable[[Any], Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # an annotation that names what is only there for type checkers
        return inspect.signature(function)


def _as_it_is(request: Any) -> Any:
    return request


def _chat(request: Any) -> Any:
    if not isinstance(request, str):
        return request
    return {"messages": [{"role": "user", "content": request}]}


def _messages(request: Any) -> Any:
    """Return the messages of a chat request; those of a query follow its history."""
    chat = _chat(request)
    if not isinstance(chat, Mapping) or "messages" in chat:
        return chat.get("messages") if isinstance(chat, Mapping) else chat
    if "query" not in chat:
        return chat
    query, history = split_request(chat)
    turns = chat.get("history")
    if not isinstance(turns, (list, tuple)) or not all(isinstance(each, Mapping) for each in turns):
        turns = [{"role": role, "content": text} for role, text in history]
    return [*turns, {"role": "user", "content": query}]


def _place(error: BaseException) -> str:
    """Say where something was raised: ``app.py:12``."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(raised.filename).name}:{raised.lineno}"


def function_of(model: Callable[[Any], Any] | str) -> Callable[[Any], Any]:
    """Return what ``model=`` names, before the first row is read.

    Raises:
        ConfigurationError: it cannot be loaded, or cannot be called with one request.
    """
    function: Any
    if isinstance(model, str):
        find_modules_here()
        function, name = load(model), repr(model)
    else:
        function, name = model, type(model).__name__
    if not callable(function):
        raise ConfigurationError(
            f"model: {name} is not a function: pass one that takes a request and returns the "
            "response, or its address such as 'my_app:answer'"
        )
    try:
        inspect.signature(function).bind("request")
    except TypeError as error:
        raise ConfigurationError(
            f"model: {name} is called with one argument, the request: {error}"
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    checked: Callable[[Any], Any] = function
    return checked


def _returns_awaitable(function: Any) -> bool:
    call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    plain = inspect.unwrap(call) if callable(call) else call
    return any(
        test(each)
        for each in (call, plain)
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


def _call_plainly(function: Callable[[Any], Any], request: Any) -> Any:
    result = function(request)
    return "".join(map(str, result)) if inspect.isgenerator(result) else result


def _columns(result: Any) -> Mapping[str, Any]:
    """Return the columns that an app answered with; any other answer is the response."""
    if isinstance(result, Mapping) and not {"response", "abstained"}.isdisjoint(result):
        return result
    return {} if result is None else {"response": to_answer(result)}


def _plain(result: Any) -> Any:
    """Turn a chat completion of the openai client into the mapping that it is."""
    return result.model_dump() if hasattr(result, "model_dump") else result


def _usage(result: Any) -> Usage | None:
    """Read the tokens that a chat completion tells, for an app that traces no call of its model."""
    return to_usage(result.get("usage")) if isinstance(result, Mapping) else None


def _joined(record: Record, columns: Mapping[str, Any], trail: Trail, span: Span) -> Record:
    """Complete a row with what its trace says; what the app returned has precedence."""
    returned = record_from(columns, place="what the model returned") if columns else Record()
    names = [name for name in RETURNED if getattr(returned, name) is not None]
    if "value" not in columns and "value" in names:
        names.remove("value")  # it is only the response again
    said = {name: getattr(returned, name) for name in names}
    earlier = {"response": None, "abstained": None}  # the data may hold the answers of another run
    fields = {**earlier, "value": returned.response, **trail.fields(span), **said}
    return with_ids(replace(record, **fields), span)


RETURNED = (
    "response", "retrieved_context", "extractions", "value", "confidence", "field_config",
    "retrieval", "usage", "abstained",
)  # fmt: skip


def find_modules_here() -> None:
    """Let addresses name modules of the current folder, as ``python -m`` does.

    For commands and offline runs only: the import path of an app in production is its own.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
