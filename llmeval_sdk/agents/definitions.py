"""Definitions of tools, in the forms that people have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
