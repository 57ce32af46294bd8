"""The one reader of what a chat said: messages, the question, the answer, the steps of a run.

Everybody who has to know what stands in messages asks this module, so that scores, judges, pages
and exports read the same. It knows OpenAI's chat messages and the items of its Responses API,
Anthropic's and Google's content parts, the parts of OpenTelemetry's conventions, LangChain's
messages (also as LangGraph's state serialises them), Datadog's, the turns of ShareGPT, and steps as
this project writes them. Odd values are read as far as they can be, and nothing is raised.

=======================  ===========================================================================
function                 what it returns
=======================  ===========================================================================
`messages_of`            the messages of a request, as they were written
`messages_of_turns`      the messages of turns that hold what both sides said
`completion_messages`    the messages of a response of a model's client
`unwrapped`              a message without the object in which a library wraps it
`role_of`, `content_of`  who wrote a message, and its content: a text or parts
`text_of`                the text of a content
`question`               the last message of the user's; `split_request` adds the turns before it
`to_text`, `is_answer`   the text of an answer, and whether it answers anything
`parts_without_text`     how many images, sounds and the like a chat has, by type
`steps_of`               messages and tool calls as `Step`; `definitions_of` reads the tools offered
=======================  ===========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

from llmeval_sdk.model import Request, Step
from llmeval_sdk.process.pieces import json_text, read_json
from llmeval_sdk.process.shield import is_ours


T = TypeVar("T")
Role = Literal["user", "assistant", "system", "tool"]

_ROLES: dict[str, Role] = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant",
    "gpt": "assistant", "model": "assistant", "bot": "assistant",
    "system": "system", "developer": "system",
}  # fmt: skip
_RESULT_ROLES = frozenset(("tool", "function", "observation", "ipython"))
_CALL_TYPES = frozenset(("tool_use", "tool_call", "function_call", "server_tool_use", "tool-call"))
_RESULT_TYPES = frozenset((
    "tool_result", "tool_call_response", "function_call_output", "function_response", "tool-result",
))  # fmt: skip


# The messages of a request and of an answer, as they were written.

_MESSAGE_KEYS = ("contents", "input")
"""Where a request, or the arguments of a function, may have messages that are not ``messages``."""
_TURN_KEYS = ("history", "conversation")
"""Where it may have the turns before the question."""
_QUESTION_KEYS = (
    "query", "question", "message", "user_message", "user_input", "prompt", "input",
)  # fmt: skip
"""Where it may have the question that follows these turns."""


def messages_of(value: object) -> list[object] | None:
    """Return the messages of a chat as they were written; ``None`` for what is no chat.

    A chat is a list of messages, or a mapping that has them under ``messages``, which an app may
    also call ``contents``, ``input``, ``conversation`` or ``history``. A question beside a history
    or a conversation, such as ``{"history": [...], "message": "..."}``, is its last message.
    """
    if isinstance(value, (list, tuple)):
        return list(value) if _is_chat(value) else None
    if not isinstance(value, Mapping):
        return None
    messages = value.get("messages")
    if isinstance(messages, (list, tuple)) and messages:
        return list(messages)
    for name in _MESSAGE_KEYS:
        if _is_chat(value.get(name)):
            return list(value[name])
    turns = next((value[name] for name in _TURN_KEYS if name in value), None)
    for name in _QUESTION_KEYS:
        asked = value.get(name)
        if name in value and (name == "query" or (turns is not None and isinstance(asked, str))):
            return [*map(_as_message, _turns_of(turns)), {"role": "user", "content": asked}]
    return list(turns) if isinstance(turns, (list, tuple)) and _is_chat(turns) else None


def _is_chat(value: object) -> bool:
    """Say whether a value is a list of messages, by its last item."""
    return isinstance(value, (list, tuple)) and bool(value) and _is_message(value[-1])


_SIDES = {"user": "user", "request": "user", "assistant": "assistant", "response": "assistant"}
"""The keys of a turn that holds what both sides said, and who said it."""


def messages_of_turns(turns: object) -> list[object]:
    """Return the messages of turns such as ``{"user": …, "assistant": …}``, other items unchanged.

    A data set may have a conversation in this form; what is no list has no messages.
    """
    messages: list[object] = []
    for turn in turns if isinstance(turns, (list, tuple)) else ():
        sides = _SIDES.items() if isinstance(turn, Mapping) else ()
        both = [{"role": role, "content": turn[key]} for key, role in sides if turn.get(key)]
        messages += both or [turn]
    return messages


def _turns_of(turns: object) -> Iterable[object]:
    if isinstance(turns, str):
        return (turns,)
    return turns if isinstance(turns, Iterable) and not isinstance(turns, Mapping) else ()


def _as_message(turn: object) -> Mapping[str, object]:
    """Write a turn as a message; it may be a pair of role and text, or a text of the user's."""
    if isinstance(turn, Mapping):
        return turn
    if isinstance(turn, (list, tuple)) and len(turn) == 2:
        return {"role": str(turn[0]), "content": turn[1]}
    return {"role": "user", "content": turn}


