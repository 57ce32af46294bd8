"""What span attributes say, in the dialects of those who write them.

OpenTelemetry's generative AI conventions (old and new names), OpenInference, Traceloop, Logfire and
MLflow. Each reading takes the first dialect that has an answer; odd values read as nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk.model import Chunk, Failure, SpanKind, Usage
from llmeval_sdk.model.chat import definitions_of, text_of, unwrapped
from llmeval_sdk.model.fields import note_kinds, to_chunks, to_details, to_usage
from llmeval_sdk.process.pieces import read_json
from llmeval_sdk.tracing.foreign import messages
from llmeval_sdk.tracing.internals import capture


Attributes = Mapping[str, Any]

_PREFIXES = ("gen_ai.", "openinference.", "traceloop.", "mlflow.", "llm.", "pydantic_ai.")
_KINDS: tuple[tuple[str, dict[str, SpanKind]], ...] = (
    (
        "openinference.span.kind",
        {
            "chain": "workflow", "agent": "agent", "llm": "llm", "retriever": "retrieval",
            "reranker": "retrieval", "tool": "tool", "embedding": "embedding",
        },
    ),
    (
        "gen_ai.operation.name",
        {
            "chat": "llm", "generate_content": "llm", "text_completion": "llm",
            "embeddings": "embedding", "retrieval": "retrieval", "execute_tool": "tool",
            "invoke_agent": "agent", "invoke_workflow": "workflow",
        },
    ),
    (
        "traceloop.span.kind",
        {
            "workflow": "workflow", "task": "task", "agent": "agent", "tool": "tool",
            "retrieval": "retrieval",
        },
    ),
    (
        "mlflow.spanType",
        {
            "chain": "workflow", "workflow": "workflow", "agent": "agent", "llm": "llm",
            "chat_model": "llm", "retriever": "retrieval", "reranker": "retrieval", "tool": "tool",
            "embedding": "embedding", "task": "task",
        },
    ),
    ("llm.request.type", {"chat": "llm", "completion": "llm", "embedding": "embedding"}),
)  # fmt: skip
CONVENTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "OpenTelemetry": {
        "messages asked": ("gen_ai.input.messages", "gen_ai.prompt"),
        "messages answered": ("gen_ai.output.messages", "gen_ai.completion"),
        "documents": ("gen_ai.retrieval.documents",),
        "model": ("gen_ai.response.model", "gen_ai.request.model"),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "session": ("session.id", "gen_ai.conversation.id"),
        "user": ("user.id", "enduser.id"),
        "agent": ("gen_ai.agent.name",),
        "tool": ("gen_ai.tool.name",),
        "tool arguments": ("gen_ai.tool.call.arguments",),
        "tool result": ("gen_ai.tool.call.result",),
        "input tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "total tokens": ("gen_ai.usage.total_tokens",),
    },
    "OpenInference": {
        "flattened asked": ("llm.input_messages",),
        "flattened answered": ("llm.output_messages",),
        "input": ("input.value",),
        "output": ("output.value",),
        "options": ("llm.invocation_parameters", "embedding.invocation_parameters"),
        "model": ("llm.model_name", "embedding.model_name"),
        "provider": ("llm.provider", "llm.system"),
        "agent": ("agent.name",),
        "tool": ("tool.name",),
        "tool arguments": ("input.value",),
        "tool result": ("output.value",),
        "input tokens": ("llm.token_count.prompt",),
        "output tokens": ("llm.token_count.completion",),
        "total tokens": ("llm.token_count.total",),
    },
    "Traceloop": {
        "flattened asked": ("gen_ai.prompt",),
        "flattened answered": ("gen_ai.completion",),
        "input": ("traceloop.entity.input",),
        "output": ("traceloop.entity.output",),
        "session": ("traceloop.association.properties.session_id",),
        "user": ("traceloop.association.properties.user_id",),
        "agent": ("traceloop.association.properties.lc_agent_name",),
        "tool": ("traceloop.entity.name",),
        "tool arguments": ("traceloop.entity.input",),
        "tool result": ("traceloop.entity.output",),
        "input tokens": ("llm.usage.prompt_tokens",),
        "output tokens": ("llm.usage.completion_tokens",),
        "total tokens": ("llm.usage.total_tokens",),
    },
    "MLflow": {
        "input": ("mlflow.spanInputs",),
        "output": ("mlflow.spanOutputs",),
        "model": ("mlflow.llm.model",),
        "provider": ("mlflow.llm.provider",),
        "session": ("mlflow.trace.session",),
        "user": ("mlflow.trace.user",),
        "tool arguments": ("mlflow.spanInputs",),
        "tool result": ("mlflow.spanOutputs",),
    },
    "Logfire": {
        "messages asked": ("pydantic_ai.all_messages",),
        "messages answered": ("pydantic_ai.all_messages",),
        "input": ("request_data",),
        "output": ("final_result", "response_data"),
        "agent": ("agent_name",),
        "tool": ("tool_name",),
        "tool arguments": ("tool_arguments",),
        "tool result": ("tool_response",),
    },
    "Langfuse": {"user": ("langfuse.user.id",)},
}
"""Which attributes say what, by who writes them; the first that is there counts."""
NAMES: Mapping[str, tuple[str, ...]] = {
    what: tuple(name for table in CONVENTIONS.values() for name in table.get(what, ()))
    for what in {what: None for table in CONVENTIONS.values() for what in table}
}
_STEPS = ("mlflow.spanType", "openinference.span.kind", "traceloop.span.kind")
"""Attributes that every step of an app has, whatever word stands in them."""
_UNSCORED = frozenset(("evaluator", "guardrail", "judge"))


def may_matter(attributes: Attributes) -> bool:
    """Say cheaply whether a span speaks of models at all; runs on the app's thread."""
    return any(key.startswith(_PREFIXES) or key == "request_data" for key in attributes)


