"""What of a record may leave: redacted for all behind the worker, and packed for the spool."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from llmeval_sdk._shield import swallow
from llmeval_sdk.model import Evaluation, EvaluationEvent, Failure, NotRun, SpanData, Target
from llmeval_sdk.redaction import Redactor
from llmeval_sdk.spool import read
from llmeval_sdk.tracing import Span, from_plain, to_plain, without_content


_FORMAT = 2
"""Of ``marshal``: the one without back references, which is the faster and reads anywhere."""
_SPAN, _EVENT = 1, 2
_target = attrgetter("trace_id", "span_id", "span_name", "span_kind")
_scored = attrgetter(
    "name", "value", "label", "evaluator_kind", "evaluator_version", "inclusion_probability"
)


class Privacy:
    """Redacts records and packs them, by a Redactor and whether content may be kept at all."""

    def __init__(self, redactor: Redactor, *, content: bool) -> None:
        self._redactor = redactor
        self._spooled_content = content and not redactor.has_custom

    def pack(self, item: Span | EvaluationEvent) -> bytes:
        """Write a record for the spool, after the built-in detectors. Runs on the app's thread.

        The app's own redaction cannot run there: with one, the record has no content.
        """
        kind, known, content, named = _plain(item)
        packed = (kind, known, content if self._spooled_content else None)
        record = _dumps(packed)
        if self._redactor.may_concern(record, named):
            record = _dumps(self._redactor.detect(packed))
        return record

    def unpack(self, record: bytes) -> Span | EvaluationEvent:
        """Read what `pack` wrote; raises on anything else, and is bounded in time and memory."""
        kind, known, content = read(record)
        item = _item(kind, known, content)
        if type(item) is Span:
            item._room[0] -= len(record)
        return item

    def redact(self, item: Span | EvaluationEvent) -> tuple[Any, bool]:
        """Return the record without what the redaction takes out, and False where that failed.

        What the app can still read of its span stays as it is: what is changed is a copy.
        """
        redactor = self._redactor
        if not redactor.is_needed:
            return item, True
        kind, known, content, named = _plain(item)
        done = True
        try:
            if redactor.may_concern(_dumps((known, content)), named):
                known, content = redactor.detect((known, content))
            elif not redactor.has_custom:
                return item, True
            content, done = redactor.call_custom(content)
        except Exception as error:
            if not swallow("redact", error):
                raise
            content, done = None, False
        copy = _item(kind, known, content)
        if type(copy) is Span and type(item) is Span:
            copy.context, copy._links = item.context, item._links
            copy._spec, copy._room = item._spec, item._room
        return copy, done


def _plain(item: Span | EvaluationEvent) -> tuple[int, Any, Any, tuple[Any, ...]]:
    """Return what kind it is, the known part, the content, and the mappings whose keys count."""
    if type(item) is Span:
        known, content = to_plain(item)
        return _SPAN, known, content, (item._arguments, item._attributes)
    assert type(item) is EvaluationEvent
    evaluation = item.evaluation
    known = (item.id, _target(item.target), item.timestamp_ns, _scored(evaluation))
    metadata = evaluation.metadata
    return _EVENT, known, (evaluation.explanation, metadata), (metadata, metadata.get("tags"))


def _item(kind: int, known: Any, content: Any) -> Span | EvaluationEvent:
    if kind == _SPAN:
        return from_plain((known, content))
    serial, target, timestamp_ns, (name, value, label, by, version, probability) = known
    explanation, metadata = content or (None, {})
    evaluation = Evaluation(
        name, value, label, explanation, None, metadata, by, version, None, None, probability
    )
    return EvaluationEvent(serial, Target(*target), evaluation, timestamp_ns)


def _dumps(value: Any) -> bytes:
    try:
        return marshal.dumps(value, _FORMAT)
    except ValueError:  # an evaluator of the app left something else in its metadata
        return marshal.dumps(_builtins(value), _FORMAT)


def _builtins(value: Any) -> Any:
    cls = type(value)
    if value is None or cls in (str, int, float, bool):
        return value
    if cls in (list, tuple):
        return cls(_builtins(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): _builtins(item) for key, item in value.items()}
    if isinstance(value, (str, int, float)):
        base = next(base for base in (str, int, float) if isinstance(value, base))
        return base(value)
    return f"<{cls.__name__}>"


def bare(item: EvaluationEvent | NotRun | SpanData) -> EvaluationEvent | NotRun | SpanData:
    """Leave out of what goes to exporters whatever may quote the app's texts."""
    if type(item) is EvaluationEvent:
        return replace(item, evaluation=without_content(item.evaluation))
    if type(item) is NotRun:
        return replace(item, detail=item.detail.partition(":")[0])
    if type(item) is SpanData and item.error is not None:
        return replace(item, error=Failure(item.error.type))
    return item
