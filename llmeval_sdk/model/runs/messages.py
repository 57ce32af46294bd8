"""Chat messages with tool calls, in the formats that people have, become the steps of a run.

OpenAI's chat messages and the items of its Responses API, Anthropic's and Google's content parts,
the parts of OpenTelemetry's conventions, LangChain's messages (also as LangGraph's state serialises
them), Datadog's, the turns of ShareGPT, and steps as this project writes them. A result is joined
to its call by the call's id; without one, to the oldest call of that tool that has no result yet.
Odd values are read as far as they can be: nothing is raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from llmeval_sdk.model import Step
from llmeval_sdk.model.coerce import to_text


# Definitions of tools, in the forms that people have.

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema")


def definitions_of(tools: Any) -> tuple[Mapping[str, Any], ...] | None:
    """Convert definitions of OpenAI, Anthropic or MCP to ``{name, description, parameters}``."""
    if not isinstance(tools, (list, tuple)):
        return None
    read = []
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
            held = (inner.get(key) for key in _SCHEMAS)
            schema = next((schema for schema in held if isinstance(schema, Mapping)), {})
            about = {"name": inner["name"], "description": inner.get("description") or ""}
            read.append({**about, "parameters": schema})
    return tuple(read) or None


T = TypeVar("T")


MOST_STEPS = 2_000
"""Of a longer run, the first and the last thousand steps are kept, with a note between them."""
_MOST_PARALLEL = 200
"""How far back a result without an id looks for its call."""
_DEEPEST = 4
"""How far parts of messages may hold parts."""
_ROLES = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant",
    "gpt": "assistant", "model": "assistant", "bot": "assistant",
    "system": "system", "developer": "system",
}  # fmt: skip
_RESULT_ROLES = frozenset(("tool", "function", "observation", "ipython"))
_CALL_TYPES = frozenset(("tool_use", "tool_call", "function_call", "server_tool_use", "tool-call"))
_RESULT_TYPES = frozenset((
    "tool_result", "tool_call_response", "function_call_output", "function_response", "tool-result",
))  # fmt: skip


class _CallPart(NamedTuple):
    id: str | None
    name: str
    arguments: Any


class _ResultPart(NamedTuple):
    id: str | None
    name: str | None
    text: str | None
    error: str | None


class _TextPart(NamedTuple):
    role: str
    text: str


def steps_of(messages: Any) -> tuple[Step, ...] | None:
    """Read messages or steps; ``None`` where they are no list, or hold nothing that can be read."""
    if not isinstance(messages, (list, tuple)):
        return None
    steps: list[Step] = []
    waiting: dict[str, int] = {}
    """Where the calls with an id stand that have no result yet."""
    for event in _events(messages):
        if isinstance(event, Step):
            steps.append(event)
        elif isinstance(event, _TextPart):
            steps.append(Step(_role(event.role), event.text))
        elif isinstance(event, _CallPart):
            if event.id is not None:
                waiting[event.id] = len(steps)
            steps.append(Step("tool", None, event.name, event.arguments))
        else:
            at = waiting.pop(event.id, None) if event.id is not None else None
            at = _oldest(steps, event.name) if at is None else at
            if at is None:
                steps.append(Step("tool", None, event.name, None, event.text, event.error))
            else:
                steps[at] = replace(steps[at], result=event.text, error=event.error)
    return bounded(steps) if steps else None


def results_at_end(messages: Sequence[Any]) -> int:
    """Return how many results of tools stand in messages after the last one of the model's."""
    count = 0
    for message in reversed(messages):
        if not isinstance(message, Mapping):
            break
        events = list(_events((message,)))
        role = unwrapped(message).get("role")
        is_model = isinstance(role, str) and _ROLES.get(role.lower()) == "assistant"
        if is_model or any(isinstance(event, _CallPart) for event in events):
            break
        count += sum(isinstance(event, _ResultPart) for event in events)
    return count


