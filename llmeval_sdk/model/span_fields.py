"""What a span is made of: one table that every way of writing a span down is driven by.

The live span's slots, the portable form (spool files, redaction), `SpanData`, the store's columns,
exports and their readers all take their fields from `SPAN_FIELDS`. A new field is a line here, an
attribute of `SpanData`, a slot of the live span and, to be stored, a migration.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Form(Enum):
    """The kind of value that a field holds. It decides how the field is written and read."""

    TEXT = auto()
    NUMBER = auto()
    """A whole number."""
    CHANCE = auto()
    """A probability above 0, and at most 1."""
    FLAG = auto()
    """True or false."""
    VALUE = auto()
    """Anything that capturing leaves: texts, numbers, lists and mappings of them."""
    MAPPING = auto()
    """A mapping of such values; an empty one is the same as none."""
    FAILURE = auto()
    USAGE = auto()
    LINKS = auto()
    PROMPT = auto()
    EXPECTED = auto()
    EXTRACTIONS = auto()
    CHUNKS = auto()
    EVALUATIONS = auto()
    OBJECT = auto()
    """Something that lives in this process only."""


class Part(Enum):
    """Where a field stands in the portable form of a span; see `llmeval_sdk.tracing`."""

    KNOWN = auto()
    """Among what the SDK itself made; it stays when content may not be kept."""
    CONTENT = auto()
    """Among what the app's values said."""
    APART = auto()
    """Written by hand, because it is no plain value."""


class SpanField(NamedTuple):
    """One field of a span."""

    name: str
    """As `SpanData` and exported rows call it."""
    form: Form
    part: Part
    slot: str
    """As the live span calls it; for a field that a rule makes, what the rule reads."""
    is_content: bool = False
    """Whether it stays behind where content is not captured."""
    is_data: bool = True
    """Whether `SpanData` has it; the live span alone has what only becomes another field."""
    is_stored: bool = True
    """Whether the store keeps it."""
    can_be_annotated: bool = False
    """Whether ``annotate`` takes it under its name, captured as it is."""


_F, _P = Form, Part
SPAN_FIELDS: tuple[SpanField, ...] = (
    SpanField("trace_id", _F.TEXT, _P.KNOWN, "trace_number"),
    SpanField("span_id", _F.TEXT, _P.KNOWN, "span_number"),
    SpanField("parent_id", _F.TEXT, _P.KNOWN, "parent_number"),
    SpanField("name", _F.TEXT, _P.KNOWN, "name"),
    SpanField("kind", _F.TEXT, _P.APART, "spec"),
    SpanField("start_ns", _F.NUMBER, _P.KNOWN, "start_ns"),
    SpanField("end_ns", _F.NUMBER, _P.KNOWN, "end_ns"),
    SpanField("error", _F.FAILURE, _P.APART, "_error"),
    SpanField("session_id", _F.TEXT, _P.CONTENT, "session_id"),
    SpanField("model_name", _F.TEXT, _P.APART, "spec"),
    SpanField("model_provider", _F.TEXT, _P.APART, "spec"),
    SpanField("trace_flags", _F.NUMBER, _P.KNOWN, "flags"),
    SpanField("usage", _F.USAGE, _P.APART, "_usage"),
    SpanField("arguments", _F.MAPPING, _P.CONTENT, "_arguments", is_data=False, is_stored=False),
    SpanField("request", _F.VALUE, _P.CONTENT, "_request", is_content=True, can_be_annotated=True),
    SpanField(
        "response", _F.VALUE, _P.CONTENT, "_response", is_content=True, can_be_annotated=True
    ),
    SpanField("links", _F.LINKS, _P.APART, "links"),
    SpanField("tags", _F.MAPPING, _P.CONTENT, "_tags"),
    SpanField("metrics", _F.MAPPING, _P.KNOWN, "_metrics"),
    SpanField("attributes", _F.MAPPING, _P.CONTENT, "_attributes", is_content=True),
    SpanField("prompt", _F.PROMPT, _P.APART, "_prompt", is_content=True),
    SpanField("expected", _F.EXPECTED, _P.APART, "_expected", is_content=True),
    SpanField("extractions", _F.EXTRACTIONS, _P.APART, "_extractions", is_content=True),
    SpanField("retrieved_context", _F.CHUNKS, _P.APART, "_retrieved"),
    SpanField("evaluations", _F.EVALUATIONS, _P.APART, "scored", is_stored=False),
    SpanField("context", _F.OBJECT, _P.APART, "context", is_stored=False),
    SpanField("gathered", _F.OBJECT, _P.APART, "gathered", is_data=False, is_stored=False),
    SpanField("value", _F.VALUE, _P.CONTENT, "_value", is_content=True, can_be_annotated=True),
    SpanField(
        "confidence", _F.VALUE, _P.CONTENT, "_confidence", is_content=True, can_be_annotated=True
    ),
    SpanField("field_config", _F.MAPPING, _P.CONTENT, "_field_config", is_content=True),
    SpanField("retrieval", _F.MAPPING, _P.CONTENT, "_retrieval", is_content=True),
    SpanField("outside_parent", _F.FLAG, _P.KNOWN, "outside_parent"),
    SpanField("inclusion_probability", _F.CHANCE, _P.KNOWN, "inclusion_probability"),
)
"""New lines go to the end: exports have their columns in this order, and the portable form adds to
the plain values of the first release those that are declared since.

Inline evaluations are not stored with the span, because each also arrives as an event of its own;
nor is ``context``, which holds other libraries' live objects.
"""
DATA_FIELDS = tuple(field for field in SPAN_FIELDS if field.is_data)
STORED_FIELDS = tuple(field for field in SPAN_FIELDS if field.is_stored)