def _is_message(value: object) -> bool:
    """Say whether an item of a list is a message: it names who wrote it, or what it is.

    Other data have a ``type`` or a ``from`` too, such as an invoice or a mail.
    """
    if not isinstance(value, Mapping):
        return False
    if "role" in value or unwrapped(value) is not value:
        return True
    kind = value.get("type", value.get("from"))
    if isinstance(kind, str) and _is_kind(kind.lower()):
        return True
    content = value.get("content")
    return isinstance(content, (list, tuple)) and bool(content) and all(map(_is_part, content))


def _is_kind(kind: str) -> bool:
    """Say whether a word is the role of a message, or the type of an item of a chat."""
    return (
        kind.removesuffix("chunk").removesuffix("message") in _ROLES  # LangChain's AIMessageChunk
        or kind in _RESULT_ROLES
        or kind in ("message", "reasoning", "item_reference")
        or kind in _RESULT_TYPES
        or kind in _CALL_TYPES
        or kind.endswith(("_call", "_call_output", "_approval_request", "_approval_response"))
    )


def unwrapped(message: Mapping[str, object]) -> Mapping[str, object]:
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


def role_of(message: Mapping[str, object]) -> str:
    """Return who wrote a message, in the word of its format and in lower case."""
    role = message.get("role") or message.get("from") or message.get("type")
    return role.lower() if isinstance(role, str) else ""


def content_of(message: Mapping[str, object]) -> object:
    """Return the content of a message: a text, or parts.

    OpenInference has parts under ``contents``, each in a ``message_content``. It lists the calls
    among them once more under ``tool_calls``, so only the texts are taken.
    """
    content = message.get("content", message.get("parts", message.get("value")))
    parts = message.get("contents")
    if content is not None or not isinstance(parts, (list, tuple)):
        return content
    texts = (_text_of_part(part) for part in parts)
    return [{"type": "text", "text": text} for text in texts if text is not None]


def text_of(content: object) -> str | None:
    """Return the text of a content, in which each part has a line; ``None`` if it has no text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text_of_part(content)
    if not isinstance(content, (list, tuple)):
        return None
    texts = [text for part in content if (text := _text_of_part(part)) is not None]
    return "\n".join(texts) if texts else None


def _text_of_part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or is_blob(part):
        return None
    inner = part.get("message_content")
    part = inner if isinstance(inner, Mapping) else part
    texts = (part.get(name) for name in ("text", "content"))
    return next((text for text in texts if isinstance(text, str)), None)


def is_blob(part: object) -> bool:
    """Say whether a part of OpenTelemetry's conventions holds an image, sound or file itself."""
    return isinstance(part, Mapping) and part.get("type") == "blob" and "content" in part


def parts_without_text(request: object) -> dict[str, int]:
    """Count the parts of a chat that are no text, such as ``image_url``, by their type."""
    counts: dict[str, int] = {}
    for message in messages_of(request) or ():
        content = content_of(message) if isinstance(message, Mapping) else None
        for part in content if isinstance(content, (list, tuple)) else ():
            if isinstance(part, Mapping) and _text_of_part(part) is None:
                kind = str(part.get("type", "part"))[:40]
                counts[kind] = counts.get(kind, 0) + 1
    return counts


