"""Where records leave the pipeline: they are redacted, counted and handed to every delivery."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterable, Mapping
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
    tier_name,
    values,
)
from llmeval_sdk.pipeline.batch_exporter import Barrier, Delivery, Emitted
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.pipeline.queue import SMALL
from llmeval_sdk.pipeline.spool import read
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process.pieces import is_larger
from llmeval_sdk.process.shield import Count, Counts, shield, swallow, tell
from llmeval_sdk.statistics.reasons import explain
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import from_plain, to_plain, without_content


# Decides what of a record may leave: redacts it, packs it for the spool, strips its content.


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
        if self._redactor.may_concern(packed):
            packed = self._redactor.detect(packed)
        return _dumps(packed)

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
        if not self._redactor.may_concern(plain):
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
            if redactor.may_concern((known, content)):
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


def _plain(item: Span | EvaluationEvent) -> tuple[int, object, object]:
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
    documents. Feedback of a user still says that it is no label of an evaluator.
    """
    is_of_user = type(item) is EvaluationEvent and values.is_of_user(item.evaluation.metadata)
    if type(item) is EvaluationEvent:
        item = replace(item, evaluation=without_content(item.evaluation))
    elif type(item) is NotRun:
        item = replace(item, detail=item.detail.partition(":")[0])
    elif type(item) is SpanData and item.error is not None:
        item = replace(item, error=Failure(item.error.type))
    item = item if names else _nameless(item)
    if is_of_user and type(item) is EvaluationEvent:
        metadata = {**item.evaluation.metadata, values.SOURCE: values.USER}
        item = replace(item, evaluation=replace(item.evaluation, metadata=metadata))
    return item


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


# Where records leave the pipeline: they are redacted, counted and handed to every delivery.


_CLIENTS = ("openai", "anthropic", "litellm", "google.genai", "langchain_core", "boto3")


class Dispatcher:
    """Hands records to the deliveries. Called by the worker and by the judges' thread.

    Args:
        plan: decides what content may leave.
        deliveries: one for each exporter.
        privacy: redacts what evaluators wrote.
        spans: counts the spans that are made here, of judges' runs.
        evaluations: counts evaluations by how they came about.
    """

    def __init__(
        self,
        plan: Plan,
        deliveries: Iterable[Delivery],
        privacy: Privacy,
        *,
        spans: Count,
        evaluations: Counts,
    ) -> None:
        self._plan = plan
        self._deliveries = tuple(deliveries)
        self._privacy = privacy
        self._spans = spans
        self._evaluations = evaluations
        self._reasons = Reasons(plan)
        self.judged = Counts()
        """Judgements that gave a value, by judge."""
        self.not_run: dict[str, Counts] = {}
        """Judgements that were not made or gave no value, by judge and reason."""

    def emit(self, item: Emitted, size: int = SMALL) -> None:
        """Hand a record of about ``size`` bytes to every delivery."""
        for hooks in self._plan.hooks:
            with shield("plugins", calls_out=True):
                hooks.emitted(item)
        if not self._plan.content:
            item = self._permitted(item)
        if type(item) is NotRun:
            by_judge, name = self.not_run, item.evaluator
            (by_judge.get(name) or by_judge.setdefault(name, Counts())).add(item.reason)
            self._reasons.tell(item)
        for delivery in self._deliveries:
            delivery.offer(item, size)

    def emit_foreign(self, span: SpanData, size: int) -> None:
        """Hand on a span of another library, to the exporters that keep such spans."""
        item = self._permitted(span)
        for delivery in self._deliveries:
            delivery.keep(item, size)

    def _permitted(self, item: Emitted) -> Emitted:
        """Leave out of a record what the setting ``capture_content`` keeps at home."""
        return item if self._plan.content else bare(item, names=self._plan.names)

    def emit_written(self, item: Emitted) -> None:
        """Hand on what an evaluator wrote, redacted, with the size that it takes while it waits."""
        item = self._screened(item)
        self.emit(item, size_of(item) if type(item) is EvaluationEvent else SMALL)

    def emit_judged(self, item: Emitted) -> None:
        """Count and hand on what a judgement of this pipeline gave: its verdict, its trace."""
        if type(item) is EvaluationEvent:
            self._evaluations.add("judged")
            if item.evaluation.error is None:
                self.judged.add(tier_name(item.evaluation.name, item.evaluation.evaluator_kind))
        elif type(item) is SpanData:
            self._spans.add()
        self.emit_written(item)

    def written(self, item: Emitted) -> Emitted:
        """Return what may be kept elsewhere of what an evaluator wrote."""
        return self._permitted(self._screened(item))

    def barriers(self) -> list[Barrier]:
        """Return barriers that are set once all that was handed on so far has been delivered."""
        return [delivery.barrier() for delivery in self._deliveries]

    def _screened(self, item: Emitted) -> Emitted:
        """Redact what an evaluator wrote; where that fails, nothing that it wrote may leave."""
        try:
            return self._privacy.screen(item)
        except Exception as error:
            if not swallow("redact", error):
                raise
            if type(item) is SpanData:
                item = replace(item, response=None)
            return bare(item, names=True)


def size_of(event: EvaluationEvent) -> int:
    """Return about how many bytes an evaluation takes: an app's may have a megabyte of metadata."""
    evaluation = event.evaluation
    metadata = evaluation.metadata
    details = len(_dumps(metadata)) if is_larger(metadata, SMALL) else 0
    return SMALL + len(evaluation.explanation or "") + details


class Reasons:
    """Tells each reason why judges do not run once: whoever waits for scores wants to know."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reported: set[str] = set()

    def tell(self, item: NotRun) -> None:
        """Leave a line for the log if this reason is a loud one and new."""
        reason, row = item.reason, explain(item.reason)
        if not row.is_loud or reason in self._reported:
            return
        if reason == "no_judge_model" and not self._plan.has_model:
            return  # nobody asked for judges: there is only the default escalation
        self._reported.add(reason)
        detail = item.detail or row.meaning
        tell(
            f"judges, {reason}",
            f"{item.evaluator} did not run: {detail.rstrip('.')}. {row.advice} "
            "(this is said once; stats() counts)",
        )


def say_if_nothing_was_judged(plan: Plan, stats: Stats) -> None:
    """Leave a line where judges of LLM calls were asked for, and no LLM call was ever seen."""
    judges = [judge.name for judge in plan.judges if "llm" in judge.span_kinds]
    if not judges or any(name in stats.judged or name in stats.not_run for name in judges):
        return
    client = next((name for name in _CLIENTS if name in sys.modules), None)
    if client is None:
        return
    tell(
        "judges",
        f"{', '.join(judges)} had nothing to judge: no llm span with a prompt was seen, although "
        f"{client} is loaded. Let LLMObs.enable() or ddtrace-run instrument it, or use "
        "@llmeval.llm, and say the prompt with annotation_context(prompt=...)",
    )
