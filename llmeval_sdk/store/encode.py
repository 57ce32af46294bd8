"""Turns any value into JSON text that SQLite takes, nouns into rows, and rows into nouns.

The values that capturing leaves (str, numbers, lists, dicts) go straight through the C encoder.
Only a value that it refuses is walked here: NaN becomes null, and what JSON cannot hold becomes a
marker such as ``<socket>``. Lone surrogates, which UTF-8 cannot hold, become question marks when a
row is written (`cell`). Nothing here raises an exception over a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    Prompt,
    Record,
    SpanData,
    Target,
    Usage,
    values,
)
from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.model.fields import DETAILS, to_details
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.model.span_fields import STORED_FIELDS, Form
from llmeval_sdk.process.pieces import json_text


# Reads evaluations from the JSON that `store.encode.sparse` made of them.


def evaluation_from(plain: dict[str, Any]) -> Evaluation:
    """Make an evaluation of what `sparse` wrote, after it was parsed as JSON."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if plain.get(name) is not None:
            plain[name] = kind(**plain[name])
    if type(plain.get("value")) is int:
        plain["value"] = float(plain["value"])
    return Evaluation(**plain)


MAX_DEPTH = 32
MAX_NODES = 100_000

_INT64 = 1 << 63


def _known(value: Any) -> Any:
    """Give the encoder something it can write for a type that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    return f"<{type(value).__name__}>"


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_known
)


def dumps(value: Any) -> str | None:
    """Write a value as JSON; ``None`` stays SQL's NULL."""
    if value is None:
        return None
    try:
        return json_text(_ENCODER, value)
    except Exception:
        return json_text(_ENCODER, _plain(value, [MAX_NODES], ()))


def _plain(value: Any, room: list[int], above: tuple[int, ...]) -> Any:  # noqa: PLR0911
    """Copy a value into what JSON has; cycles, depth and size end in a marker."""
    room[0] -= 1
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        bits = value.bit_length()
        return int(value) if bits <= 1024 else f"<int of {bits} bits>"
    if room[0] < 0:
        return "<no room>"
    if id(value) in above:
        return "<cycle>"
    if len(above) >= MAX_DEPTH:
        return "<too deep>"
    inner = (*above, id(value))
    try:
        known = value if isinstance(value, (dict, list)) else _known(value)
        if isinstance(known, dict):
            return {_key(key): _plain(item, room, inner) for key, item in list(known.items())}
        if isinstance(known, list):
            return [_plain(item, room, inner) for item in list(known)]
    except Exception:
        return f"<{type(value).__name__}>"
    return known


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return str(key) if isinstance(key, (int, float, tuple)) or key is None else str(_known(key))


def loads(text: str | None, default: Any = None) -> Any:
    """Read what `dumps` wrote; a half of a surrogate pair, which it once wrote, becomes ``?``."""
    if text is None:
        return default
    value = json.loads(text)
    if "\\ud" in text:
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def cell(value: Any) -> Any:
    """Make a value acceptable to SQLite, for the rare row that it refused."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value) if -_INT64 <= value < _INT64 else _float(value)
    if isinstance(value, float):
        return float(value)
    return value if value is None else f"<{type(value).__name__}>"


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None


def score(value: Any) -> tuple[Any, str | None]:
    """Split a value into what is stored and, where it is no number, why not."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, bool):
        return int(value), None
    number = _float(value)
    if number is None:
        return None, "not_a_number"
    return (number, None) if math.isfinite(number) else (None, "not_finite")


_NAMES = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Record, Chunk, Extraction, Evaluation, Usage, Failure)
}
_DEFAULTS = {kind: tuple(field.default for field in fields(kind)) for kind in _NAMES}
_READ = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_PLAIN = frozenset((str, int, float, bool))


def sparse(noun: Any) -> dict[str, Any]:
    """Return the fields of a noun that are present and differ from their default."""
    noun_kind = type(noun)
    present = {}
    values = _READ[noun_kind](noun)
    for name, value, default in zip(_NAMES[noun_kind], values, _DEFAULTS[noun_kind], strict=True):
        if value is None:
            continue
        kind = type(value)
        if kind in _PLAIN:
            if value != default:
                present[name] = value
        elif kind is tuple:
            held = value and type(value[0]) in _NAMES
            present[name] = [sparse(item) for item in value] if held else value
        elif kind in _NAMES:
            present[name] = sparse(value)
        elif value or kind is not dict:
            present[name] = value
    return present


# Nouns as rows: which column holds what, in the order of the columns.
#
# What is absent is NULL, and an empty list is ``[]``. A response or value that is no answer is
# absent too, so that requests without an answer can be counted; what it was stands among the
# attributes, and is read back from there. The inline evaluations of a `SpanData` are not stored
# with it, because each of them also arrives as an `EvaluationEvent`. Its ``context`` is not stored
# either: it holds live objects of other libraries.

Row = tuple[Any, ...]

_USAGE = ("input_tokens", "output_tokens", "total_tokens", "cost_usd")
_TARGET = ("id", "trace_id", "span_id", "span_name", "span_kind")

