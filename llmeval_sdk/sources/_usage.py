"""What span attributes say of the tokens that a model call used; see `conventions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmeval_sdk._coerce import note_kinds, to_details, to_usage
from llmeval_sdk.model import Usage
from llmeval_sdk.sources import conventions


_LAST_PARTS = 8
"""Of a streamed answer, how many parts from its end on are looked at for its usage."""


_USAGE = ("gen_ai.usage.", "llm.token_count.", "llm.usage.")
_COUNTS = {
    "input_tokens": (
        "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
        "llm.usage.prompt_tokens",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
        "llm.token_count.completion", "llm.usage.completion_tokens",
    ),
    "total_tokens": (
        "llm.usage.total_tokens", "gen_ai.usage.total_tokens", "llm.token_count.total",
    ),
}  # fmt: skip


def usage_of(attributes: conventions.Attributes) -> Usage | None:
    """Return the tokens that a model call used."""
    counts = {name: conventions.first(attributes, *keys) for name, keys in _COUNTS.items()}
    note_kinds({
        f"{key} tokens": number
        for key, number in attributes.items()
        if key.startswith(_USAGE) and key not in _KNOWN
    })  # fmt: skip
    usage = to_usage({name: number for name, number in counts.items() if number is not None})
    return (
        usage
        or to_usage(conventions.parsed(attributes.get("mlflow.chat.tokenUsage")))
        or _usage_of_outputs(attributes)
    )


_DETAILS = {
    "cache_read_input_tokens": (
        "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write_input_tokens": (
        "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_output_tokens": (
        "gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning",
    ),
    "time_to_first_token": ("gen_ai.response.time_to_first_chunk",),
}  # fmt: skip


_KNOWN = frozenset(key for table in (_COUNTS, _DETAILS) for keys in table.values() for key in keys)


def details_of(attributes: conventions.Attributes) -> dict[str, float]:
    """Return cached and reasoning tokens, and the seconds to the first part of a stream."""
    return to_details(
        {name: conventions.first(attributes, *keys) for name, keys in _DETAILS.items()}
    )


def _usage_of_outputs(attributes: conventions.Attributes) -> Usage | None:
    """Read what MLflow 2 has: a model call's answer as it came, with its usage in it.

    OpenAI's clients say ``usage``, of a stream in its last part; LangChain's say ``token_usage``
    beside the answers, or ``usage_metadata`` in each. Others, such as a chain, may pass on what
    their calls said, and count nothing.
    """
    if conventions.kind_of(attributes) != "llm":
        return None
    answer = conventions.parsed(attributes.get("mlflow.spanOutputs"))
    parts = answer if isinstance(answer, list) else [answer]
    for part in reversed(parts[-_LAST_PARTS:]):
        if not isinstance(part, dict):
            continue
        told = part.get("llm_output")
        for holder in (part, told if isinstance(told, dict) else {}):
            for name in ("usage", "token_usage", "usage_metadata"):
                found = to_usage(holder.get(name))
                if found is not None:
                    return found
        each = [_usage_of_message(message) for message in _generated(part)]
        known = [usage for usage in each if usage is not None]
        if known:
            return sum(known[1:], known[0])
    return None


def _generated(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of LangChain's ``generations``, a list of lists."""
    groups = answer.get("generations")
    for group in groups if isinstance(groups, list) else ():
        for each in group if isinstance(group, list) else (group,):
            message = each.get("message") if isinstance(each, dict) else None
            if isinstance(message, dict):
                yield message.get("kwargs", message)


def _usage_of_message(message: Any) -> Usage | None:
    if not isinstance(message, Mapping):
        return None
    about = message.get("response_metadata")
    found = to_usage(message.get("usage_metadata"))
    return found or (to_usage(about.get("token_usage")) if isinstance(about, dict) else None)