def bounded(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return at most `MOST_STEPS` steps of a run; a note stands where others were left out."""
    kept = both_ends(steps, MOST_STEPS)
    left_out = len(steps) - len(kept)
    if not left_out:
        return tuple(steps)
    note = Step("system", f"[left out: {left_out} steps of this run]")
    half = len(kept) // 2
    return (*kept[:half], note, *kept[half:])


def both_ends(items: Sequence[T], most: int) -> Sequence[T]:
    """Return a list as it is, or its first and last ``most / 2`` items; ``most`` is even."""
    half = most // 2
    return items if len(items) <= most else [*items[:half], *items[-half:]]


def is_note_of_a_cut(step: Step) -> bool:
    """Say whether a step stands where others were left out."""
    return step.role == "system" and (step.content or "").startswith("[left out: ")


def _oldest(steps: Sequence[Step], name: str | None) -> int | None:
    """Return the first of the latest calls that has no result yet and may have had this one."""
    best = None
    for at in range(len(steps) - 1, max(len(steps) - _MOST_PARALLEL, 0) - 1, -1):
        step = steps[at]
        if step.role == "tool":
            if step.result is None and step.error is None and name in (None, step.name):
                best = at
        elif best is not None or step.role == "user":
            break
    return best


def _events(messages: Iterable[Any]) -> Iterator[Step | _TextPart | _CallPart | _ResultPart]:
    for message in messages:
        if isinstance(message, Step):
            yield message
        elif isinstance(message, Mapping):
            yield from _of_message(message)


def _of_message(message: Mapping[str, Any]) -> Iterator[Step | _TextPart | _CallPart | _ResultPart]:
    message = unwrapped(message)
    kind = _type(message)
    if kind in _CALL_TYPES or kind in _RESULT_TYPES:
        yield from _of_part(message, "assistant", 0)  # an item of the Responses API
        return
    role = message.get("role") or message.get("from") or kind
    role = role.lower() if isinstance(role, str) else ""
    content = _content(message)
    if role == "tool" and not {"arguments", "result"}.isdisjoint(message):
        yield _own_step(message)
    elif role in _RESULT_ROLES:
        is_error = message.get("status") == "error"
        text = _text(content)
        if _parts(content) and any(_is_response(part) for part in content):
            yield from _of_parts(content, role, 0)
        else:
            yield _result(message, text, is_error=is_error)
    elif role == "function_call":  # of ShareGPT
        yield _call_of_text(content)
    else:
        yield from _of_turn(role, content, message)


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message itself, without the object in which a library wraps it.

    OpenInference has it under ``message``; LangChain writes ``{"type": "ai", "data": {...}}``, or
    ``{"lc": 1, "id": [..., "AIMessage"], "kwargs": {...}}``.
    """
    inner = message.get("message")
    if isinstance(inner, Mapping):
        return inner
    if "content" in message or "role" in message:
        return message
    inner = message.get("data", message.get("kwargs"))
    if not isinstance(inner, Mapping):
        return message
    path = message.get("id")
    name = path[-1] if isinstance(path, (list, tuple)) and path else message.get("type")
    kind = str(name).removesuffix("Chunk").removesuffix("Message").lower()
    return {"type": kind, **inner}


def _content(message: Mapping[str, Any]) -> Any:
    """Return what a message says: a text, or parts.

    OpenInference has parts under ``contents``, each in a ``message_content``. It lists the calls
    among them once more under ``tool_calls``, so only the texts are taken.
    """
    content = message.get("content", message.get("parts", message.get("value")))
    parts = message.get("contents")
    if content is not None or not isinstance(parts, (list, tuple)):
        return content
    held = (part.get("message_content") for part in parts if isinstance(part, Mapping))
    texts = (part.get("text") for part in held if isinstance(part, Mapping))
    return [{"type": "text", "text": text} for text in texts if isinstance(text, str)]


def _of_turn(role: str, content: Any, message: Mapping[str, Any]) -> Iterator[Any]:
    """Read what somebody said, and the calls of it."""
    if isinstance(content, str):
        if content.strip():
            yield _TextPart(role, content)
    else:
        yield from _of_parts(content, role, 0)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping):
            yield _call(call.get("tool_call", call))
    if isinstance(message.get("function_call"), Mapping):
        yield _call(message["function_call"])
    results = message.get("tool_results")
    for result in results if isinstance(results, (list, tuple)) else ():
        if isinstance(result, Mapping):
            yield _result(result, _text(result.get("result")), is_error=False)


def _of_parts(content: Any, role: str, depth: int) -> Iterator[Any]:
    texts: list[str] = []
    for part in content if isinstance(content, (list, tuple)) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and (_is_call(part) or _is_response(part)):
            if texts:
                yield _TextPart(role, "\n".join(texts))
                texts = []
            yield from _of_part(part, role, depth + 1)
        elif is_blob(part):
            continue
        elif isinstance(part, Mapping) and isinstance(part.get("text", part.get("content")), str):
            texts.append(part.get("text", part.get("content")))
    if any(text.strip() for text in texts):
        yield _TextPart(role, "\n".join(texts))


def is_blob(part: Any) -> bool:
    """Say whether a part of OpenTelemetry's conventions holds an image, sound or file itself."""
    return isinstance(part, Mapping) and part.get("type") == "blob" and "content" in part