_PLAIN_FIELDS = tuple(f.name for f in STORED_FIELDS if f.form in (Form.TEXT, Form.NUMBER))
_APART = (Form.TEXT, Form.NUMBER, Form.CHANCE, Form.FAILURE, Form.USAGE, Form.FLAG)
_NESTED = tuple(f for f in STORED_FIELDS if f.form not in _APART)
COLUMNS: dict[str, tuple[str, ...]] = {
    "spans": (
        *_PLAIN_FIELDS, "error_type", "error_message", *_USAGE, *(f.name for f in _NESTED),
        *DETAILS, "inclusion_probability", "outside_parent",
    ),
    "evaluations": (
        *_TARGET, "name", "time_ns", "value", "label", "error_type", "error_message",
        "evaluator_kind", "evaluator_version", "duration", "inclusion_probability", "probability",
        *_USAGE, "explanation", "metadata",
    ),
    "not_run": (*_TARGET, "evaluator", "time_ns", "reason", "detail"),
}  # fmt: skip
COLUMNS["feedback"] = COLUMNS["evaluations"]
COLUMNS["fields"] = (
    "id", "place", "trace_id", "span_id", "span_name", "name", "time_ns", "field", "path", "value",
    "chance",
)  # fmt: skip
"""The columns of each table, as rows are written and read; ``seq`` aside."""

_NO_USAGE: Row = (None, None, None, None)
_NO_FAILURE: Row = (None, None)


def span_row(span: SpanData) -> Row:
    """Turn a span into its row."""
    span, outside = _without_blanks(span), None
    if span.outside_parent:  # a request has no parent in the store; see `requests`
        outside, span = span.parent_id, replace(span, parent_id=None)
    return (
        *_plain_columns(span),
        *_of_failure(span.error),
        *_of_usage(span.usage),
        *[
            None if value is None else dumps(write(value) if write is not None else value)
            for value, write in zip(_nested(span), _WRITERS, strict=True)
        ],
        *map(to_details(span.metrics).get, DETAILS),
        span.inclusion_probability,
        outside,
    )


def span_of(row: Row) -> SpanData:
    """Read a span back; its details are among its metrics."""
    plain, (error_type, error_message, *rest) = row[: len(_PLAIN_FIELDS)], row[len(_PLAIN_FIELDS) :]
    fields = dict(zip(_PLAIN_FIELDS, plain, strict=True))
    for field, text in zip(_NESTED, rest[len(_USAGE) :], strict=False):
        if text is not None:
            fields[field.name] = _READERS[field.form](loads(text))
    if RETURNED in fields.get("attributes", ()):
        _read_blanks(fields)
    fields["inclusion_probability"], outside = row[-2:]
    if outside is not None:
        fields.update(parent_id=outside, outside_parent=True)
    return SpanData(
        **fields, error=_failure(error_type, error_message), usage=_usage(rest[: len(_USAGE)])
    )


RETURNED = "llmeval.returned"
"""The attribute that has, as JSON, the response and value of a span that are no answer."""


def _without_blanks(span: SpanData) -> SpanData:
    """Set aside a request's response, and any value, that is there and answers nothing."""
    blanks = {}
    if span.response not in (None, "") and span.kind in OWNERS and not is_answer(span.response):
        blanks["response"] = span.response
    if span.value is not None and not is_answer(span.value):
        blanks["value"] = span.value
    if not blanks:
        return span
    changed: dict[str, Any] = dict.fromkeys(blanks)
    changed["attributes"] = {**span.attributes, RETURNED: dumps(blanks)}
    return replace(span, **changed)


def _read_blanks(fields: dict[str, Any]) -> None:
    """Give a span back what was set aside; an attribute of the app with that name stays."""
    attributes = dict(fields["attributes"])
    try:
        blanks = loads(attributes.pop(RETURNED))
    except (TypeError, ValueError, RecursionError):
        return
    if isinstance(blanks, dict) and blanks.keys() <= {"response", "value"}:
        fields["attributes"] = attributes
        fields.update({name: each for name, each in blanks.items() if not is_answer(each)})


def evaluation_row(event: EvaluationEvent) -> Row:
    """Turn an evaluation into its row."""
    outcome = event.evaluation
    better = values.declared(outcome.name)
    metadata = outcome.metadata if better is None else {**outcome.metadata, values.BETTER: better}
    value, fault = score(outcome.value)
    failure = _of_failure(outcome.error)
    return (
        event.id, *_of_target(event.target), outcome.name, event.timestamp_ns, value, outcome.label,
        *(failure if fault is None or outcome.error else (fault, "")),
        outcome.evaluator_kind, outcome.evaluator_version, outcome.duration,
        outcome.inclusion_probability, outcome.probability, *_of_usage(outcome.usage),
        outcome.explanation, dumps(metadata or None),
    )  # fmt: skip


