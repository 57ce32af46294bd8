"""Decides what of a record may leave: redacts it, packs it for the spool, strips its content."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model import (
    JUDGE_TAG,
    Evaluation,
    EvaluationEvent,
    Failure,
    NotRun,
    SpanData,
    Target,
)
from llmeval_sdk.pipeline.batch_exporter import Emitted
from llmeval_sdk.pipeline.spool import read
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import from_plain, to_plain, without_content


_FORMAT = 2
"""The format of ``marshal`` without back references, which is faster to write, and to read
safely."""
_SPAN, _EVENT = 1, 2
_target = attrgetter("trace_id", "span_id", "span_name", "span_kind")
_scored = attrgetter(
    "name",
    "value",
    "label",
    "evaluator_kind",
    "evaluator_version",
    "inclusion_probability",
    "probability",
)
_WRITTEN: dict[type, tuple[str, ...]] = {
    EvaluationEvent: ("label", "explanation", "metadata", "error"),
    SpanData: ("response", "error"),
}
"""Fields that hold an evaluator's own words."""


class Privacy:
    """Redacts records and packs them, by a Redactor and whether content may be kept at all."""

    def __init__(self, redactor: Redactor, *, content: bool) -> None:
        self._redactor = redactor
        self._spooled_content = content and not redactor.has_custom

    def pack(self, item: Span | EvaluationEvent) -> bytes:
        """Write a record for the spool, redacted by the built-in detectors, on the app's thread.

        A redaction function of the app cannot run there. Where there is one, content is left out.
        """
        kind, known, content = _plain(item)
        packed = (kind, known, content if self._spooled_content else None)
        record = _dumps(packed)
        if self._redactor.may_concern(record, packed[2]):
            record = _dumps(self._redactor.detect(packed))
        return record

    def unpack(self, record: bytes) -> Span | EvaluationEvent:
        """Read what `pack` wrote; raises on anything else, and is bounded in time and memory."""
        kind, known, content = read(record)
        item = _item(kind, known, content)
        if type(item) is Span:
            item.room[0] -= len(record)
        return item

    def screen(self, item: Emitted) -> Emitted:
        """Redact what an evaluator or a judge wrote: it may quote its own key."""
        written: Any = item
        if type(item) is EvaluationEvent:
            written = item.evaluation
        elif type(item) is not SpanData:
            return item
        fields = {name: getattr(written, name) for name in _WRITTEN[type(item)]}
        plain = {
            name: [value.message] if type(value) is Failure else _builtins(value)
            for name, value in fields.items()
        }
        if not self._redactor.may_concern(_dumps(plain), plain):
            return item
        changed = {
            name: replace(fields[name], message=value[0])
            if type(fields[name]) is Failure
            else value
            for name, value in self._redactor.detect(plain).items()
        }
        written = replace(written, **changed)
        return written if type(item) is SpanData else replace(item, evaluation=written)

    def redact(self, item: Span | EvaluationEvent) -> tuple[Any, bool]:
        """Return a record redacted, and whether that succeeded.

        The span that the app can still read stays as it is: what is changed is a copy.
        """
        redactor = self._redactor
        if not redactor.is_needed:
            return item, True
        kind, known, content = plain = _plain(item)
        done = True
        try:
            if redactor.may_concern(_dumps((known, content)), content):
                known, content = redactor.detect((known, content))
            elif not redactor.has_custom:
                return item, True
            content, done = redactor.call_custom(content)
            if done and (kind, known, content) == plain:
                return item, True  # the item itself, which has the inline heuristics' Record
        except Exception as error:
            if not swallow("redact", error):
                raise
            content, done = None, False
        copy = _item(kind, known, content)
        if type(copy) is Span and type(item) is Span:
            copy.context, copy.links = item.context, item.links
            copy.spec, copy.room, copy.owner = item.spec, item.room, item.owner
        return copy, done


def _plain(item: Span | EvaluationEvent) -> tuple[int, Any, Any]:
    """Return the kind of a record, its part without content, and its content."""
    if type(item) is Span:
        return (_SPAN, *to_plain(item))
    assert type(item) is EvaluationEvent
    evaluation = item.evaluation
    known = (item.id, _target(item.target), item.timestamp_ns, _scored(evaluation))
    return _EVENT, known, (evaluation.explanation, evaluation.metadata)


def _item(kind: int, known: Any, content: Any) -> Span | EvaluationEvent:
    if kind == _SPAN:
        return from_plain((known, content))
    serial, target, timestamp_ns, (name, value, label, by, version, *probabilities) = known
    explanation, metadata = content or (None, {})
    evaluation = Evaluation(
        name, value, label, explanation, None, metadata, by, version, None, None, *probabilities
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


def bare(item: Emitted, *, names: bool) -> Emitted:
    """Return what goes to exporters without anything that may quote the app's texts.

    Without ``names`` it also lacks what the app has named: spans, tags, sessions, metrics,
    documents.
    """
    if type(item) is EvaluationEvent:
        item = replace(item, evaluation=without_content(item.evaluation))
    elif type(item) is NotRun:
        item = replace(item, detail=item.detail.partition(":")[0])
    elif type(item) is SpanData and item.error is not None:
        item = replace(item, error=Failure(item.error.type))
    return item if names else _nameless(item)


def _nameless(item: Emitted) -> Emitted:
    """Keep only ids, kinds, times, usage, models, types of errors, names and values of scores."""
    if type(item) is EvaluationEvent:
        evaluation = replace(item.evaluation, label=None, metadata={})
        return replace(item, target=_unnamed(item.target), evaluation=evaluation)
    if type(item) is NotRun:
        return replace(item, target=_unnamed(item.target), detail="")
    assert type(item) is SpanData
    ours = {JUDGE_TAG: item.tags[JUDGE_TAG]} if JUDGE_TAG in item.tags else {}
    return replace(
        item,
        name=item.name if ours else item.kind,  # a judge's run has the judge's name
        tags=ours,
        session_id=None,
        metrics={},
        retrieved_context=None,
        links=tuple(map(_unnamed, item.links)),
        evaluations=tuple(replace(score, label=None, metadata={}) for score in item.evaluations),
    )


def _unnamed(target: Target) -> Target:
    return replace(target, span_name=target.span_kind)