def kind_of(attributes: Attributes) -> SpanKind | None:  # noqa: PLR0911
    """Return which of our kinds a span is; ``None`` for others, and for evaluators' own spans."""
    for name, kinds in _KINDS:
        word = attributes.get(name)
        if isinstance(word, str):
            word = word.strip('"').lower()
            if word in _UNSCORED:
                return None
            if word in kinds:
                return kinds[word]
    if any(isinstance(attributes.get(name), str) for name in _STEPS):
        return "task"  # of a kind that the app or its library made up
    if "pydantic_ai.all_messages" in attributes or "all_messages_events" in attributes:
        return "agent"
    if "gen_ai.tool.name" in attributes:
        return "tool"
    if "gen_ai.request.model" in attributes or _is_chat(parsed(attributes.get("request_data"))):
        return "llm"
    return None


def request_of(attributes: Attributes) -> Any:
    """Return what was asked: messages where there are any, else a text or plain values."""
    for name in NAMES["messages asked"]:
        chat = messages.chat(parsed(attributes.get(name)))
        if chat is not None:
            return _with_system(chat, attributes)
    for prefix in NAMES["flattened asked"]:
        chat = messages.chat(_indexed(attributes, prefix))
        if chat is not None and any(turn["content"] for turn in chat["messages"]):
            return chat  # OpenInference may know of a message nothing but who wrote it
    for name in NAMES["input"]:
        value = parsed(attributes.get(name))
        if value is not None and not messages.resumes(value):
            return messages.chat(value) or messages.question(value)
    return None


def texts_of(attributes: Attributes) -> object:
    """Return the texts that were embedded, or the whole request if it does not name them."""
    items = _indexed(attributes, "embedding.embeddings")
    vectors = (item.get("embedding") for item in items if isinstance(item, dict))
    texts = [vector.get("text") for vector in vectors if isinstance(vector, dict)]
    known = [text for text in texts if isinstance(text, str)]
    return known if len(known) > 1 else known[0] if known else request_of(attributes)


def response_of(attributes: Attributes) -> object:
    """Return what was answered: the text of the answer where it can be found."""
    for name in NAMES["messages answered"]:
        text = messages.answer(parsed(attributes.get(name)))
        if text is not None:
            return text
    for prefix in NAMES["flattened answered"]:
        text = messages.answer(_indexed(attributes, prefix))
        if text is not None:
            return text
    for name in NAMES["output"]:
        value = parsed(attributes.get(name))
        if value is not None:
            text = messages.answer(value)
            return text if text is not None or messages.is_bare(value) else value
    return None


def conversation_of(attributes: Attributes) -> tuple[Any, ...]:
    """Return the messages of a model call as they were written, its answer with them."""
    for asked, answered in (
        ("gen_ai.input.messages", "gen_ai.output.messages"),
        ("pydantic_ai.all_messages", ""),
        ("gen_ai.prompt", "gen_ai.completion"),
        ("input.value", "output.value"),
        ("mlflow.spanInputs", "mlflow.spanOutputs"),
        ("request_data", "response_data"),
    ):
        turns = messages.listed(parsed(attributes.get(asked)))
        if turns:
            return (*turns, *messages.listed(parsed(attributes.get(answered))))
        if asked == "pydantic_ai.all_messages":  # the flattened dialects come before what is raw
            turns = _indexed(attributes, "llm.input_messages") or _indexed(
                attributes, "gen_ai.prompt"
            )
            if turns:
                answer = _indexed(attributes, "llm.output_messages")
                return (*turns, *(answer or _indexed(attributes, "gen_ai.completion")))
    return ()


