"""What a pipeline works by: evaluators, policies and limits, resolved once by the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk._process.shield import tell
from llmeval_sdk.evaluation import Heuristics
from llmeval_sdk.policy.gate import Gate
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.protocols import LLM, BaseExporter, Heuristic, Judge
from llmeval_sdk.redaction import Redactor
from llmeval_sdk.spool import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The resolved configuration of one pipeline."""

    exporters: tuple[BaseExporter, ...]
    inline: Heuristics
    """Built-in metadata heuristics and those declared inline: run on the app's thread."""
    background: Heuristics
    judges: tuple[Judge, ...] = ()
    """Judges considered for every evaluated span."""
    find: Callable[[Any], Heuristic | Judge | None]
    """Resolves what a span's own ``evaluators=`` names; ``None`` if unknown, which is counted."""
    gate: Gate
    llm: Callable[[], LLM | None]
    """Makes the judge model; ``None`` when no judge may spend anything."""
    has_model: bool = False
    keeper: BudgetKeeper
    concurrency: int = 8
    judge_timeout: float = 60.0
    retrieved: str = "last"
    retrieval_limits: Mapping[str, int] | None = None
    content: bool = True
    """Whether the app's texts may leave."""
    names: bool = True
    """Whether names, tags, metadata and document ids that the app chose may leave."""
    redactor: Redactor = field(default_factory=Redactor)
    """Takes out of every record what may not leave."""
    spool: Folder | None = None
    """Where records survive the process."""
    children: Folder | None = None
    """Where records of multiprocessing's children survive them, where there is no ``spool``."""
    worker: str = "thread"
    """``off`` leaves the records in the spool, ``agent`` also takes what living processes leave."""
    recent: Callable[[str], list[tuple[str | None, float]]] | None = None
    """Returns the span names and latest scores of an evaluator, oldest first, of earlier processes:
    what budgeted escalation begins with."""
    queue_records: int = 20_000
    queue_bytes: int = 32 << 20
    background_share: float = 0.5
    prices: Mapping[str, tuple[float, float]] | None = field(default=None)
    """Own prices of models, judges' and the app's: USD per million input and output tokens."""

    def prefers_llm(self, judge: Judge) -> bool:
        """Say whether a judge looks at ``llm`` spans first; an escalated one needs the scores."""
        return "llm" in judge.span_kinds and not self.gate.names(judge.name)

    def named(self, names: Iterable[Any]) -> list[Any]:
        """Return the evaluators that a span names; what is unknown is said."""
        evaluators = []
        for name in names:
            evaluator = self.find(name)
            if evaluator is None:
                tell("evaluators=", f"no evaluator is named {name!r}"[:120])
            else:
                evaluators.append(evaluator)
        return evaluators