def _type(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _is_call(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        _type(part) in _CALL_TYPES or "functionCall" in part or "function_call" in part
    )


def _is_response(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        _type(part) in _RESULT_TYPES or "functionResponse" in part or "function_response" in part
    )


def _of_part(part: Mapping[str, Any], role: str, depth: int) -> Iterator[Any]:
    if depth > _DEEPEST:
        return
    wrapped = part.get("functionCall", part.get("function_call"))
    if isinstance(wrapped, Mapping):
        yield _call(wrapped)
        return
    wrapped = part.get("functionResponse", part.get("function_response"))
    if isinstance(wrapped, Mapping):
        yield _result(wrapped, _text(wrapped.get("response")), is_error=False)
        return
    if _type(part) in _CALL_TYPES:
        yield _call(part)
        return
    keys = ("content", "response", "result", "output")
    held = next((part[key] for key in keys if part.get(key) is not None), None)
    yield _result(part, _text(held), is_error=bool(part.get("is_error")))


def _call(call: Any) -> _CallPart:
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function")
    about = function if isinstance(function, Mapping) else call
    keys = ("arguments", "args", "input", "parameters")
    arguments: Any = next((about[key] for key in keys if about.get(key) is not None), {})
    name = about.get("name", about.get("tool_name"))
    return _CallPart(_id(call), str(name or "tool")[:200], _arguments_of(arguments))


def _call_of_text(content: Any) -> _CallPart:
    try:
        return _call(json.loads(content))
    except (TypeError, ValueError, RecursionError):
        return _CallPart(None, "tool", content)


def _arguments_of(value: Any) -> Any:
    """Read the arguments of a call: the object that a text of JSON holds, else what is there."""
    if isinstance(value, str):
        try:
            read = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return value
        return read if isinstance(read, dict) else value
    return dict(value) if isinstance(value, Mapping) else value


def _result(part: Mapping[str, Any], text: str | None, *, is_error: bool) -> _ResultPart:
    name = part.get("name", part.get("tool_name"))
    error = (text or "error")[:500] if is_error else part.get("error")
    shown = None if error in (None, False, "") else str(error)[:500]
    return _ResultPart(_id(part), name if isinstance(name, str) else None, text or "", shown)


def _id(part: Mapping[str, Any]) -> str | None:
    keys = ("tool_call_id", "tool_use_id", "call_id", "tool_id", "id", "tool_call_name")
    number = next((part[key] for key in keys if isinstance(part.get(key), (str, int))), None)
    return None if number is None or number == "" else str(number)


def _own_step(message: Mapping[str, Any]) -> Step:
    """Read a step as this project writes it."""
    result, error, effect = (message.get(key) for key in ("result", "error", "effect"))
    times = [message.get(key) for key in ("start_ns", "end_ns")]
    start, end = (time if isinstance(time, int) else None for time in times)
    return Step(
        "tool",
        None,
        str(message.get("name") or "tool")[:200],
        _arguments_of(message.get("arguments")),
        _text(result),
        str(error)[:500] if error else None,
        effect if effect in ("read", "write") else None,
        start,
        end,
    )


def _parts(content: Any) -> bool:
    return isinstance(content, (list, tuple)) and bool(content)


def _text(value: Any) -> str | None:
    """Write what a tool returned as text: the texts of its parts, else JSON."""
    if isinstance(value, str) and value.startswith(_PARTS_AS_JSON):
        return _text_of_json(value)
    if _parts(value):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return "\n".join(texts)
    return to_text(value)


_PARTS_AS_JSON = ('[{"type": "text"', '[{"type":"text"')
"""How parts begin that OpenInference wrote as JSON, because it has no place for them."""


def _text_of_json(value: str) -> str:
    try:
        parts = json.loads(value)
    except (ValueError, RecursionError):
        return value
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(texts) else value


def _role(role: str) -> Any:
    return _ROLES.get(role, "user" if not role else "assistant")


# The run that one model call shows: the messages that it was asked with, and its answer.


def read_call(
    messages: Any, response: Any, tools: Any
) -> tuple[tuple[Step, ...] | None, tuple[Mapping[str, Any], ...] | None]:
    """Read the run that a model call shows: its messages and its answer, and the tools offered.

    The steps are ``None`` where no tool was called.
    """
    answer = _answer_of(response)
    steps = steps_of([*messages, *answer]) or ()
    called = any(step.role == "tool" for step in steps)
    return (steps if called else None), definitions_of(tools)


def _answer_of(response: Any) -> list[Any]:
    """Return the messages of a model's answer: a text, or the response of a model's client."""
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    if isinstance(response, (list, tuple)):
        return list(response)
    if not isinstance(response, Mapping):
        return []
    for key in ("choices", "candidates", "output"):  # OpenAI, Google, OpenAI's Responses API
        held = response.get(key)
        if isinstance(held, (list, tuple)) and held and isinstance(held[0], Mapping):
            if key == "output":
                return list(held)
            inner = held[0].get("message", held[0].get("content"))
            return [inner] if isinstance(inner, Mapping) else []
    return [{"role": "assistant", **response}]