def chunks_of(attributes: Attributes) -> tuple[Chunk, ...] | None:
    """Return the documents that a retrieval found."""
    documents = [
        _document(item.get("document", item))
        for item in _indexed(attributes, "retrieval.documents")
        if isinstance(item, dict)
    ]
    for name in ("gen_ai.retrieval.documents", "mlflow.spanOutputs", "output.value"):
        if documents:
            break
        value = parsed(attributes.get(name))
        if isinstance(value, (list, dict)) and not messages.is_bare(value):
            documents = list(to_chunks(capture(value)) or ())
    return tuple(chunk for chunk in documents if chunk is not None) or None


def model_of(attributes: Attributes) -> tuple[str | None, str | None]:
    """Return the model's name and provider."""
    model = first(attributes, *NAMES["model"]) or _model_asked_for(attributes)
    provider = first(attributes, *NAMES["provider"])
    return _word(model), _word(provider)


def _model_asked_for(attributes: Attributes) -> object:
    """Return the model that a call asked for.

    If the call failed, OpenInference names its model nowhere but in the call's options.
    """
    options = parsed(first(attributes, *NAMES["options"]))
    return options.get("model") if isinstance(options, dict) else None


def session_of(attributes: Attributes) -> str | None:
    """Return the conversation a span belongs to."""
    session = first(attributes, *NAMES["session"])
    return str(session) if session else None


def tags_of(attributes: Attributes) -> dict[str, str]:
    """Return a span's labels, with its user as ``user_id``, as our own spans name it.

    OpenInference's ``tag.tags`` is a list of words; ``team:roofs`` is the label ``team``.
    """
    words = attributes.get("tag.tags")
    tags = labels(words if isinstance(words, (list, tuple)) else ())
    user = first(attributes, *NAMES["user"])
    return {**tags, "user_id": str(user)} if user else tags


MAX_LABELS = 100


def labels(words: Sequence[object]) -> dict[str, str]:
    """Read words such as ``team:roofs``; one without a value is ``true``."""
    pairs = (str(word)[:1_000].partition(":") for word in words[:MAX_LABELS])
    return {name: value if colon else "true" for name, colon, value in pairs if name}


def metadata_of(attributes: Attributes) -> dict[str, object]:
    """Return what the app noted on a span of OpenInference."""
    metadata = capture(parsed(attributes.get("metadata")))
    return metadata if isinstance(metadata, dict) else {}


def parsed(value: object) -> Any:
    """Read JSON where a text looks like it, since most dialects write structure as text."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] not in ("{", "[", '"'):
        return value or None
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return value


def _indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Read a list of mappings that was flattened into ``prefix.0.key`` attributes."""
    items: dict[int, dict[str, Any]] = {}
    for place, path, value in _below(attributes, f"{prefix}."):
        where = items.setdefault(place, {})
        for key in path[:-1]:
            inner = where.setdefault(key, {})
            where = inner if isinstance(inner, dict) else {}
        where[path[-1]] = value
    return [_with_lists(items[place]) for place in sorted(items)]


def _with_lists(value: object) -> Any:
    """Turn mappings by number, which were lists before they were flattened, into lists again."""
    if not isinstance(value, dict):
        return value
    items = {key: _with_lists(held) for key, held in value.items()}
    if items and all(key.isdecimal() for key in items):
        return [items[key] for key in sorted(items, key=int)]
    return items


def _below(attributes: Attributes, prefix: str) -> Iterator[tuple[int, list[str], object]]:
    for key, value in attributes.items():
        if key.startswith(prefix):
            place, dot, rest = key[len(prefix) :].partition(".")
            if dot and place.isdecimal():
                yield int(place), rest.split("."), value


def _document(document: object) -> Chunk | None:
    if not isinstance(document, dict):
        return None
    document = {**document, "metadata": parsed(document.get("metadata"))}
    found = to_chunks(capture([document]))
    return found[0] if found else None


def _with_system(chat: dict[str, Any], attributes: Attributes) -> dict[str, object]:
    instructions = text_of(parsed(attributes.get("gen_ai.system_instructions")))
    if instructions:
        chat["messages"].insert(0, {"role": "system", "content": instructions})
    return chat


