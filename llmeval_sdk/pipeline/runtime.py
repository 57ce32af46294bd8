"""Puts the parts together: settings, evaluators, pipeline and tracing.

Set up by the environment, the first traced call makes an intake plan and loads nothing else; the
worker makes the plan of all the rest. ``configure()`` makes both at once, since a person is
watching who has to hear of mistakes. What the first call does not need is imported inside
functions.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.config.settings import IdentitySettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline.intake import (
    NOTHING_EARLY,
    Early,
    IntakePlan,
    acts_early,
    intake_plan,
    make_early,
    may_be_live,
)
from llmeval_sdk.pipeline.pipeline import LOADING_SECONDS, MakePlan, Pipeline, nothing_recorded
from llmeval_sdk.process import forks, shield
from llmeval_sdk.process.exits import (
    QUIET_SECONDS,
    Ending,
    after_children,
    before_hard_exit,
    is_child,
    may_have_children,
    prompt_turns,
    seconds_left,
)
from llmeval_sdk.process.loading import load_module, loading
from llmeval_sdk.tracing.internals import Link, State, install, is_off, keep_images, state


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.budget import Budget
    from llmeval_sdk.evaluation.escalation import Escalation
    from llmeval_sdk.evaluation.sampling import SamplingRule
    from llmeval_sdk.model.protocols import (
        LLM,
        BaseExporter,
        ContextBridge,
        DecisionModel,
        Exporter,
        Heuristic,
        Judge,
    )
    from llmeval_sdk.pipeline.given import Given
    from llmeval_sdk.pipeline.plan import Plan
    from llmeval_sdk.pipeline.stats import ExporterStats, Stats


# Connects tracing with the other tracing libraries of this process, so that spans nest.


def _connect(exporters: Sequence[BaseExporter], redactor: Any) -> None:
    """Give the exporters of a new configuration what the SDK does for them."""
    from llmeval_sdk.model.protocols import Services

    services = Services(redactor, in_force.lost, end=_at_exit)
    for exporter in exporters:
        with shield.shield(f"exporter {exporter.name}", calls_out=True):
            exporter.connect(services)


def _bridge(exporters: Sequence[BaseExporter]) -> None:
    """Connect tracing with the libraries behind the exporters of the configuration in force."""
    bridges = tuple(sink.bridge for sink in exporters if sink.bridge is not None)
    state.neighbours = bridges
    state.ambient_parent = partial(_parent_in, bridges) if bridges else None


def _parent_in(bridges: tuple[ContextBridge, ...]) -> object:
    """Return the parent of a new root: a span of ours, a Link to another library's, or ``None``."""
    for bridge in bridges:
        parent = bridge.parent()
        if parent is not None:
            return Link(*parent) if type(parent) is tuple else parent
    return None


# The configuration in force, and the replaced ones whose records are still on their way.
#
# They are counted, flushed and shut down together. `_put_in_force` decides which configuration is
# put in force, and notices when the process ends.


REFUSED = "it raised: until a call succeeds, no text is recorded and no judge runs"
RETIRING_SECONDS = 7.5
"""How long a replaced pipeline may take to judge and deliver its records. Its threads are gone when
these and `threads.IDLE_SECONDS` are over: an app may be given another configuration at any time."""


