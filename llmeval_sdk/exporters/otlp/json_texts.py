"""Writes the values of a span as JSON, each long text once, however many attributes have it."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from llmeval_sdk.process.pieces import MAX_READ, is_larger, json_text


ENCODER = json.JSONEncoder(
    ensure_ascii=False, default=str, check_circular=False, separators=(",", ":")
)
_quote = json.encoder.encode_basestring
_LONG = 256
"""Characters from which a text is worth what it costs to remember it."""
_WRITTEN = frozenset((str, list, tuple, dict))
"""What is written here; the encoder writes everything else."""
_TEXT = {str}


class JsonTexts:
    """Writes plain values as `ENCODER` does. One is made for a span, and remembers its texts."""

    def __init__(self) -> None:
        self._quoted: dict[str, str] = {}

    def dumps(self, value: object) -> str:
        """Write a value as JSON; raises ValueError where `json_text` does."""
        if type(value) not in _WRITTEN or is_larger(value, MAX_READ):
            return json_text(ENCODER, value)
        parts: list[str] = []
        self._write(value, parts)
        return "".join(parts)

    def quote(self, text: str) -> str:
        """Write a text as JSON."""
        if len(text) < _LONG:
            return _quote(text)
        quoted = self._quoted.get(text)
        if quoted is None:
            quoted = self._quoted[text] = json_text(ENCODER, text)
        return quoted

    def _write(self, value: Any, parts: list[str]) -> None:
        """Add the parts of a value, none of which is copied before they are joined."""
        cls = type(value)
        if cls is str:
            parts.append(_quote(value) if len(value) < _LONG else self.quote(value))
        elif cls is dict and value and set(map(type, value)) == _TEXT:
            start = "{"
            for key, item in value.items():
                parts += (start, _quote(key), ":")
                self._write(item, parts)
                start = ","
            parts.append("}")
        elif (cls is list or cls is tuple) and not _WRITTEN.isdisjoint(map(type, value)):
            start = "["
            for item in value:
                parts.append(start)
                self._write(item, parts)
                start = ","
            parts.append("]")
        elif cls is int or (cls is float and isfinite(value)):
            parts.append(repr(value))
        else:  # such as a list of numbers
            parts.append(ENCODER.encode(value))