def _is_chat(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("messages"), list)


def _word(value: object) -> str | None:
    return str(parsed(value)) if value else None


def first(attributes: Attributes, *names: str) -> Any:
    """Return the first of some attributes that is there."""
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


# Tools: a call, the tools offered, and the agent that they belong to.
#
# LangChain serialises a tool's arguments and result in several ways, which are taken apart here.


_HANDOFF = re.compile(r"handoff to (.+)", re.DOTALL)
_MAX_LITERAL = 20_000
"""Characters of a Python literal that is read; a longer one stays text."""
_MESSAGE = re.compile(
    r"content=(?P<quote>['\"])(?P<text>.*?)(?P=quote) (?:name|tool_call_id)=", re.DOTALL
)
"""How LangChain prints the message of a tool."""


class ToolResult(NamedTuple):
    """What a tool returned, and how it failed where its result says so."""

    result: object
    error: Failure | None = None


def name_of(attributes: Attributes, span_name: str) -> str:
    """Return the name of the tool that a span ran."""
    told = next((attributes[name] for name in NAMES["tool"] if attributes.get(name)), None)
    if told is not None:
        return str(told)[:200]
    handoff = _HANDOFF.fullmatch(span_name)
    if handoff is not None:  # the OpenAI Agents SDK offers it to the model under this name
        return "transfer_to_" + re.sub(r"\W", "_", handoff[1].lower())[:180]
    return span_name.removeprefix("execute_tool ").removesuffix(".tool")[:200]


def arguments_of(attributes: Attributes, span_name: str) -> object:
    """Return what a tool was called with, by name; a text where that is no object."""
    if _HANDOFF.fullmatch(span_name):
        return None  # its input is the agent that hands over
    return arguments_in(_first(attributes, NAMES["tool arguments"]))


def arguments_in(value: object) -> object:
    """Take the arguments of a tool out of what LangChain or Traceloop wraps them in."""
    if isinstance(value, str):
        return _literal(value)
    if isinstance(value, Mapping) and "input_str" in value:
        inputs = value.get("inputs")
        return dict(inputs) if isinstance(inputs, Mapping) else _literal(value["input_str"])
    if isinstance(value, Mapping) and value.keys() == {"args", "kwargs"}:  # Traceloop's decorator
        return value["kwargs"] if value["kwargs"] or not value["args"] else {"args": value["args"]}
    return value


def result_of(attributes: Attributes) -> ToolResult:
    """Return what a tool returned."""
    return result_in(_first(attributes, NAMES["tool result"]))


def result_in(value: object) -> ToolResult:
    """Take what a tool returned out of LangChain's messages and Traceloop's wrapping."""
    if isinstance(value, Mapping) and value.keys() <= {"output", "kwargs"} and "output" in value:
        value = parsed(value["output"])
    if isinstance(value, str):
        printed = _MESSAGE.match(value)
        return ToolResult(value if printed is None else printed["text"])
    if not isinstance(value, Mapping) or not {"data", "kwargs", "tool_call_id"} & value.keys():
        return ToolResult(value)
    message = unwrapped(value)
    if "tool_call_id" not in message:
        return ToolResult(value)
    text = text_of(message.get("content"))
    is_error = message.get("status") == "error"
    return ToolResult(text, Failure("error", (text or "")[:2_000]) if is_error else None)


def definitions(attributes: Attributes) -> tuple[Mapping[str, object], ...] | None:
    """Return the tools that a model or an agent was offered."""
    offered = parsed(attributes.get("gen_ai.tool.definitions"))
    if not isinstance(offered, list):
        told = (item.get("tool") for item in _indexed(attributes, "llm.tools"))
        schemas = (one.get("json_schema") for one in told if isinstance(one, Mapping))
        offered = [parsed(schema) for schema in schemas]
    for name in ("llm.invocation_parameters", "mlflow.spanInputs", "model_request_parameters"):
        if offered:
            break
        holder = parsed(attributes.get(name))
        offered = holder.get("tools") or () if isinstance(holder, Mapping) else ()
    return definitions_of(list(offered) if isinstance(offered, Iterable) else None)


def agent_of(attributes: Attributes) -> str | None:
    """Return the name of the agent that a span belongs to."""
    told = _first(attributes, NAMES["agent"])
    if told is None:
        about = parsed(attributes.get("metadata"))
        told = about.get("lc_agent_name") if isinstance(about, Mapping) else None
    return str(told)[:200] if told else None


