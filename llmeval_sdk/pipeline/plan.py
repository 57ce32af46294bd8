"""The plan that a pipeline works by, and what plugins may do to it and to the pipeline.

A plan is made of the settings and of what ``configure()`` was given (`pipeline.planning`). This
module loads nothing of the rooms below, so that the manifests of plugins may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llmeval_sdk.process.shield import shield, tell
from llmeval_sdk.registry import Manifest


if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from llmeval_sdk.config import Settings
    from llmeval_sdk.evaluation.decisions import Decider
    from llmeval_sdk.evaluation.escalation import JudgeGate
    from llmeval_sdk.evaluation.limiter import BudgetLimiter
    from llmeval_sdk.evaluation.models import Models
    from llmeval_sdk.evaluation.scoring import Heuristics
    from llmeval_sdk.evaluation.verdicts import Verdicts
    from llmeval_sdk.exporters.redaction import Redactor
    from llmeval_sdk.model import Record
    from llmeval_sdk.model.protocols import (
        LLM,
        BaseExporter,
        DecisionModel,
        Evaluator,
        Judge,
    )
    from llmeval_sdk.pipeline.spool import Folder
    from llmeval_sdk.tracing import Span


class Hooks:
    """What a plugin does while one pipeline runs. Every method here does nothing.

    The worker's thread calls all of them but `judgement_wanted` and `emitted`, which the judges'
    thread calls too, and `stats` and `close`, which any thread may call. An error costs that call
    alone.
    """

    counted_as: str = ""
    """The field of ``stats()`` that has the counts of `stats`."""
    needs_clock: bool = False
    """Whether `study` has to be called although no record comes."""

    def begin(self, running: Running) -> None:
        """Take what the hooks may use of the pipeline, before its first record."""

    def record_evaluated(self, span: Span, record: Record, *, in_spool: bool) -> list[Future[None]]:
        """Take in an evaluated span; return what its record in the spool has to wait for."""
        return []

    def judgement_wanted(self, judge: str, record: Record) -> None:
        """Take in that a judge is about to see a record."""

    def emitted(self, item: object) -> None:
        """Take in what is handed to the exporters: spans, evaluations, judgements not made."""

    def study(self) -> bool:
        """Do a slice of background work of about a millisecond; return whether there is more."""
        return False

    def flush(self) -> bool:
        """Write what waits in memory, because somebody flushes; return whether all is written."""
        return True

    def stats(self) -> dict[str, int]:
        """Return what became of what was taken in, by word."""
        return {}

    def close(self) -> None:
        """Write what waits, and let go of files."""


@dataclass(frozen=True, slots=True)
class Running:
    """What hooks may use of the pipeline that runs them."""

    evaluate: Callable[..., None]
    """`Evaluating.evaluate_case`: scores what is no span, and has it judged."""
    barriers: Callable[[], list[Any]]
    """Returns barriers that are set once all that was emitted so far has been delivered."""


@dataclass(slots=True, kw_only=True)
class Planning:
    """What plugins may look at and change before the names of a plan are resolved.

    Args:
        settings: The settings in force.
        problems: Gets a line for each mistake of the environment.
        strict: Whether a person is watching, so that mistakes of ``configure()`` are raised.
        llm: The judge model that ``configure()`` was given.
        requested: The evaluators that were asked for.
        judging: Makes, of the plan and the dispatcher, what takes judgements in the place of this
            process's judges.
        hooks: What is called while the pipeline runs.
        freezes: Whether the process may be frozen at any moment, so that records are sent at once.
        new_loop: Makes the event loop of the judges.
    """

    settings: Settings
    problems: list[str]
    strict: bool
    llm: Any = None
    requested: list[Evaluator] = field(default_factory=list)
    judging: Callable[[Any, Any], Any] | None = None
    hooks: list[Hooks] = field(default_factory=list)
    freezes: bool = False
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None


class Plugin(Manifest):
    """A capability that the core runs without; derive from it, and name the class as entry point.

    The package's entry point of the group ``llmeval_sdk.plugins`` names the class or an instance.
    What a plugin brings stands in the tables of `Manifest`; the methods say what it does. None of
    them has to be there.
    """

    def prepare(self, planning: Planning) -> None:
        """Look at the settings, and add to what a plan is made of.

        Raises:
            ConfigurationError: a setting of the plugin cannot be used, and a person is watching.
        """

    def complete(self, plan: Plan, settings: Settings, planning: Planning) -> Plan:
        """Return a finished plan, changed as the plugin needs it."""
        return plan

    def default_exporters(self, settings: Settings) -> tuple[str, ...]:
        """Return its exporters that the settings ask for although they name no exporter."""
        return ()

    def start(self, settings: Settings) -> None:
        """Act on a configuration that was put in force, once for each ``configure()``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlan:
    """Which decision model is asked what."""

    model: DecisionModel | None
    """``None`` where the one that the environment names cannot be used."""
    why_not: str = ""
    """Why it cannot be used."""
    judges: frozenset[str]
    """The judges whose questions it answers on all traffic."""
    thresholds: Mapping[str, float]
    """By the name of the judge, the probability from which on an outcome is good."""
    concurrency: int
    """Requests at a time, at most."""
    calibrations: Path
    """The file of the calibrations of judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The resolved configuration of one pipeline."""

    exporters: tuple[BaseExporter, ...]
    inline: Heuristics
    """Built-in metadata heuristics and those declared inline: run on the app's thread."""
    background: Heuristics
    judges: tuple[Judge, ...] = ()
    """Judges considered for every evaluated span."""
    awaited: frozenset[str] = frozenset()
    """Names of judges that escalations ask for and that nobody has declared."""
    late: list[Judge] = field(default_factory=list)
    """The judges of these names that were declared since."""
    find: Callable[[object], Evaluator | None]
    """Resolves what a span's own ``evaluators=`` names; ``None`` if unknown, which is counted."""
    gate: JudgeGate
    llm: Callable[[], LLM | None]
    """Makes the judge model; ``None`` when no judge may spend anything."""
    has_model: bool = False
    limiter: BudgetLimiter
    concurrency: int = 8
    judge_timeout: float = 60.0
    retrieved: str = "last"
    retrieval_limits: Mapping[str, int] | None = None
    content: bool = True
    """Whether the app's texts may leave."""
    names: bool = True
    """Whether names, tags, metadata and document ids that the app chose may leave."""
    redactor: Redactor
    """Takes out of every record what may not leave the process."""
    spool: Folder | None = None
    """Where records survive the process."""
    children: Folder | None = None
    """Where records of multiprocessing's children survive them, where there is no ``spool``."""
    role: str = "thread"
    """What this process does with records: ``thread`` evaluates and delivers them, ``off`` leaves
    them in the spool, and ``agent`` also takes those that living processes leave there."""
    recent: Callable[[str], list[tuple[str | None, float]]] | None = None
    """Returns the latest scores of an evaluator in earlier processes, with their span names, oldest
    first; escalation by share begins with them."""
    queue_records: int = 20_000
    queue_bytes: int = 32 << 20
    background_share: float = 1.0
    decisions: DecisionPlan | None = None
    """Which decision model answers the questions of which judges; ``None`` where none does."""
    judging: Callable[[Any, Any], Any] | None = None
    """Makes what takes judgements, of the plan and its outlet; ``None`` judges in this process."""
    verdicts: Callable[[], Verdicts]
    """Makes what finds the verdicts of identical judgements."""
    hooks: tuple[Hooks, ...] = ()
    """What plugins do while the pipeline runs."""
    freezes: bool = False
    """Whether the process may be frozen at any moment: records are sent at once."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the event loop of the judges; by default a plain one."""
    prices: Mapping[str, tuple[float, ...]] | None = field(default=None)
    """Own prices of models, judges' and the app's: USD per million input and output tokens."""

    def add_awaited(self, judge: Judge) -> None:
        """Consider a judge from now on, if an escalation asks for one of its name."""
        if judge.name in self.awaited and judge.per != "session":
            found = self.find(judge)
            if found is not None and found.kind == "judge":
                self.late[:] = [each for each in self.late if each.name != judge.name] + [found]

    def close(self, *, ledger: bool = True) -> None:
        """Let go of files; last of the link to Redis, which takes what the other parts leave.

        Args:
            ledger: also of that of the budget, and of the link. Whoever closes it while it does not
                answer waits for as long as that.
        """
        parts: tuple[Hooks | BudgetLimiter, ...] = (*self.hooks, *((self.limiter,) * ledger))
        for part in parts:
            with shield("the files of a plan"):
                part.close()

    def prefers_llm(self, judge: Judge) -> bool:
        """Return whether a judge looks at ``llm`` spans rather than at the requests above them.

        An escalated one does not: it needs the scores of the request.
        """
        return "llm" in judge.span_kinds and not self.gate.names(judge.name)

    def named(self, names: Iterable[object]) -> list[Evaluator]:
        """Return the evaluators that a span names.

        A line in the log says which are unknown, or evaluate sessions: `configure` takes those.
        """
        evaluators = []
        for name in names:
            evaluator = self.find(name)
            if evaluator is None or getattr(evaluator, "per", "answer") == "session":
                tell("evaluators=", f"no evaluator of requests is named {name!r}"[:120])
            else:
                evaluators.append(evaluator)
        return evaluators

    def models(self) -> Models:
        """Return the judge models, none of them made yet."""
        from llmeval_sdk.evaluation.models import Models

        return Models(self.llm, self.limiter, concurrency=self.concurrency, prices=self.prices)

    def decider(self) -> Decider:
        """Return what asks the decision model; its calibrations are read once."""
        from llmeval_sdk.evaluation.calibrations import Calibrations
        from llmeval_sdk.evaluation.decisions import Decider
        from llmeval_sdk.evaluation.verdicts import Verdicts

        decisions = self.decisions
        assert decisions is not None
        assert decisions.model is not None
        return Decider(
            decisions.model,
            self.limiter,
            concurrency=decisions.concurrency,
            timeout=self.judge_timeout,
            thresholds=decisions.thresholds,
            prices=self.prices,
            # A cache of their own: decisions are cheap and about all traffic, so they would push
            # the verdicts that cost more out of the judges' cache. And where hosts share that one,
            # each judge and record would be a round trip.
            verdicts=Verdicts(),
            calibrations=Calibrations(
                decisions.calibrations, lambda problem: tell("calibration", problem)
            ),
        )