class InForce:
    """The current pipeline and its settings, and those that were replaced."""

    def __init__(self) -> None:
        self.pipeline: Pipeline | None = None
        self.settings: Settings | None = None
        self.retired: list[Pipeline] = []
        self.lock = threading.RLock()
        """Held while one configuration replaces another."""
        self.is_hurried = False
        """Whether Ctrl-C has ended the wait at exit."""
        self.is_refused = False
        """Whether ``configure()`` has raised while nothing was in force."""
        self._inherited: list[Pipeline] = []

    @contextmanager
    def unopened(self) -> Iterator[None]:
        """Run ``configure()``; where it raises, open nothing that it may have been meant to close.

        What is in force stays so. Where nothing is, what the environment sets up meanwhile records
        no text and runs no judge.
        """
        try:
            yield
        except BaseException as error:
            if isinstance(error, ConfigurationError):
                from llmeval_sdk.exporters.redaction import without_secrets

                error.args = (without_secrets(str(error)),)
            self.is_refused = self.pipeline is None
            if self.is_refused:
                shield.tell("configure", REFUSED)
                shield.write_notices()
            raise
        self.is_refused = False

    def is_made_by(self, make_plan: MakePlan) -> bool:
        """Return whether the current pipeline is the one whose plan something makes."""
        return self.pipeline is not None and self.pipeline.make_plan is make_plan

    def is_made_of(self, given: Given) -> bool:
        """Return whether the current pipeline runs and was made of the same."""
        return self.pipeline is not None and self.pipeline.is_made_of(given)

    def all(self) -> list[Pipeline]:
        """Return all pipelines of this process, the oldest first."""
        forks.begin_anew()
        return self._pipelines()

    def _pipelines(self) -> list[Pipeline]:
        return [*self.retired, *([self.pipeline] if self.pipeline is not None else [])]

    def newest_first(self) -> list[Pipeline]:
        """Return all pipelines; replaced ones come last, because they end by themselves."""
        return self.all()[::-1]

    def stats(self) -> Stats:
        """Return the counters of all pipelines together."""
        return _merged([pipeline.stats() for pipeline in self.all()])

    def lost(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many records are lost, by exporter and reason; see `Services.losses`."""
        return _lost(self.stats(), lambda account: account.lost)

    def flush(self, ending: Ending | None) -> Stats:
        """Wait until everything so far is delivered; see `Pipeline.flush`."""
        return _merged([pipeline.flush(ending) for pipeline in self.newest_first()])

    def shutdown(self, seconds: float | None = None) -> Stats:
        """Deliver what is there, within so many seconds, and stop recording.

        By default it waits for as long as the end of the process may.
        """
        ending = self.ending if seconds is None else Ending.within(seconds)
        return _merged([pipeline.shutdown(ending) for pipeline in self.newest_first()])

    def settings_or_default(self) -> Settings:
        """Return the settings in force, or those of the environment where none are yet."""
        return self.settings or config.from_environment(problems=[])

    def finish_loading(self) -> None:
        """Wait until what is to deliver records is loaded: that is no part of an exit's time."""
        deadline = monotonic() + LOADING_SECONDS
        for pipeline in self.all():
            if pipeline.started:
                pipeline.work(seconds_left(deadline))

    @property
    def ending(self) -> Ending:
        """How long the end of the process may wait, from now on."""
        return Ending.within((self.settings or Settings()).shutdown_timeout)

    def retire(self, old: Pipeline) -> None:
        """Have a replaced pipeline deliver its records in the background."""
        if not old.started:
            return
        from llmeval_sdk.process.threads import in_background

        self.retired.append(old)
        if not in_background(_end, old, RETIRING_SECONDS):
            _end(old, 1.0)

    @contextmanager
    def without_configuration(self) -> Iterator[None]:
        """Run the block without a configuration; shut down what it made, and restore this one."""
        with self.lock:
            configuration = (self.pipeline, self.settings, self.retired, self.is_refused)
            switches = {name: getattr(state, name) for name in State.__slots__}
            self.pipeline, self.settings, self.retired, self.is_refused = None, None, [], False
            State.__init__(state)
        try:
            yield
        finally:
            for inner in self.all():
                inner.shutdown(Ending.within(5.0))
            with self.lock:
                self.pipeline, self.settings, self.retired, self.is_refused = configuration
                for name, value in switches.items():
                    setattr(state, name, value)

    def begin_anew(self) -> None:
        """Begin anew in a forked child, without the parent's threads and waiting records."""
        self.lock = threading.RLock()
        # Kept alive: what they hold must not be finalised here, as the parent still uses it.
        self._inherited.extend(self._pipelines())
        self.retired.clear()
        if self.pipeline is None:
            return
        for exporter in self.pipeline.exporters:
            with shield.shield(f"exporter {exporter.name}", calls_out=True):
                exporter.after_fork()
        self.pipeline = self.pipeline.in_child()
        state.recorder = self.pipeline if state.enabled else None


def _end(old: Pipeline, seconds: float) -> None:
    """Shut a replaced pipeline down; nobody waits for it who would hear of an exception."""
    with shield.shield("shutdown", calls_out=True):
        # Its spans are delivered beside its judges.
        old.shutdown(Ending.within(seconds)._replace(judges_share=0.9))


def _lost(
    stats: Stats, of: Callable[[ExporterStats], Mapping[str, int]]
) -> dict[str, Mapping[str, int]]:
    """Return what is lost; see `Services.losses`."""
    from llmeval_sdk.statistics.reasons import TRACES

    accounts = {name: account for name, account in stats.exporters.items() if of(account)}
    traces = {name: account.lost_traces for name, account in accounts.items()}
    lost = {name: of(account) for name, account in accounts.items()}
    return {**lost, TRACES: traces} if any(traces.values()) else lost


def _merged(results: Sequence[Stats]) -> Stats:
    from llmeval_sdk.pipeline.stats import Stats

    total = results[0] if results else Stats(problems=shield.caught.snapshot())
    for stats in results[1:]:
        total = total + stats
    return total


# Puts a configuration in force, and reacts when the app flushes, forks or ends.


in_force = InForce()
_exit_registered = False
_looked_for_namesake = threading.Lock()
"""The first worker that looks for another project's package takes it and never releases it."""
_metrics_shown = threading.Lock()
"""The first worker that shows the counters to OpenTelemetry takes it and never releases it."""


def _configure_from_environment() -> None:
    """Set the SDK up from the environment alone. Never raises; problems are one log line each."""
    with in_force.lock:
        if in_force.pipeline is not None:
            return
        try:
            with loading:
                _put_environment_in_force()
        except (Exception, SystemExit) as error:
            if not shield.swallow("configure", error, nothing_recorded(error)):
                raise
            state.enabled = False
            shield.write_notices()
    if (current := in_force.pipeline) is not None and current.intake.is_whole:
        current.work()  # without the lock, which its maker takes


def _put_environment_in_force() -> None:
    """Make what the app's thread needs of a plan, and leave the rest to the worker.

    Problems of the core's settings are said at once, since one of them may have switched the worker
    off; those of plugins are left to it.
    """
    read = _reader(config.snapshot(), is_refused=in_force.is_refused)
    problems: list[str] = []
    resolved, is_early = read(problems, plugins=False), acts_early()
    if problems:
        _tell(problems)
        shield.write_notices()
    early = NOTHING_EARLY
    if may_be_live(resolved) or is_early:
        resolved = read([])
        early = make_early(resolved)
        _connect(early.exporters, early.redactor)
        _bridge(early.exporters)
    intake = intake_plan(resolved, early.exporters)
    make = _plan_maker(read, early, starts_plugins=not is_early)
    _put_in_force(resolved, intake, make)
    if is_early:
        _start_plugins(resolved)


def _plan_maker(read: Callable[..., Settings], early: Early, *, starts_plugins: bool) -> MakePlan:
    """Return what makes the plan in the worker, and puts in force what was not made early.

    Where another configuration came meanwhile, the plan serves the records before it and changes
    nothing else.
    """

    def make(pause: Callable[[], None]) -> Plan:
        try:
            plan, resolved = _make_work_plan(read, early, pause)
        except Exception:
            with in_force.lock:
                state.enabled = state.enabled and not in_force.is_made_by(make)
            raise
        if not early.exporters:
            _connect(plan.exporters, plan.redactor)
        with in_force.lock:
            is_in_force = in_force.is_made_by(make)
            if is_in_force:
                in_force.settings = resolved
                if not early.exporters:
                    _bridge(plan.exporters)
        if is_in_force and starts_plugins:
            _start_plugins(resolved)
        return plan

    return make


def _reader(environment: Mapping[str, str], *, is_refused: bool) -> Callable[..., Settings]:
    """Return what reads the settings of an environment as it was.

    What a ``configure()`` that raised may have been meant to close is closed.
    """

    def read(problems: list[str], *, plugins: bool = True) -> Settings:
        resolved = config.from_environment(environment, problems=problems, plugins=plugins)
        return resolved.without_texts_and_judges(REFUSED) if is_refused else resolved

    return read


_STEPS = (
    "llmeval_sdk.statistics.reasons", "hashlib", "llmeval_sdk.evaluation.sampling",
    "llmeval_sdk.model.structure", "llmeval_sdk.evaluation.escalation",
    "llmeval_sdk.evaluation.json_rules", "llmeval_sdk.evaluation.limiter", "logging",
    "concurrent.futures", "socket", "subprocess", "ssl", "asyncio.events", "asyncio.base_events",
    "asyncio", "urllib.parse", "pathlib", "importlib.resources",
    "llmeval_sdk.judges.models.prices", "llmeval_sdk.model.sanitizing",
    "llmeval_sdk.judges.prompt", "llmeval_sdk.evaluation.models", "llmeval_sdk.heuristics",
    "llmeval_sdk.evaluation.resolve", "sqlite3", "llmeval_sdk.judges.base",
    "llmeval_sdk.evaluation.verdicts", "llmeval_sdk.pipeline.plan",
    "llmeval_sdk.pipeline.planning", "llmeval_sdk.exporters.redaction",
    "llmeval_sdk.pipeline.stats",
    "llmeval_sdk.pipeline.batch_exporter", "llmeval_sdk.pipeline.judging",
    "llmeval_sdk.pipeline.evaluating", "llmeval_sdk.pipeline.work",
)  # fmt: skip
"""What the worker loads, in an order in which each step takes a few milliseconds: what is imported
by others comes before them. A name that is missing here makes one step longer, and nothing else."""


def _make_work_plan(
    read: Callable[..., Settings], early: Early, pause: Callable[[], None]
) -> tuple[Plan, Settings]:
    """Make the plan of what works in the background, of the environment as it was."""
    for module in _STEPS:
        with suppress(Exception):  # what needs it fails by itself
            load_module(module)
        pause()
    from llmeval_sdk.pipeline.planning import make_plan

    problems = list(early.problems)
    registry.plugins()
    pause()
    resolved = read(problems)
    pause()
    plan = make_plan(resolved, problems, early=early, pause=pause)
    _tell(problems)
    return plan, resolved


def _tell(problems: Sequence[str]) -> None:
    """Leave a line for the log for each mistake, without what it may quote of a secret."""
    from llmeval_sdk.exporters.redaction import without_secrets

    for problem in problems:
        setting, _, reason = problem.partition(": ")
        reason = without_secrets(reason)[:300] or "ignored"
        shield.tell(f"configure: {without_secrets(setting)[:100]}", reason)


def _start_plugins(resolved: Settings) -> None:
    from llmeval_sdk.pipeline.plan import Plugin

    for plugin in registry.plugins():
        if isinstance(plugin, Plugin):
            with shield.shield(f"plugin {plugin.name}", calls_out=True):
                plugin.start(resolved)


def deliver(ending: Ending | None) -> Stats:
    """Judge and deliver what was recorded so far; ``None`` sets no limit, see `flush`."""
    _set_up_for_children()
    return in_force.flush(ending)


def _deliver_in_time(timeout: float | None) -> bool:
    return deliver(in_force.ending if timeout is None else Ending.within(timeout)).complete


def _make(intake: IntakePlan, make_plan: MakePlan) -> Pipeline:
    begun = partial(before_hard_exit, _at_hard_exit)
    return Pipeline(intake, make_plan, begun=begun, often=_housekeeping)


def _housekeeping() -> None:
    """Write waiting lines to the log; show OpenTelemetry the counters if the app has loaded it."""
    if _looked_for_namesake.acquire(blocking=False):
        with shield.shield("installation"), loading:
            from llmeval_sdk.process.distribution import namesake_warning

            if warning := namesake_warning():
                shield.tell("installation", warning)
    with shield.shield("losses"):
        from llmeval_sdk.pipeline.loss_lines import loss_lines

        loss_lines.look(in_force.stats)
    shield.write_notices()
    if "opentelemetry.metrics" in sys.modules and _metrics_shown.acquire(blocking=False):
        with shield.shield("otel metrics", calls_out=True):
            if not in_force.settings_or_default().otel_disabled:
                from llmeval_sdk.exporters.otlp.app_providers import observe

                observe(in_force.stats)


def _put_in_force(resolved: Settings, intake: IntakePlan, make_plan: MakePlan) -> None:
    """Replace the pipeline in force; the old one delivers its records in the background."""
    global _exit_registered  # noqa: PLW0603
    with in_force.lock:
        old, new = in_force.pipeline, _make(intake, make_plan)
        identities = _identities(resolved)
        in_force.settings = resolved
        state.sample_below = round(resolved.trace_sample_rate * (1 << 64))
        state.enabled = resolved.enabled
        keep_images(resolved.images == "keep")
        state.identities = identities
        # Last: other threads use a pipeline that they see here without the lock.
        in_force.pipeline = new
        state.recorder = new if resolved.enabled else None
        if not _exit_registered:
            _exit_registered = True
            registry.subscribe(_registered)
            atexit.register(_at_exit)
        if not is_child():  # whoever terminates it must not have to wait for it
            _before_sigterm()
        if old is not None:
            old.retire(new)
            in_force.retire(old)


def _identities(resolved: Settings) -> Any:
    """Return what hashes the ids of users and sessions; ``None`` where no setting asks for it."""
    if resolved.of(IdentitySettings).hash_ids is None and config.IDS not in resolved.closed:
        return None
    from llmeval_sdk.store.identities import identities

    return identities(resolved)


def _registered(evaluator: Heuristic | Judge) -> None:
    """Add what was declared after configure() to the plan: heuristics, and awaited judges."""
    current = in_force.pipeline
    if current is None:
        return
    if evaluator.kind == "judge":
        current.add_judge(evaluator)
        return
    from llmeval_sdk.evaluation.standing import place_of

    settings = in_force.settings_or_default()
    place = place_of(evaluator, settings, requested=evaluator.name in settings.evaluators)
    if place is not None:
        current.add(evaluator, inline=place == "caller")


def _take_over_from_children() -> None:
    """Deliver what terminated children left, in a process that has recorded nothing itself."""
    with shield.shield("exit"):
        _set_up_for_children()
        if in_force.pipeline is not None:
            _at_exit()


def _set_up_for_children() -> None:
    """Set the SDK up if children of this process have recorded something and it has not."""
    if in_force.pipeline is not None or not state.enabled or not may_have_children():
        return
    from llmeval_sdk.pipeline.spool import children_of

    resolved = config.from_environment(problems=[], plugins=False)
    if children_of(resolved.store).exists():
        _configure_from_environment()


def _at_exit() -> None:
    """Deliver what is there, and again after multiprocessing has ended this process's children."""
    if after_children(_end_of_all):
        try:
            with shield.shield("exit"), prompt_turns():
                deliver(in_force.ending.part(0.5))
        except KeyboardInterrupt:
            in_force.is_hurried = True
    else:
        _end_of_all()


def _end_of_all() -> None:
    """Deliver what is there by the deadline, and tell what was not delivered."""
    with shield.shield("exit"), prompt_turns():
        try:
            in_force.finish_loading()
            result = in_force.shutdown(0.0 if in_force.is_hurried else None)
        except KeyboardInterrupt:  # whoever pressed Ctrl-C does not want to wait
            result = in_force.stats()
        if (current := in_force.pipeline) is not None:
            current.say_if_nothing_was_judged(result)
        _tell_losses(result)
        for pipeline in in_force.newest_first():
            pipeline.clear()


def _before_sigterm() -> None:
    """Have what is there delivered before SIGTERM ends the process. Process 1 outlives it."""
    from llmeval_sdk.process.terminated import DELIVERY_SECONDS, before_sigterm

    def at_sigterm() -> None:
        ending = in_force.ending
        until = min(ending.deadline, monotonic() + DELIVERY_SECONDS)
        # A thread that ends the pipeline may be the main one, which the signal has interrupted.
        is_ending = any(pipeline.is_ending for pipeline in in_force.all())
        with shield.shield("exit"), prompt_turns():
            _tell_losses(deliver(Ending(until, QUIET_SECONDS if is_ending else ending.quiet)))

    before_sigterm(at_sigterm)


def _tell_losses(result: Stats) -> None:
    """Say what was not delivered, in the log and in the note that the store keeps."""
    if losses := result.losses:
        from llmeval_sdk.pipeline.loss_lines import advice
        from llmeval_sdk.pipeline.stats import ExporterStats

        given_up = {name: account.given_up for name, account in result.exporters.items()}
        if not given_up:  # an agent delivers
            given_up = {"spool": ExporterStats(dropped=result.dropped).lost}
        shield.tell("llmeval at exit", f"{losses}. {advice(given_up)} stats() counts them.")
    shield.write_notices()  # before the notes, since a disk may hang
    if losses:
        is_kept = "kept" in result.spool  # in the spool, for another process
        lost = _lost(result, lambda account: account.lost if is_kept else account.given_up)
        for pipeline in in_force.all():
            pipeline.note(lost)


def _at_hard_exit() -> None:
    """Deliver what is there, and end only if no thread of the app can still record something."""
    main = threading.main_thread()
    if all(thread.daemon or thread is main for thread in threading.enumerate()):
        _at_exit()
    else:
        deliver(in_force.ending)


def _after_fork() -> None:
    """Begin anew in a forked child: threads and waiting records belong to the parent."""
    in_force.begin_anew()


forks.after_in_child(_after_fork)


install(
    set_up=_configure_from_environment, take_over=_take_over_from_children, deliver=_deliver_in_time
)


# Puts the parts together: settings, evaluators, pipeline and tracing.
#
# This is the only room that knows all others; each of them can be used without it.


@in_force.unopened()
def configure(
    *,
    evaluators: Sequence[Heuristic | Judge | str | Any] = (),
    escalations: Sequence[Escalation] | None = None,
    sampling_rules: Sequence[SamplingRule] | str | None = None,
    budget: Budget | None = None,
    llm: LLM | str | Callable[..., Any] | None = None,
    decisions: DecisionModel | str | Callable[..., Any] | None = None,
    exporters: Sequence[Exporter | str] | None = None,
    prices: Mapping[str, tuple[float, ...]] | None = None,
    redact: Callable[[str], str] | Sequence[str] | str | None = None,
    **settings: Any,
) -> None:
    """Set the SDK up: evaluators, judges and what they may cost, exporters, and any setting.

    Calling it is optional: the first span sets the SDK up from the environment. An argument wins
    over the environment. It may be called again; the later call wins, and what was recorded before
    is still delivered. Where it is given the same again, as in a script that runs anew, nothing
    changes.

    Args:
        evaluators: Evaluators to run beside the built-in heuristics: names or objects. Heuristics
            run on every evaluated span, judges where the sampling rules let them.
        escalations: Which judges to ask when a cheap score is bad. By default
            ``context_recall_llm`` is asked about an extraction whose recall is low or was cut off
            by a limit; an empty list asks no judge.
        sampling_rules: The chance that a judge runs: `SamplingRule` objects or Datadog's JSON.
        budget: What judges may use at most.
        llm: The judge model: a name such as ``"gpt-4o"``, an `LLM`, or a callable. Naming one
            allows the SDK to spend money on it.
        decisions: The decision model, which answers typed questions with probabilities: a name such
            as ``"openai/gpt-6-luna"``, a `DecisionModel`, or a callable. It is asked in the place
            of the judges among ``evaluators``, with one request for each record, and judges that
            are escalated are asked of the judge model. Naming one allows the SDK to spend money on
            it.
        exporters: Where spans and scores go: names or `Exporter` objects.
        prices: Your own prices by model, for judges and for the app's calls: USD per million input
            and output tokens; a third and a fourth number are the prices of input that a cache had,
            and that it keeps.
        redact: What to remove from everything that leaves this process: names of built-in
            detectors, or a function that gets every captured text and returns what may be seen of
            it (beside the detectors of the setting). If it fails, the text is left out.
        **settings: Any row of the settings table by its field name, such as ``store="traces.db"``.

    Raises:
        ConfigurationError: An argument or a setting cannot be used; the message names it and says
            what to do.

    Examples:
        >>> llmeval.configure(
        ...     exporters=["memory"],
        ...     escalations=[
        ...         llmeval.Escalation("groundedness", when=llmeval.below("context_relevance", 0.4))
        ...     ],
        ...     budget=llmeval.Budget(usd_per_day=2.0),
        ... )
    """
    from llmeval_sdk.pipeline.given import Given
    from llmeval_sdk.pipeline.options import read_options
    from llmeval_sdk.pipeline.planning import check_decorators, make_plan

    given = read_options(
        settings,
        evaluators=evaluators,
        escalations=escalations,
        sampling_rules=sampling_rules,
        budget=budget,
        llm=llm,
        decisions=decisions,
        exporters=exporters,
        prices=prices,
        redact=redact,
    )
    problems: list[str] = []
    resolved = config.from_environment(problems=problems, instead=given.instead, **given.settings)
    now = Given.now(resolved, given.plan)
    if in_force.is_made_of(now):
        check_decorators(resolved)
        return
    plan = make_plan(resolved, problems, strict=True, **given.plan)
    _put_plan_in_force(resolved, plan, problems, now)


def _put_plan_in_force(
    resolved: Settings, plan: Plan, problems: Sequence[str], given: Given | None = None
) -> None:
    """Put a plan in force that is made already, with all that works in the background."""
    with in_force.lock:
        if given is not None and in_force.is_made_of(given):  # another thread was faster
            return
        _tell(problems)
        _connect(plan.exporters, plan.redactor)
        _bridge(plan.exporters)
        _put_in_force(resolved, IntakePlan.of(plan), lambda _: plan)
        if in_force.pipeline is not None:
            in_force.pipeline.given = given
            in_force.pipeline.work()
    _start_plugins(resolved)
    shield.write_notices()


FLUSH_SECONDS = 10.0


def flush(timeout: float | None = FLUSH_SECONDS) -> Stats:
    """Wait until everything that was recorded so far is scored, judged and delivered.

    It never raises but what Ctrl-C does. What it leaves goes on in the background, and a line of
    the log says what that is. It does not wait until open sessions are idle and evaluated, only
    until their turns are in the file from which that happens later.

    Args:
        timeout: How many seconds to wait at most. ``None`` waits until nothing is pending: for as
            long as judgements come to an end, which each does within ``LLMEVAL_JUDGE_TIMEOUT``,
            and until each exporter has delivered or given up, which takes ten minutes at most.

    Returns:
        The counters; ``complete`` says whether everything was done in time.

    Examples:
        >>> llmeval.flush(timeout=5.0).complete
        True
    """
    seconds = _seconds(timeout, FLUSH_SECONDS)
    result = deliver(None if seconds is None else Ending.within(seconds))
    current = in_force.pipeline
    if current is not None and not result.complete and (left := current.left(result)):
        shield.tell("flush", f"left {left}: flush(timeout=None) waits for that")
        shield.write_notices()
    return result


def shutdown(timeout: float | None = None) -> Stats:
    """Deliver what was recorded, and stop recording. It runs by itself when the process exits.

    Args:
        timeout: How many seconds to wait at most; by default the setting
            ``LLMEVAL_SHUTDOWN_TIMEOUT``, and where it is not set, for as long as records are
            delivered: until nothing arrives for half a second, and 10 seconds at most.

    Returns:
        The counters, with what was dropped by reason.

    Examples:
        >>> result = llmeval.shutdown(timeout=5.0)
        >>> result.losses
        ''
    """
    result = in_force.shutdown(_seconds(timeout, None))
    _tell_losses(result)
    return result


def _seconds(timeout: object, default: float | None) -> float | None:
    """Return how long to wait: ``None`` stays, and what is no time is counted as the default."""
    try:
        seconds = inf if timeout is None else float(timeout)  # type: ignore[arg-type]
    except Exception as error:
        if not shield.swallow("timeout=", error):
            raise
        return default
    if seconds != seconds:  # noqa: PLR0124 - NaN
        return default
    return None if seconds == inf else max(0.0, seconds)


def stats() -> Stats:
    """Return all counters as they stand: what was recorded, judged, delivered and dropped, and why.

    The counters add up: what was created was delivered, was dropped for a reason that is named, or
    still waits. See `llmeval_sdk.pipeline.Stats`.

    Examples:
        >>> with llmeval.workflow("answer", request="What is the roof made of?") as span:
        ...     span.response = "Slate."
        >>> llmeval.flush().spans
        1
        >>> llmeval.stats().dropped  # by reason
        {}
    """
    return in_force.stats()


def enabled() -> bool:
    """Return whether a decorated call would be recorded here and now.

    It is false where the SDK is switched off (``LLMEVAL_ENABLED=0``,
    ``configure(enabled=False)``) and inside ``disabled()``. It sets nothing up and never raises.

    Examples:
        >>> llmeval.enabled()
        True
    """
    try:
        return state.enabled and not is_off() and settings().enabled
    except Exception as error:
        if not shield.swallow("enabled", error):
            raise
        return False


def settings() -> Settings:
    """Return the settings in force."""
    return in_force.settings_or_default()


def pipeline() -> Pipeline | None:
    """Return the pipeline in force, setting it up from the environment if there is none."""
    forks.begin_anew()
    if in_force.pipeline is None and state.enabled:
        _configure_from_environment()
    return in_force.pipeline if state.enabled else None


@contextmanager
def isolated() -> Iterator[None]:
    """Begin the block without a configuration, for tests, and restore the present one after it."""
    with in_force.without_configuration():
        yield


@contextmanager
def recording(
    resolved: Settings, problems: list[str], *, exporters: Sequence[Exporter], exports: bool
) -> Iterator[None]:
    """Trace the block under other settings, without evaluating anything.

    Raises `ConfigurationError` for an exporter that is not known or lacks its library.
    """
    from llmeval_sdk.pipeline.planning import recording_plan

    plan = recording_plan(resolved, problems, exporters=exporters, exports=exports)
    with isolated():
        _put_plan_in_force(resolved, plan, problems)
        yield