def field_rows(event: EvaluationEvent) -> list[Row]:
    """Return the rows of the table ``fields`` for one evaluation, one for each field it scored.

    They come from the list ``fields`` in its metadata.
    """
    outcome = event.evaluation
    if "fields" not in outcome.metadata:
        return []
    # Only here: the module takes a millisecond of every first `configure`, which loads this one.
    from llmeval_sdk.model.structure import general_path, scored_fields

    target = event.target
    return [
        (
            event.id, place, target.trace_id, target.span_id or "", target.span_name, outcome.name,
            event.timestamp_ns, general_path(path)[:MAX_FIELD_TEXT], path[:MAX_FIELD_TEXT],
            _beginning(entry.get("value")), chance,
        )
        for place, path, entry, chance in scored_fields(outcome)
    ]  # fmt: skip


MAX_FIELD_TEXT = 200
"""Characters of a field's path and value that the table of fields holds."""


def _beginning(text: object) -> str | None:
    return text[:MAX_FIELD_TEXT] if isinstance(text, str) else None


def evaluation_of(row: Row) -> EvaluationEvent:
    """Read an evaluation back."""
    (event_id, trace_id, span_id, span_name, span_kind, name, time_ns, value, label,
     error_type, error_message, kind, version, duration, inclusion, probability, *usage,
     explanation, metadata) = row  # fmt: skip
    outcome = Evaluation(
        name,
        bool(value) if isinstance(value, int) else value,
        label=label,
        explanation=explanation,
        error=_failure(error_type, error_message),
        metadata=loads(metadata, {}),
        evaluator_kind=kind,
        evaluator_version=version,
        duration=duration,
        usage=_usage(usage),
        inclusion_probability=0.0 if inclusion is None else inclusion,  # nobody knows it
        probability=probability,
    )
    target = Target(trace_id, span_id or None, span_name, span_kind)
    return EvaluationEvent(event_id, target, outcome, time_ns)


def not_run_row(event: NotRun) -> Row:
    """Turn a judge that did not run into its row."""
    return (
        event.id, *_of_target(event.target), event.evaluator, event.timestamp_ns, event.reason,
        event.detail,
    )  # fmt: skip


def not_run_of(row: Row) -> NotRun:
    """Read a judge that did not run back."""
    event_id, trace_id, span_id, span_name, span_kind, evaluator, time_ns, reason, detail = row
    target = Target(trace_id, span_id or None, span_name, span_kind)
    return NotRun(event_id, target, evaluator, reason, detail, time_ns)


def _of_target(target: Target) -> Row:
    return target.trace_id, target.span_id or "", target.span_name, target.span_kind


def _of_link(link: Target) -> Row:
    return link.trace_id, link.span_id, link.span_name, link.span_kind


def _of_usage(usage: Usage | None) -> Row:
    if usage is None:
        return _NO_USAGE
    return usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cost_usd


def _usage(row: list[Any]) -> Usage | None:
    return None if row[0] is None else Usage(*row)


def _of_failure(failure: Failure | None) -> Row:
    return _NO_FAILURE if failure is None else (failure.type, failure.message)


def _failure(kind: str | None, message: str | None) -> Failure | None:
    return None if kind is None else Failure(kind, message or "")


def _sparse(noun: Any) -> dict[str, Any] | None:
    """Return the fields of a noun that are there."""
    if noun is None:
        return None
    names = _FIELDS[type(noun)]
    return {name: value for name in names if (value := getattr(noun, name)) is not None}


def _or_none(value: Any) -> Any:
    return value or None


def _links(links: tuple[Target, ...]) -> list[Row] | None:
    return [_of_link(link) for link in links] or None


def _each(nouns: tuple[Any, ...]) -> list[Any]:
    return [_sparse(noun) for noun in nouns]


def _expected(expected: dict[str, Any]) -> dict[str, Any]:
    if "expected_facts" in expected:
        expected["expected_facts"] = tuple(expected["expected_facts"])
    chunks = expected.get("expected_retrieved_context")
    if chunks is not None:
        expected["expected_retrieved_context"] = tuple(Chunk(**chunk) for chunk in chunks)
    return expected


def _prompt(fields: dict[str, Any]) -> Prompt:
    for name in ("chat_template", "rag_context_variables", "rag_query_variables"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return Prompt(**fields)


def _as_it_is(value: Any) -> Any:
    return value


_FORMS: dict[Form, tuple[Any, Any]] = {
    Form.VALUE: (None, _as_it_is),
    Form.MAPPING: (_or_none, _as_it_is),
    Form.EXPECTED: (_or_none, _expected),
    Form.LINKS: (_links, lambda links: tuple(Target(*link) for link in links)),
    Form.PROMPT: (_sparse, _prompt),
    Form.EXTRACTIONS: (_each, lambda items: tuple(Extraction(**item) for item in items)),
    Form.CHUNKS: (_each, lambda items: tuple(Chunk(**item) for item in items)),
}
"""How a nested value is prepared for JSON, and read back from it."""
_WRITERS = tuple(_FORMS[field.form][0] for field in _NESTED)
_READERS = {form: read for form, (_, read) in _FORMS.items()}
_plain_columns: Any = attrgetter(*_PLAIN_FIELDS)
_nested: Any = attrgetter(*(field.name for field in _NESTED))
_FIELDS = {cls: tuple(f.name for f in fields(cls)) for cls in (Chunk, Extraction, Prompt)}
