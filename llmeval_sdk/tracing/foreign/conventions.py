"""What span attributes say, in the dialects of those who write them.

OpenTelemetry's generative AI conventions (old and new names), OpenInference, Traceloop, Logfire and
MLflow. Each reading takes the first dialect that has an answer; odd values read as nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmeval_sdk.model import Chunk, SpanKind
from llmeval_sdk.model.chat import text_of
from llmeval_sdk.model.fields import to_chunks
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
    for name in ("gen_ai.input.messages", "gen_ai.prompt", "pydantic_ai.all_messages"):
        chat = messages.chat(parsed(attributes.get(name)))
        if chat is not None:
            return _with_system(chat, attributes)
    for prefix in ("llm.input_messages", "gen_ai.prompt"):
        chat = messages.chat(indexed(attributes, prefix))
        if chat is not None and any(turn["content"] for turn in chat["messages"]):
            return chat  # OpenInference may know of a message nothing but who wrote it
    for name in ("input.value", "traceloop.entity.input", "mlflow.spanInputs", "request_data"):
        value = parsed(attributes.get(name))
        if value is not None and not messages.resumes(value):
            return messages.chat(value) or messages.question(value)
    return None


def texts_of(attributes: Attributes) -> Any:
    """Return the texts that were embedded, or the whole request if it does not name them."""
    items = indexed(attributes, "embedding.embeddings")
    vectors = (item.get("embedding") for item in items if isinstance(item, dict))
    texts = [vector.get("text") for vector in vectors if isinstance(vector, dict)]
    known = [text for text in texts if isinstance(text, str)]
    return known if len(known) > 1 else known[0] if known else request_of(attributes)


def response_of(attributes: Attributes) -> Any:
    """Return what was answered: the text of the answer where it can be found."""
    for name in ("gen_ai.output.messages", "gen_ai.completion", "pydantic_ai.all_messages"):
        text = messages.answer(parsed(attributes.get(name)))
        if text is not None:
            return text
    for prefix in ("llm.output_messages", "gen_ai.completion"):
        text = messages.answer(indexed(attributes, prefix))
        if text is not None:
            return text
    for name in (
        "output.value", "traceloop.entity.output", "mlflow.spanOutputs", "final_result",
        "response_data",
    ):  # fmt: skip
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
            turns = indexed(attributes, "llm.input_messages") or indexed(
                attributes, "gen_ai.prompt"
            )
            if turns:
                answer = indexed(attributes, "llm.output_messages")
                return (*turns, *(answer or indexed(attributes, "gen_ai.completion")))
    return ()


def chunks_of(attributes: Attributes) -> tuple[Chunk, ...] | None:
    """Return the documents that a retrieval found."""
    documents = [
        _document(item.get("document", item))
        for item in indexed(attributes, "retrieval.documents")
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
    model = first(
        attributes, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name",
        "embedding.model_name", "mlflow.llm.model",
    ) or _model_asked_for(attributes)  # fmt: skip
    provider = first(
        attributes, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "mlflow.llm.provider",
        "llm.system",
    )  # fmt: skip
    return _word(model), _word(provider)


def _model_asked_for(attributes: Attributes) -> Any:
    """Return the model that a call asked for.

    If the call failed, OpenInference names its model nowhere but in the call's options.
    """
    options = parsed(
        first(attributes, "llm.invocation_parameters", "embedding.invocation_parameters")
    )
    return options.get("model") if isinstance(options, dict) else None


def session_of(attributes: Attributes) -> str | None:
    """Return the conversation a span belongs to."""
    found = first(
        attributes, "session.id", "gen_ai.conversation.id", "mlflow.trace.session",
        "traceloop.association.properties.session_id",
    )  # fmt: skip
    return str(found) if found else None


def tags_of(attributes: Attributes) -> dict[str, str]:
    """Return a span's labels, with its user as ``user_id``, as our own spans name it.

    OpenInference's ``tag.tags`` is a list of words; ``team:roofs`` is the label ``team``.
    """
    words = attributes.get("tag.tags")
    tags = labels(words if isinstance(words, (list, tuple)) else ())
    user = first(
        attributes, "user.id", "enduser.id", "mlflow.trace.user", "langfuse.user.id",
        "traceloop.association.properties.user_id",
    )  # fmt: skip
    return {**tags, "user_id": str(user)} if user else tags


MOST_LABELS = 100


def labels(words: Sequence[Any]) -> dict[str, str]:
    """Read words such as ``team:roofs``; one without a value is ``true``."""
    pairs = (str(word)[:1_000].partition(":") for word in words[:MOST_LABELS])
    return {name: value if colon else "true" for name, colon, value in pairs if name}


def metadata_of(attributes: Attributes) -> dict[str, Any]:
    """Return what the app noted on a span of OpenInference."""
    metadata = capture(parsed(attributes.get("metadata")))
    return metadata if isinstance(metadata, dict) else {}


def parsed(value: Any) -> Any:
    """Read JSON where a text looks like it, since most dialects write structure as text."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] not in ("{", "[", '"'):
        return value or None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return value


def indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Read a list of mappings that was flattened into ``prefix.0.key`` attributes."""
    items: dict[int, dict[str, Any]] = {}
    for place, path, value in _below(attributes, f"{prefix}."):
        where = items.setdefault(place, {})
        for key in path[:-1]:
            inner = where.setdefault(key, {})
            where = inner if isinstance(inner, dict) else {}
        where[path[-1]] = value
    return [_with_lists(items[place]) for place in sorted(items)]


def _with_lists(value: Any) -> Any:
    """Turn mappings by number, which were lists before they were flattened, into lists again."""
    if not isinstance(value, dict):
        return value
    items = {key: _with_lists(held) for key, held in value.items()}
    if items and all(key.isdecimal() for key in items):
        return [items[key] for key in sorted(items, key=int)]
    return items


def _below(attributes: Attributes, prefix: str) -> Iterator[tuple[int, list[str], Any]]:
    for key, value in attributes.items():
        if key.startswith(prefix):
            place, dot, rest = key[len(prefix) :].partition(".")
            if dot and place.isdecimal():
                yield int(place), rest.split("."), value


def _document(document: Any) -> Chunk | None:
    if not isinstance(document, dict):
        return None
    document = {**document, "metadata": parsed(document.get("metadata"))}
    found = to_chunks(capture([document]))
    return found[0] if found else None


def _with_system(chat: dict[str, Any], attributes: Attributes) -> dict[str, Any]:
    instructions = text_of(parsed(attributes.get("gen_ai.system_instructions")))
    if instructions:
        chat["messages"].insert(0, {"role": "system", "content": instructions})
    return chat


def _is_chat(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("messages"), list)


def _word(value: Any) -> str | None:
    return str(parsed(value)) if value else None


def first(attributes: Attributes, *names: str) -> Any:
    """Return the first of some attributes that is there."""
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)
