"""What span attributes say of the tokens that a model call used; see `conventions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmeval_sdk.model import Usage
from llmeval_sdk.model.fields import note_kinds, to_details, to_usage
from llmeval_sdk.tracing.foreign import conventions


_LAST_PARTS = 8
"""Of a streamed answer, how many parts from its end on are looked at for its usage."""


def used(attributes: conventions.Attributes) -> tuple[Usage | None, dict[str, float]]:
    """Return the tokens that a model call used, and what else was measured of it.

    That is cached and reasoning tokens, and the seconds to the first part of a stream.
    """
    counts = {
        "input_tokens": conventions.first(
            attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt", "llm.usage.prompt_tokens",
        ),
        "output_tokens": conventions.first(
            attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
            "llm.token_count.completion", "llm.usage.completion_tokens",
        ),
        "total_tokens": conventions.first(
            attributes, "llm.usage.total_tokens", "gen_ai.usage.total_tokens",
            "llm.token_count.total",
        ),
    }  # fmt: skip
    usage = to_usage({name: number for name, number in counts.items() if number is not None})
    told: list[Any] = [_kinds(attributes)]
    if usage is None:
        objects = [conventions.parsed(attributes.get("mlflow.chat.tokenUsage"))]
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


def _kinds(attributes: conventions.Attributes) -> Mapping[str, Any]:
    """Return the numbers of tokens by their kinds, named as in a client's usage.

    ``gen_ai.usage.cache_write.input_tokens`` becomes ``cache_write_input_tokens``, and
    OpenInference's ``….completion_details.reasoning`` becomes ``reasoning_tokens``.
    """
    kinds: dict[str, Any] = {}
    for name, number in attributes.items():
        prefix = next((prefix for prefix in _DETAILED if name.startswith(prefix)), None)
        if prefix is not None:
            kind = name[len(prefix) :].replace(".", "_")
            kinds.setdefault(f"{kind}_tokens" if "token_count" in prefix else kind, number)
    first_part = attributes.get("gen_ai.response.time_to_first_chunk")
    return kinds if first_part is None else {**kinds, "time_to_first_token": first_part}


def _of_outputs(attributes: conventions.Attributes) -> list[Any]:
    """Return what MLflow 2 has: a model call's answer as it came, with its usage in it.

    OpenAI's clients say ``usage``, of a stream in its last part; LangChain's say ``token_usage``
    beside the answers, or ``usage_metadata`` in each. Others, such as a chain, may pass on what
    their calls said, and count nothing.
    """
    if conventions.kind_of(attributes) != "llm":
        return []
    answer = conventions.parsed(attributes.get("mlflow.spanOutputs"))
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


def _generated(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of LangChain's ``generations``, a list of lists."""
    groups = answer.get("generations")
    for group in groups if isinstance(groups, list) else ():
        for each in group if isinstance(group, list) else (group,):
            message = each.get("message") if isinstance(each, dict) else None
            if isinstance(message, dict):
                yield message.get("kwargs", message)


def _of_message(message: Any) -> Any:
    """Return the usage that a message of LangChain has; ``None`` where it has none."""
    if not isinstance(message, Mapping):
        return None
    about = message.get("response_metadata")
    told = (
        message.get("usage_metadata"),
        about.get("token_usage") if isinstance(about, dict) else None,
    )
    return next((usage for usage in told if to_usage(usage) is not None), None)
