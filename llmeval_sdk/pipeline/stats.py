"""What was made, delivered, dropped and still waits: the numbers that add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from llmeval_sdk.model import Usage
from llmeval_sdk.statistics.reasons import HEURISTICS, Funnel, funnel


@dataclass(frozen=True, slots=True)
class ExporterStats:
    """One exporter's account: ``created = delivered + dropped + undelivered + unknown``."""

    created: int = 0
    """Spans and evaluations that were to go to it."""
    delivered: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason: ``queue_full``, ``spool_full``, ``exporter_full``, ``no_worker``, ``shutdown``,
    ``killed``, ``spooled`` (another process delivers it), or what the far end said."""
    undelivered: int = 0
    """Still waiting, here or in the queue before."""
    unknown: int = 0
    """Sent, and no answer came."""
    in_memory: int = 0
    """Of the delivered: kept in memory only, because the store's file was refused or could not be
    written; it ends with the process."""
    lost_traces: int = 0
    """How many of the records that are lost are the first span of a trace in this process."""

    def __add__(self, other: ExporterStats) -> ExporterStats:
        """Join the accounts of one exporter under two configurations."""
        return _added(self, other)

    @property
    def lost(self) -> Mapping[str, int]:
        """What nobody will deliver, by reason; ``unanswered`` may have arrived all the same."""
        gone = {**self.dropped, "unanswered": self.unknown}
        return {reason: n for reason, n in gone.items() if n and reason != "spooled"}

    @property
    def given_up(self) -> Mapping[str, int]:
        """What is lost, by reason, where the process ends now: also what still waits."""
        shutdown = self.lost.get("shutdown", 0) + self.undelivered
        return {**self.lost, "shutdown": shutdown} if shutdown else self.lost

    @property
    def balanced(self) -> bool:
        """Say whether the account adds up."""
        gone = self.delivered + sum(self.dropped.values()) + self.unknown
        return self.created == gone + self.undelivered


_Stats = TypeVar("_Stats", "ExporterStats", "Stats")


def _added(one: _Stats, other: _Stats) -> _Stats:
    """Add two accounts field by field."""
    names = [row.name for row in fields(one)]
    return type(one)(*(_joined(getattr(one, name), getattr(other, name)) for name in names))


def _joined(one: Any, other: Any) -> Any:
    """Add two numbers, or two mappings key by key. A flag is true only if both are."""
    if isinstance(one, Mapping):
        both = {key: _joined(one[key], other[key]) for key in one.keys() & other.keys()}
        return {**one, **other, **both}
    return one and other if isinstance(one, bool) else one + other


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of all counters; what ``stats()``, ``flush()`` and ``shutdown()`` return.

    Args:
        spans: How many spans have finished.
        evaluations: How many evaluations were made by evaluators or submitted by the app.
        dropped: How many spans and evaluations were dropped before the exporters, by reason. Each
            exporter's account counts them too.
        exporters: By exporter, what became of its records: ``created``, ``delivered``, ``dropped``
            by reason, ``unknown`` (sent without an answer) and ``undelivered``.
        judged: How many judgements gave a value, by judge. What a decision model answered in a
            judge's place is counted under ``<judge>.decision``, here and in ``not_run``.
        not_run: How often a judge did not run or gave no value, by judge and reason.
        judge_usage: Tokens and money of the judges' calls, apart from the app's own usage.
        cut_prompts: How many judgements had a prompt that was longer than any may be, so that its
            middle was left out, with a mark.
        pending_judgements: How many judgements wait or run.
        problems: By site, how many exceptions of ours or of evaluators the shield caught, and how
            often a function was misused, such as ``annotate()`` outside a span.
        spool: What became of records at the spool: ``kept``, ``adopted`` from other processes,
            ``left`` for the next one, ``torn``; and why some were not kept, such as ``full``.
        shared: What happened at the Redis that all hosts share: ``calls counted``, ``own limit``
            (it did not answer, so the host kept to the budget by itself), ``verdicts found``,
            ``verdicts shared``, ``failed: …``, ``not asked`` (while it was away).
        complete: For ``flush`` and ``shutdown``: whether all was done before the deadline.
        left_out: By kind, such as ``image_url`` or ``file``, how many parts of requests decisions
            were made without, because a decision model reads text only.
        fleet: What became of judgements that a fleet makes: ``handed_over`` to it, ``returned``
            with a verdict or a reason, ``spooled`` for a later process while its queue was away.
        sessions: What became of sessions: ``turns`` that were noted, ``turns cut`` from sessions
            that are too long, ``turns not kept``, and sessions ``evaluated``, ``evaluated without a
            pause`` (they were never idle for a day) or ``taken over`` from a process that died.

    Examples:
        >>> stats = llmeval.flush(timeout=10)
        >>> stats.complete, stats.losses
        (True, '')
    """

    spans: int = 0
    evaluations: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    exporters: Mapping[str, ExporterStats] = field(default_factory=dict)
    judged: Mapping[str, int] = field(default_factory=dict)
    not_run: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    judge_usage: Usage = Usage()  # noqa: RUF009
    cut_prompts: int = 0
    pending_judgements: int = 0
    problems: Mapping[str, int] = field(default_factory=dict)
    spool: Mapping[str, int] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    left_out: Mapping[str, int] = field(default_factory=dict)
    fleet: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)

    @property
    def funnels(self) -> Mapping[str, Funnel]:
        """By judge, how many records it could have judged and how many of them it did."""
        return {
            name: funnel(self.judged.get(name, 0), self.not_run.get(name, {}))
            for name in {**self.judged, **self.not_run}
            if name != HEURISTICS
        }

    @property
    def delivered(self) -> int:
        """Records delivered, over all exporters."""
        return sum(each.delivered for each in self.exporters.values())

    @property
    def undelivered(self) -> int:
        """Records that still wait, over all exporters."""
        return sum(each.undelivered for each in self.exporters.values())

    @property
    def losses(self) -> str:
        """Say in a few words what did not arrive and which judges were cut off; empty: nothing."""
        dropped: dict[str, int] = {} if self.exporters else dict(self.dropped)
        for each in self.exporters.values():
            dropped = _joined(dropped, each.dropped)
        dropped.pop("spooled", None)  # which somebody else delivers
        reasons = ", ".join(f"{reason} {times}" for reason, times in dropped.items())
        cut_off = sum(reasons.get("shutdown", 0) for reasons in self.not_run.values())
        in_memory = sum(each.in_memory for each in self.exporters.values())
        unknown = sum(each.unknown for each in self.exporters.values())
        told = (
            (self.undelivered, f"{self.undelivered} records not delivered in time"),
            (dropped, f"{sum(dropped.values())} dropped ({reasons})"),
            (unknown, f"{unknown} records that may not have arrived"),
            (in_memory, f"{in_memory} records kept in memory only, which end with this process"),
            (cut_off, f"{cut_off} judgements not made in time"),
        )
        return ", ".join(words for there, words in told if there)

    def __add__(self, other: Stats) -> Stats:
        """Join the counters of two configurations of one process."""
        # Those were counted by the process, so both configurations have seen the same ones.
        return replace(_added(self, other), problems={**self.problems, **other.problems})
