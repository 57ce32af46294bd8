"""Turns evaluations into Datadog's metrics; a label has letters, digits and underscores only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from llmeval_sdk.model import Evaluation, EvaluationEvent, values
from llmeval_sdk.plugins.datadog.exporter._content import finite
from llmeval_sdk.process.shield import tell


MAX_LABEL = 200
_GOOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")
_OTHER = re.compile(r"[^A-Za-z0-9_]")


def label_of(name: str) -> str:
    """Return the label for a name. It is the same one in every process.

    ``ragas:context_precision`` becomes ``ragas__context_precision``, because
    ``ragas_context_precision`` is another metric.
    """
    if _GOOD.fullmatch(name):
        return name
    label = _OTHER.sub("_", name.replace(":", "__"))
    if not label.strip("_"):  # nothing is left of the name, and two such names must stay apart
        label = f"evaluation_{crc32(name.encode('utf-8', 'replace')):08x}"
    elif not label[0].isalpha():
        label = f"e{label}" if label[0] == "_" else f"e_{label}"
    if len(label) > MAX_LABEL:
        end = f"_{crc32(name.encode('utf-8', 'replace')):08x}"
        label = label[: MAX_LABEL - len(end)] + end
    return label


class Labels:
    """The labels of one process; logs once if two names share one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the label for a name."""
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = label_of(name)
            other = self._names.setdefault(label, name)
            if other != name:
                tell(
                    f"exporter datadog: label {label[:60]}",
                    f"{other[:60]!r} and {name[:60]!r} are one evaluation in Datadog: rename one",
                )
        return label


ASSESSMENTS = ("pass", "fail")
JOIN_KEY = "join_on"
"""Key in an Evaluation's metadata of what to join on instead of a span."""


class UnsendableError(ValueError):
    """An evaluation that Datadog has no place for; the message is the reason that is counted."""


def metric(
    event: EvaluationEvent, *, label: str, join_on: Mapping[str, str | None], app: str, version: str
) -> dict[str, Any]:
    """Return the metric of an evaluation, joined to its span by the ids that Datadog knows.

    The same event always gives the same metric, so that sending it twice changes nothing. A failed
    evaluator has a label of its own, ``<label>_error``, with the type of the failure as its
    category. Raises `UnsendableError`.
    """
    evaluation = event.evaluation
    metadata = dict(evaluation.metadata)
    tags = metadata.pop("tags", None)
    app = str(metadata.pop("ml_app", None) or app)
    kind, value = _value(evaluation)
    fields: dict[str, Any] = {
        "label": f"{label[:194]}_error" if evaluation.error else label,
        "metric_type": kind,
        f"{kind}_value": value,
        "ml_app": app,
        "timestamp_ms": event.timestamp_ns // 1_000_000,
        "tags": _tags(evaluation, tags, app, version),
        **_target(evaluation, metadata, join_on),
    }
    assessment = _assessment(evaluation)
    if assessment:
        fields["assessment"] = assessment
    reasoning = evaluation.error.message if evaluation.error else evaluation.explanation
    if reasoning:
        fields["reasoning"] = reasoning
    fields["metadata"] = _metadata(evaluation, metadata)
    return fields


def _value(evaluation: Evaluation) -> tuple[str, Any]:
    value = evaluation.value
    if evaluation.error is not None:
        return "categorical", evaluation.error.type
    if value is None:
        raise UnsendableError("not_applicable")
    if type(value) is bool:
        return "boolean", value
    if type(value) is str:
        return "categorical", value
    number = float(value)
    if not math.isfinite(number):
        raise UnsendableError("not_finite")
    return "score", number


def _target(
    evaluation: Evaluation, metadata: dict[str, Any], ids: Mapping[str, str | None]
) -> dict[str, Any]:
    """Add what the evaluation is about; people's feedback has the ids at its top level."""
    span_id = ids.get("span_id")
    other = metadata.pop(JOIN_KEY, None)
    scope = "session" if metadata.get("scope") == "session" else "span"
    scope = str(metadata.pop("eval_scope", None) or scope)
    if evaluation.evaluator_kind == "human" and type(metadata.get("submitter")) is dict:
        submitter = {str(key): str(item) for key, item in metadata.pop("submitter").items()}
        about = other if type(other) is dict else {"span_id": span_id} if span_id else None
        if about is None:
            raise UnsendableError("no_span")
        return {"event_kind": "feedback", "submitter": submitter, **about}
    if type(other) is dict and "tag" in other:
        return {"event_kind": "evaluation", "join_on": other, "eval_scope": scope}
    if not span_id or not ids.get("trace_id"):
        raise UnsendableError("no_span")
    return {"event_kind": "evaluation", "join_on": {"span": dict(ids)}, "eval_scope": scope}


def _tags(evaluation: Evaluation, own: Any, app: str, version: str) -> list[str]:
    tags = {
        "ddtrace.version": version,
        "ml_app": app,
        "evaluator": evaluation.name,
        "evaluator_kind": evaluation.evaluator_kind,
        "evaluator_version": evaluation.evaluator_version,
    }
    if type(own) is dict:
        tags.update({str(key): str(value) for key, value in own.items()})
    return [f"{key}:{value}" for key, value in tags.items()]


def _assessment(evaluation: Evaluation) -> str | None:
    if evaluation.error is not None:
        return None
    if type(evaluation.value) is bool and evaluation.label is None:
        return values.word(evaluation.value)
    for word in (evaluation.label, evaluation.value):
        if type(word) is str and word.lower() in ASSESSMENTS:
            return word.lower()
    return None


def _metadata(evaluation: Evaluation, metadata: dict[str, Any]) -> dict[str, Any]:
    sent: dict[str, Any] = finite(metadata)
    for key, value in (
        ("label", evaluation.label),
        ("inclusion_probability", evaluation.inclusion_probability),
        ("probability", evaluation.probability),
        ("duration_seconds", evaluation.duration),
    ):
        if value is not None:
            sent.setdefault(key, finite(value))
    usage = evaluation.usage
    if usage is not None:
        sent.setdefault("total_tokens", usage.total_tokens)
        if usage.cost_usd is not None:
            sent.setdefault("cost_usd", finite(usage.cost_usd))
    return sent


def encode(fields: Mapping[str, Any]) -> bytes:
    """Write a metric as JSON; NaN raises instead of spoiling the whole request."""
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "replace")


def body_of(metrics: list[bytes]) -> bytes:
    """Wrap metrics as one request."""
    start = b'{"data":{"type":"evaluation_metric","attributes":{"metrics":['
    return b"".join((start, b",".join(metrics), b"]}}}"))
