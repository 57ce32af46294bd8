"""Where records leave the pipeline: they are redacted, counted and handed to every delivery."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace

from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData, tier_name
from llmeval_sdk.pipeline._privacy import Privacy, bare
from llmeval_sdk.pipeline.batch_exporter import Barrier, Delivery, Emitted
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process.shield import Count, Counts, shield, swallow, tell


LOUD = frozenset((
    "no_judge_model", "over_budget", "circuit_open", "no_worker", "not_installed", "worker_lost",
    "queue_unreachable",
))  # fmt: skip
"""Reasons that a person should do something about, so that they get a line in the log."""
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

    def emit(self, item: Emitted, size: int = 1_000) -> None:
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
        """Hand on what an evaluator wrote, redacted."""
        self.emit(self._screened(item))

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


class Reasons:
    """Tells each reason why judges do not run once: whoever waits for scores wants to know."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reported: set[str] = set()

    def tell(self, item: NotRun) -> None:
        """Leave a line for the log if this reason is a loud one and new."""
        reason = item.reason
        if reason not in LOUD or reason in self._reported:
            return
        if reason == "no_judge_model" and not self._plan.has_model:
            return  # nobody asked for judges: there is only the default escalation
        self._reported.add(reason)
        from llmeval_sdk.store.reasons import explain

        detail = item.detail or explain(reason).meaning
        advice = explain(reason).advice
        tell(
            f"judges, {reason}",
            f"{item.evaluator} did not run: {detail.rstrip('.')}. {advice} "
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
