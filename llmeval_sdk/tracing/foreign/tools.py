"""What the attributes of a span say about tools: a call, the tools offered, whose they are.

OpenTelemetry's conventions, OpenInference, Traceloop, Logfire and MLflow. LangChain serialises a
tool's arguments and what it returned in several ways, which are taken apart here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from llmeval_sdk.model import Failure
from llmeval_sdk.model.chat import definitions_of, text_of, unwrapped
from llmeval_sdk.tracing.foreign import conventions


Attributes = Mapping[str, Any]

_NAMES = ("gen_ai.tool.name", "tool.name", "tool_name", "traceloop.entity.name")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments", "tool_arguments", "input.value", "traceloop.entity.input",
    "mlflow.spanInputs",
)  # fmt: skip
_RESULTS = (
    "gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output",
    "mlflow.spanOutputs",
)  # fmt: skip
_HANDOFF = re.compile(r"handoff to (.+)", re.DOTALL)
_LONGEST_LITERAL = 20_000
"""Characters of a Python literal that is read; a longer one stays text."""
_MESSAGE = re.compile(
    r"content=(?P<quote>['\"])(?P<text>.*?)(?P=quote) (?:name|tool_call_id)=", re.DOTALL
)
"""How LangChain prints the message of a tool."""


class ToolResult(NamedTuple):
    """What a tool returned, and how it failed where its result says so."""

    result: Any
    error: Failure | None = None


def name_of(attributes: Attributes, span_name: str) -> str:
    """Return the name of the tool that a span ran."""
    told = next((attributes[name] for name in _NAMES if attributes.get(name)), None)
    if told is not None:
        return str(told)[:200]
    handoff = _HANDOFF.fullmatch(span_name)
    if handoff is not None:  # the OpenAI Agents SDK offers it to the model under this name
        return "transfer_to_" + re.sub(r"\W", "_", handoff[1].lower())[:180]
    return span_name.removeprefix("execute_tool ").removesuffix(".tool")[:200]


def arguments_of(attributes: Attributes, span_name: str) -> Any:
    """Return what a tool was called with, by name; a text where that is no object."""
    if _HANDOFF.fullmatch(span_name):
        return None  # its input is the agent that hands over
    return arguments_in(_first(attributes, _ARGUMENTS))


def arguments_in(value: Any) -> Any:
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
    return result_in(_first(attributes, _RESULTS))


def result_in(value: Any) -> ToolResult:
    """Take what a tool returned out of LangChain's messages and Traceloop's wrapping."""
    if isinstance(value, Mapping) and value.keys() <= {"output", "kwargs"} and "output" in value:
        value = conventions.parsed(value["output"])
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


def definitions(attributes: Attributes) -> tuple[Mapping[str, Any], ...] | None:
    """Return the tools that a model or an agent was offered."""
    offered = conventions.parsed(attributes.get("gen_ai.tool.definitions"))
    if not isinstance(offered, list):
        told = (item.get("tool") for item in conventions.indexed(attributes, "llm.tools"))
        schemas = (one.get("json_schema") for one in told if isinstance(one, Mapping))
        offered = [conventions.parsed(schema) for schema in schemas]
    for name in ("llm.invocation_parameters", "mlflow.spanInputs", "model_request_parameters"):
        if offered:
            break
        holder = conventions.parsed(attributes.get(name))
        offered = holder.get("tools") or () if isinstance(holder, Mapping) else ()
    return definitions_of(list(offered) if isinstance(offered, Iterable) else None)


def agent_of(attributes: Attributes) -> str | None:
    """Return the name of the agent that a span belongs to."""
    prefix = "traceloop.association.properties."
    told = _first(
        attributes, ("gen_ai.agent.name", "agent.name", "agent_name", f"{prefix}lc_agent_name")
    )
    if told is None:
        about = conventions.parsed(attributes.get("metadata"))
        told = about.get("lc_agent_name") if isinstance(about, Mapping) else None
    return str(told)[:200] if told else None


def _first(attributes: Attributes, names: Iterable[str]) -> Any:
    values = (conventions.parsed(attributes.get(name)) for name in names)
    return next((value for value in values if value is not None), None)


def _literal(text: Any) -> Any:
    """Read the arguments that LangChain prints as Python does; the text itself otherwise."""
    if not isinstance(text, str) or not text.startswith("{") or len(text) > _LONGEST_LITERAL:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