def _answer_messages(response: object) -> list[object]:
    """Return the messages of an answer: a text, messages, or the response of a model's client."""
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    if isinstance(response, (list, tuple)):
        return list(response)
    if not isinstance(response, Mapping):
        return []
    messages = completion_messages(response)
    if messages is None:
        return [{"role": "assistant", **response}]
    return messages if "output" in response else messages[:1]  # the other choices are no answer


def completion_messages(value: object) -> list[object] | None:
    """Return the messages of a response of a model's client, with all of its choices.

    ``None`` for anything else. The clients are OpenAI's, Google's and that of OpenAI's Responses.
    """
    if not isinstance(value, Mapping):
        return None
    for key in ("choices", "candidates", "output"):
        items = value.get(key)
        if isinstance(items, (list, tuple)) and items and isinstance(items[0], Mapping):
            if key == "output":
                return list(items)
            inners = (_message_of_choice(item) for item in items if isinstance(item, Mapping))
            return [inner for inner in inners if inner is not None]
    return None


def _message_of_choice(choice: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the message of one answer of a completion, or the part of one that was streamed."""
    inners = (choice.get(name) for name in ("message", "delta", "content"))
    return next((inner for inner in inners if isinstance(inner, Mapping)), None)


# The question: the last message of the user's.


def split_request(request: Request | None) -> tuple[str, list[tuple[str, str]]]:
    """Split a request into the last user message and the earlier turns, as ``(role, text)``.

    It may be a string or a chat; see `messages_of`. Anything else is a question as a whole.
    """
    if request is None or isinstance(request, str):
        return request or "", []
    messages = messages_of(request)
    if messages is None:
        return as_text(request), []
    turns = [_turn(message) for message in messages]
    users = [position for position, (role, _) in enumerate(turns) if role == "user"]
    last = users[-1] if users else len(turns) - 1
    return turns[last][1], turns[:last]


def question(request: object) -> str | None:
    """Return the last user message as `split_request` does, without reading the turns before it.

    ``None`` for a mapping that is no chat, such as the arguments of a function.
    """
    if request is None or isinstance(request, str):
        return request or ""
    messages = messages_of(request)
    if messages is None:
        return None
    for message in reversed(messages):
        role, text = _turn(message)
        if role == "user":
            return text
    return _turn(messages[-1])[1]


MAX_QUESTION = 2_000
"""Characters, from the end: a pasted document usually stands before what is asked of it."""


def bounded_question(request: object) -> str:
    """Return the end of what was asked, for a score; ``""`` for what no chat can be read from."""
    try:
        return (question(request) or "")[-MAX_QUESTION:]
    except Exception as error:
        if not is_ours(error):
            raise
        return ""  # a mapping of another library's, or one that holds itself


def _turn(message: object) -> tuple[str, str]:
    """Return who wrote a message, and its text, in which a part that is no text has a mark."""
    message = unwrapped(_as_message(message))
    role, content = role_of(message) or "user", content_of(message)
    role = _ROLES.get(role, role)
    if not isinstance(content, (list, tuple)):
        return role, "" if content is None else text_of(content) or as_text(content)
    if content and all(map(_is_response, content)):
        role = "tool"  # Anthropic and Google send the results of tools in the user's name
    return role, "\n".join(map(_text_or_mark, content))


def _text_or_mark(part: object) -> str:
    text = _text_of_part(part)
    if text is None:
        return f"[{part.get('type', 'part')}]" if isinstance(part, Mapping) else as_text(part)
    return text


def as_text(value: object) -> str:
    """Write any captured value as text: a string as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json_text(_ENCODER, value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


# The answer: its text, and whether it answers anything.


def to_text(value: object) -> str | None:
    """Read a response: text as it is, the text of a message or completion, the rest as JSON."""
    if value is None or type(value) is str:
        return value
    text = _text_of_answer(value) if type(value) is dict else None
    return as_text(value) if text is None else text


def to_answer(value: object) -> str | None:
    """Read a response as `to_text` does; what is there and answers nothing is an empty text."""
    if value is None or type(value) is str:
        return value
    return to_text(value) if is_answer(value) else ""


_ANSWER_KEYS = ("content", "text", "output_text", "refusal", "parts")
"""Where a message, or a mapping that an app returns, has its text."""


def _text_of_answer(value: Mapping[str, object]) -> str | None:
    """Return the text of a message, of a completion or of a mapping with a text of its own."""
    is_response = value.get("object") == "response"
    if "choices" in value or "candidates" in value or is_response:
        messages = [item for item in _answer_messages(value) if isinstance(item, Mapping)]
        texts = [text for item in messages if (text := _text_of_message(item)) is not None]
        if texts:
            return "\n".join(texts)
        choices = value.get("choices")
        if isinstance(choices, (list, tuple)) and choices and isinstance(choices[0], Mapping):
            value = choices[0]  # of a completion that is no chat: it has its text here
    return _text_of_message(value)


def _text_of_message(message: Mapping[str, object]) -> str | None:
    for name in _ANSWER_KEYS:
        content = message.get(name)
        if isinstance(content, str):
            return content
        if isinstance(content, (list, tuple)) and content and all(map(_is_part, content)):
            return text_of(content)
    return None


def _is_part(value: object) -> bool:
    """Say whether an item of a content is a part of a message, by its type or as Google has it."""
    return isinstance(value, Mapping) and ("type" in value or value.keys() <= {"text", "thought"})


def last_message(value: object) -> str | None:
    """Return the text of the last message of a chat; ``None`` where there is no message."""
    if isinstance(value, str):
        return value
    messages = messages_of(value)
    if messages is None:
        return _text_of_answer(value) if isinstance(value, Mapping) else None
    last = messages[-1]
    return text_of(content_of(unwrapped(last))) if isinstance(last, Mapping) else text_of(last)


_TEXT_KEYS = ("content", "text", "output_text", "parts")
"""Where a message, or a part of one, has its text."""
_ACTION_KEYS = (
    "tool_calls", "function_call", "functionCall", "refusal", "audio", "additional_kwargs",
)  # fmt: skip
"""Where a message may have something that is an answer too, in place of a text."""
_ANSWERING_ROLES = ("assistant", "model", "ai")
"""Who answers, as a message's role or type says."""
_SILENT = ("text", "output_text", "reasoning", "thinking", "redacted_thinking")
"""The types of parts of a message that are no answer without a text of their own."""
_ABOUT_VALUE = frozenset(("value", "chunk_number", "confidence", "evidence"))
"""The fields of an extraction: without its value, the others answer nothing."""
_MAX_PARTS, _MAX_DEPTH = 10_000, 20
"""A value with more parts, or deeper, is taken for an answer without being read further."""


def is_answer(value: object) -> bool:
    """Say whether a response or an extracted value answers anything.

    ``None``, NaN, a text of white space, an empty list or mapping, one that holds nothing else, an
    extraction without a value and a message or chat completion that says nothing do not. Tool
    calls and a refusal do, and so do ``False`` and 0. Raises nothing but what a signal handler did.
    """
    if type(value) is str:  # the common case, on the app's thread
        return bool(value) and not value.isspace()
    if value is None:
        return False
    try:
        return _is_full(value, [_MAX_PARTS], _MAX_DEPTH)
    except Exception as error:
        if not is_ours(error):
            raise
        return True  # an object of the app that raises is something, and not nothing


def _is_full(value: object, room: list[int], depth: int) -> bool:  # noqa: PLR0911
    room[0] -= 1
    if room[0] < 0 or not depth:
        return True
    if isinstance(value, str):
        return bool(value.strip())
    if value is None:
        return False
    if isinstance(value, float):
        return value == value  # noqa: PLR0124 - NaN is not
    if isinstance(value, Mapping):
        return _holds_answer(value, room, depth - 1)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_is_full(item, room, depth - 1) for item in value)
    return type(value).__name__ not in ("NAType", "NaTType")


def _holds_answer(value: Mapping[object, object], room: list[int], depth: int) -> bool:
    """Say whether a mapping has an answer: a message, a completion, an extraction or any other."""
    for wrapper in ("choices", "candidates"):
        choices = value.get(wrapper)
        if isinstance(choices, (list, tuple)):
            return any(_is_choice_full(choice, room, depth) for choice in choices)
    output = value.get("output")
    if value.get("object") == "response" and isinstance(output, (list, tuple)):
        return any(_is_full(item, room, depth) for item in output)
    kind = value.get("type")
    is_part = isinstance(kind, str) and (kind in _SILENT or kind in ("message", *_ANSWERING_ROLES))
    if is_part or value.get("role") in _ANSWERING_ROLES:
        return any(_is_full(value.get(name), room, depth) for name in (*_TEXT_KEYS, *_ACTION_KEYS))
    if "value" in value and _ABOUT_VALUE.issuperset(value):
        return _is_full(value["value"], room, depth)
    return any(_is_full(item, room, depth) for item in value.values())


def _is_choice_full(choice: object, room: list[int], depth: int) -> bool:
    """Say whether one of the answers of a completion says anything."""
    if not isinstance(choice, Mapping):
        return _is_full(choice, room, depth)
    inner = _message_of_choice(choice) or choice
    return any(_is_full(inner.get(name), room, depth) for name in (*_TEXT_KEYS, *_ACTION_KEYS))


# Definitions of tools, in the forms that people have.

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema")


Tool = Mapping[str, Any]
"""The definition of a tool: ``name``, ``description`` and ``parameters``, a JSON schema."""


def definitions_of(tools: object) -> tuple[Tool, ...] | None:
    """Convert definitions of OpenAI, Anthropic or MCP to ``{name, description, parameters}``."""
    if not isinstance(tools, (list, tuple)):
        return None
    read = []
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
            schemas = (inner.get(key) for key in _SCHEMAS)
            schema = next((schema for schema in schemas if isinstance(schema, Mapping)), {})
            about = {"name": inner["name"], "description": inner.get("description") or ""}
            read.append({**about, "parameters": schema})
    return tuple(read) or None


MAX_STEPS = 2_000
"""Of a longer run, the first and the last thousand steps are kept, with a note between them."""
_MAX_PARALLEL = 200
"""How far back a result without an id looks for its call."""
_MAX_PART_DEPTH = 4
"""How far parts of messages may hold parts."""


class _CallPart(NamedTuple):
    id: str | None
    name: str
    arguments: object


class _ResultPart(NamedTuple):
    id: str | None
    name: str | None
    text: str | None
    error: str | None


class _TextPart(NamedTuple):
    role: str
    text: str


_Event = Step | _TextPart | _CallPart | _ResultPart


def steps_of(messages: object) -> tuple[Step, ...] | None:
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


def results_at_end(messages: Sequence[object]) -> int:
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
    """Return at most `MAX_STEPS` steps of a run; a note stands where others were left out."""
    kept = both_ends(steps, MAX_STEPS)
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
    for at in range(len(steps) - 1, max(len(steps) - _MAX_PARALLEL, 0) - 1, -1):
        step = steps[at]
        if step.role == "tool":
            if step.result is None and step.error is None and name in (None, step.name):
                best = at
        elif best is not None or step.role == "user":
            break
    return best


def _events(messages: Iterable[object]) -> Iterator[_Event]:
    for message in messages:
        if isinstance(message, Step):
            yield message
        elif isinstance(message, Mapping):
            yield from _of_message(message)


def _of_message(message: Mapping[str, object]) -> Iterator[_Event]:
    message = unwrapped(message)
    kind = _type(message)
    if kind in _CALL_TYPES or kind in _RESULT_TYPES:
        yield from _of_part(message, "assistant", 0)  # an item of the Responses API
        return
    role, content = role_of(message), content_of(message)
    if role == "tool" and not {"arguments", "result"}.isdisjoint(message):
        yield _own_step(message)
    elif role in _RESULT_ROLES:
        is_error = message.get("status") == "error"
        text = _text(content)
        if isinstance(content, (list, tuple)) and any(map(_is_response, content)):
            yield from _of_parts(content, role, 0)
        else:
            yield _result(message, text, is_error=is_error)
    elif role == "function_call":  # of ShareGPT
        yield _call_of_text(content)
    else:
        yield from _of_turn(role, content, message)


def _of_turn(role: str, content: object, message: Mapping[str, object]) -> Iterator[_Event]:
    """Read the text of a message, and the calls and results that it holds."""
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


def _of_parts(content: object, role: str, depth: int) -> Iterator[_Event]:
    texts: list[str] = []
    for part in content if isinstance(content, (list, tuple)) else ():
        if isinstance(part, Mapping) and (_is_call(part) or _is_response(part)):
            if texts:
                yield _TextPart(role, "\n".join(texts))
                texts = []
            yield from _of_part(part, role, depth + 1)
        elif (text := _text_of_part(part)) is not None:
            texts.append(text)
    if any(text.strip() for text in texts):
        yield _TextPart(role, "\n".join(texts))


def _type(part: Mapping[str, object]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and (
        _type(part) in _CALL_TYPES or "functionCall" in part or "function_call" in part
    )


def _is_response(part: object) -> bool:
    return isinstance(part, Mapping) and (
        _type(part) in _RESULT_TYPES or "functionResponse" in part or "function_response" in part
    )


def _of_part(part: Mapping[str, object], role: str, depth: int) -> Iterator[_Event]:
    if depth > _MAX_PART_DEPTH:
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
    result = next((part[key] for key in keys if part.get(key) is not None), None)
    yield _result(part, _text(result), is_error=bool(part.get("is_error")))


def _call(given: object) -> _CallPart:
    call: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    function = call.get("function")
    about = function if isinstance(function, Mapping) else call
    keys = ("arguments", "args", "input", "parameters")
    arguments: object = next((about[key] for key in keys if about.get(key) is not None), {})
    name = about.get("name", about.get("tool_name"))
    return _CallPart(_id(call), str(name or "tool")[:200], _arguments_of(arguments))


def _call_of_text(content: object) -> _CallPart:
    try:
        return _call(read_json(content) if isinstance(content, str) else content)
    except (ValueError, RecursionError):
        return _CallPart(None, "tool", content)


def _arguments_of(value: object) -> object:
    """Read the arguments of a call: the object that a text of JSON holds, else what is there."""
    if isinstance(value, str):
        try:
            read = read_json(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return value
        return read if isinstance(read, dict) else value
    return dict(value) if isinstance(value, Mapping) else value


def _result(part: Mapping[str, object], text: str | None, *, is_error: bool) -> _ResultPart:
    name = part.get("name", part.get("tool_name"))
    error = (text or "error")[:500] if is_error else part.get("error")
    shown = None if error in (None, False, "") else str(error)[:500]
    return _ResultPart(_id(part), name if isinstance(name, str) else None, text or "", shown)


def _id(part: Mapping[str, object]) -> str | None:
    keys = ("tool_call_id", "tool_use_id", "call_id", "tool_id", "id", "tool_call_name")
    number = next((part[key] for key in keys if isinstance(part.get(key), (str, int))), None)
    return None if number is None or number == "" else str(number)


def _own_step(message: Mapping[str, object]) -> Step:
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


def _text(value: object) -> str | None:
    """Write what a tool returned as text: the texts of its parts, else JSON."""
    if isinstance(value, str) and value.startswith(_PARTS_AS_JSON):
        return _text_of_json(value)
    return _text_of_all(value) or to_text(value)


def _text_of_all(parts: object) -> str | None:
    """Join the texts of parts; ``None`` where one of them is no text."""
    if not isinstance(parts, (list, tuple)) or not parts:
        return None
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(texts) else None


_PARTS_AS_JSON = ('[{"type": "text"', '[{"type":"text"')
"""How parts begin that OpenInference wrote as JSON, because it has no place for them."""


def _text_of_json(value: str) -> str:
    try:
        return _text_of_all(read_json(value)) or value
    except (ValueError, RecursionError):
        return value


def _role(role: str) -> Role:
    return _ROLES.get(role, "user" if not role else "assistant")


# The run that one model call shows: the messages that it was asked with, and its answer.


def read_call(
    messages: Sequence[object], response: object, tools: object
) -> tuple[tuple[Step, ...] | None, tuple[Mapping[str, object], ...] | None]:
    """Read the run that a model call shows: its messages and its answer, and the tools offered.

    The steps are ``None`` where no tool was called.
    """
    answer = _answer_messages(response)
    steps = steps_of([*messages, *answer]) or ()
    called = any(step.role == "tool" for step in steps)
    return (steps if called else None), definitions_of(tools)