def _first(attributes: Attributes, names: Iterable[str]) -> object:
    values = (parsed(attributes.get(name)) for name in names)
    return next((value for value in values if value is not None), None)


def _literal(text: object) -> object:
    """Read the arguments that LangChain prints as Python does; the text itself otherwise."""
    if not isinstance(text, str) or not text.startswith("{") or len(text) > _MAX_LITERAL:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


# What span attributes say of the tokens that a model call used; see `conventions`.


_LAST_PARTS = 8
"""Of a streamed answer, how many parts from its end on are looked at for its usage."""


def used(attributes: Attributes) -> tuple[Usage | None, dict[str, float]]:
    """Return the tokens that a model call used, and what else was measured of it.

    That is cached and reasoning tokens, and the seconds to the first part of a stream.
    """
    counts = {
        "input_tokens": first(attributes, *NAMES["input tokens"]),
        "output_tokens": first(attributes, *NAMES["output tokens"]),
        "total_tokens": first(attributes, *NAMES["total tokens"]),
    }
    usage = to_usage({name: number for name, number in counts.items() if number is not None})
    told: list[Any] = [_kinds(attributes)]
    if usage is None:
        objects = [parsed(attributes.get("mlflow.chat.tokenUsage"))]
        if to_usage(objects[0]) is None:
            objects = _of_outputs(attributes)
        for each in map(to_usage, objects):
            usage = each if usage is None or each is None else usage + each
        told += objects
    details: dict[str, float] = {}
    for each in told:
        note_kinds(each)
        for name, number in to_details(each).items():
            details[name] = details.get(name, 0) + number
    return usage, details


_DETAILED = (
    "gen_ai.usage.details.", "gen_ai.usage.", "llm.usage.",
    "llm.token_count.prompt_details.", "llm.token_count.completion_details.",
)  # fmt: skip


def _kinds(attributes: Attributes) -> Mapping[str, object]:
    """Return the numbers of tokens by their kinds, named as in a client's usage.

    ``gen_ai.usage.cache_write.input_tokens`` becomes ``cache_write_input_tokens``, and
    OpenInference's ``….completion_details.reasoning`` becomes ``reasoning_tokens``, and its
    ``….prompt_details.audio`` becomes ``input_audio_tokens``.
    """
    kinds: dict[str, object] = {}
    for name, number in attributes.items():
        prefix = next((prefix for prefix in _DETAILED if name.startswith(prefix)), None)
        if prefix is not None:
            kind = name[len(prefix) :].replace(".", "_")
            if kind == "audio":
                kind = "input_audio" if ".prompt_details." in prefix else "output_audio"
            kinds.setdefault(f"{kind}_tokens" if "token_count" in prefix else kind, number)
    first_part = attributes.get("gen_ai.response.time_to_first_chunk")
    return kinds if first_part is None else {**kinds, "time_to_first_token": first_part}


def _of_outputs(attributes: Attributes) -> list[object]:
    """Return what MLflow 2 has: a model call's answer as it came, with its usage in it.

    OpenAI's clients say ``usage``, of a stream in its last part; LangChain's say ``token_usage``
    beside the answers, or ``usage_metadata`` in each. Others, such as a chain, may pass on what
    their calls said, and count nothing.
    """
    if kind_of(attributes) != "llm":
        return []
    answer = parsed(attributes.get("mlflow.spanOutputs"))
    parts = answer if isinstance(answer, list) else [answer]
    for part in reversed(parts[-_LAST_PARTS:]):
        if not isinstance(part, dict):
            continue
        told = part.get("llm_output")
        for holder in (part, told if isinstance(told, dict) else {}):
            for name in ("usage", "token_usage", "usage_metadata"):
                if to_usage(holder.get(name)) is not None:
                    return [holder[name]]
        known = [told for message in _generated(part) if (told := _of_message(message)) is not None]
        if known:
            return known
    return []


def _generated(answer: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the messages of LangChain's ``generations``, a list of lists."""
    groups = answer.get("generations")
    for group in groups if isinstance(groups, list) else ():
        for each in group if isinstance(group, list) else (group,):
            message = each.get("message") if isinstance(each, dict) else None
            if isinstance(message, dict):
                yield message.get("kwargs", message)


def _of_message(message: object) -> object:
    """Return the usage that a message of LangChain has; ``None`` where it has none."""
    if not isinstance(message, Mapping):
        return None
    about = message.get("response_metadata")
    told = (
        message.get("usage_metadata"),
        about.get("token_usage") if isinstance(about, dict) else None,
    )
    return next((usage for usage in told if to_usage(usage) is not None), None)
