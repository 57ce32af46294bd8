"""The composition root: Settings -> registry -> pipeline, installed into tracing.

Everything else of the package can be used without it; only here do the rooms meet.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from llmeval_sdk import _shield, config, registry
from llmeval_sdk._forks import wait_for_imports
from llmeval_sdk._hard_exit import after_children, before_hard_exit
from llmeval_sdk._planning import make_plan
from llmeval_sdk._setting import price_table
from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import Pipeline, Plan, Stats, say_if_nothing_was_judged
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.escalation import Escalation
from llmeval_sdk.policy.sampling import SamplingRule
from llmeval_sdk.protocols import LLM, Exporter, Heuristic, Judge
from llmeval_sdk.spool import CHILDREN
from llmeval_sdk.tracing import Link, is_off, state


_lock = threading.RLock()
_pipeline: Pipeline | None = None
_retired: list[Pipeline] = []
_settings: Settings | None = None
_exit_registered = False
_shown = threading.Lock()
"""Taken, and kept, by the worker that shows the counters to OpenTelemetry: once in a process."""


def configure(
    *,
    evaluators: Sequence[Heuristic | Judge | str | Any] = (),
    escalations: Sequence[Escalation] | None = None,
    sampling_rules: Sequence[SamplingRule] | str | None = None,
    budget: Budget | None = None,
    llm: LLM | str | Callable[..., Any] | None = None,
    exporters: Sequence[Exporter | str] | None = None,
    prices: Mapping[str, tuple[float, float]] | None = None,
    redact: Callable[[str], str] | Sequence[str] | str | None = None,
    **settings: Any,
) -> None:
    """Set the SDK up. Without it, the first span does so from the environment.

    What is given wins over the environment. May be called again: the later call wins, and what the
    earlier set-up took in is still delivered.

    Args:
        evaluators: evaluators to run beside the built-in heuristics: names or objects. Heuristics
            run on every evaluated span, judges where the sampling rules let them.
        escalations: which judges to ask when a cheap score is bad. Default: low or cut-off recall
            of an extraction asks ``context_recall_llm``. An empty list switches that off.
        sampling_rules: chance that a judge runs; ``SamplingRule`` objects or Datadog's JSON.
        budget: what judges may use at most.
        llm: the judge model: a name such as ``"gpt-4o"``, an LLM, or a callable. Naming one allows
            spending.
        exporters: where spans and scores go: names or Exporter objects.
        prices: own prices by model, of judges and of the app's own calls: USD per million input
            and output tokens.
        redact: what is taken out of everything that leaves this process: names of built-in
            detectors, or a function that gets every captured text and returns what may be seen of
            it (beside the detectors of the setting). Where it fails, so does the field, closed.
        **settings: any row of the settings table by its field name, such as ``store="traces.db"``.

    Raises:
        ConfigurationError: something cannot be used; the message names it and says what to do.
    """
    problems: list[str] = []
    names = tuple(name for name in exporters or () if isinstance(name, str))
    if isinstance(llm, str):
        settings["judge_model"], llm = llm, None
    if isinstance(settings.get("judge_api_key"), str):
        settings["judge_api_key"] = Secret(settings["judge_api_key"])
    if redact is not None and not callable(redact):
        settings["redact"] = (redact,) if isinstance(redact, str) else tuple(redact)
    if prices is not None:
        try:
            settings["prices"] = price_table(prices)
        except ValueError as error:
            raise ConfigurationError(f"prices: {error}") from None
    resolved = config.from_environment(
        problems=problems, exporters=names if exporters is not None else None, **settings
    )
    plan = make_plan(
        resolved,
        problems,
        evaluators=tuple(evaluators),
        escalations=escalations,
        rules=sampling_rules,
        budget=budget,
        llm=llm,
        exporters=tuple(each for each in exporters or () if not isinstance(each, str)),
        redact=redact if callable(redact) else None,
        strict=True,
    )
    _install(resolved, plan, problems)


def configure_from_environment() -> None:
    """Set the SDK up from the environment alone. Never raises; problems are one log line each."""
    with _lock:
        if _pipeline is not None:
            return
        problems: list[str] = []
        try:
            resolved = config.from_environment(problems=problems)
            plan = make_plan(resolved, problems)
        except Exception as error:
            if not _shield.swallow("configure", error, calls_out=True):
                raise
            state.enabled = False
            _shield.write_notices()
            return
        _install(resolved, plan, problems)


def flush(timeout: float = 10.0) -> Stats:
    """Wait until everything so far is scored, judged and delivered, at most ``timeout`` seconds.

    Returns the counters; ``complete`` says whether all was done in time. Never raises.
    """
    deadline = monotonic() + timeout
    _meet_children()
    return _merged([pipeline.flush(_left(deadline)) for pipeline in _newest_first()])


def shutdown(timeout: float | None = None) -> Stats:
    """Deliver what is there within ``timeout`` seconds (default: the setting) and stop recording.

    Returns the counters, with what was dropped by reason. Runs by itself when the process exits.
    """
    if timeout is None:
        timeout = (_settings or Settings()).shutdown_timeout
    deadline = monotonic() + timeout
    return _merged([pipeline.shutdown(_left(deadline)) for pipeline in _newest_first()])


def stats() -> Stats:
    """Return all counters as they stand; they add up, see `Stats`."""
    return _merged([pipeline.stats() for pipeline in [*_retired, *_current()]])


def _lost() -> Mapping[str, Mapping[str, int]]:
    """Return what no exporter will deliver, by exporter and reason."""
    return {name: each.lost for name, each in stats().exporters.items() if each.lost}


def enabled() -> bool:
    """Say whether a decorated call would be recorded here and now.

    False where the SDK is switched off (``LLMEVAL_ENABLED=0``, ``configure(enabled=False)``) and
    inside ``disabled()``. It sets nothing up, and never raises.
    """
    try:
        return state.enabled and not is_off() and settings().enabled
    except Exception as error:
        if not _shield.swallow("enabled", error):
            raise
        return False


def settings() -> Settings:
    """Return the settings in force."""
    return _settings or config.from_environment(problems=[])


def pipeline() -> Pipeline | None:
    """Return the pipeline in force, setting it up from the environment if there is none."""
    if _pipeline is None and state.enabled:
        configure_from_environment()
    return _pipeline if state.enabled else None


@contextmanager
def isolated() -> Iterator[None]:
    """Set the configuration aside for the block, for tests; what is made inside ends with it."""
    global _pipeline, _settings, _retired
    with _lock:
        kept = (_pipeline, _settings, _retired)
        switches = (state.enabled, state.recorder, state.sample_below, state.asked)
        others = (state.neighbours, state.ambient_parent)
        _pipeline, _settings, _retired = None, None, []
        state.enabled, state.recorder, state.asked = True, None, []
        state.neighbours, state.ambient_parent = (), None
    try:
        yield
    finally:
        for inner in [*_retired, *_current()]:
            inner.shutdown(5.0)
        with _lock:
            _pipeline, _settings, _retired = kept
            state.enabled, state.recorder, state.sample_below, state.asked = switches
            state.neighbours, state.ambient_parent = others


def _make(plan: Plan) -> Pipeline:
    return Pipeline(plan, begun=partial(before_hard_exit, _at_hard_exit), often=_often)


def _often() -> None:
    """Write what waits for the log; show the counters to OpenTelemetry if the app has loaded it."""
    _shield.write_notices()
    if "opentelemetry.metrics" in sys.modules and _shown.acquire(blocking=False):
        with _shield.shield("otel metrics", calls_out=True):
            if not settings().otel_disabled:
                from llmeval_sdk.exporters.otel.health import observe

                observe(stats)


def _newest_first() -> list[Pipeline]:
    """Return all pipelines: those that were replaced are ending by themselves, so they may wait."""
    return [*_current(), *reversed(_retired)]


def _left(deadline: float) -> float:
    return max(0.0, deadline - monotonic())


def _current() -> list[Pipeline]:
    return [_pipeline] if _pipeline is not None else []


def _merged(results: list[Stats]) -> Stats:
    total = results[0] if results else Stats()
    for each in results[1:]:
        total = total + each
    return total


def _install(resolved: Settings, plan: Plan, problems: Iterable[str]) -> None:
    """Put a new pipeline in place of the old one, which delivers what it has in the background."""
    global _pipeline, _settings, _exit_registered
    with _lock:
        for problem in problems:
            about, _, what = problem.partition(": ")
            _shield.tell(f"configure: {about[:100]}", what[:300] or "ignored")
        old, _settings = _pipeline, resolved
        _pipeline = _make(plan)
        state.sample_below = round(resolved.trace_sample_rate * (1 << 64))
        state.enabled = resolved.enabled
        state.recorder = _pipeline if resolved.enabled else None
        _meet(plan.exporters)
        if not _exit_registered:
            _exit_registered = True
            registry.subscribe(_registered)
            atexit.register(_at_exit)
        if old is not None:
            old.retire(_pipeline)
            _end(old)
    _shield.write_notices()


def _meet(exporters: Sequence[Exporter]) -> None:
    """Connect tracing with libraries that have a current span of their own."""
    for each in exporters:
        if hasattr(each, "before_exit"):
            each.before_exit = _at_exit
        if hasattr(each, "lost"):
            each.lost = _lost
    found = [around for each in exporters if (around := getattr(each, "surroundings", None))]
    state.neighbours = tuple(found)
    state.ambient_parent = partial(_parent_in, state.neighbours) if found else None
    for each in exporters:
        for hook, deliver in (("at_exit_signal", _at_exit), ("at_flush", _at_flush)):
            if (meet := getattr(each, hook, None)) is not None:
                meet(deliver)


def _parent_in(neighbours: tuple[Any, ...]) -> Any:
    """Return what a root nests under: a span of ours, a Link to another library's, or nothing."""
    for around in neighbours:
        found = around.parent()
        if found is not None:
            return Link(*found) if type(found) is tuple else found
    return None


def _registered(evaluator: Heuristic | Judge) -> None:
    """Let a heuristic that is declared after configure() attach by itself like the others."""
    if _pipeline is not None and evaluator.kind == "heuristic" and evaluator.automatic:
        inline = evaluator.inline and settings().heuristics == "inline"
        (_pipeline.plan.inline if inline else _pipeline.plan.background).add(evaluator)


def _end(old: Pipeline) -> None:
    """Deliver what a replaced pipeline has, in the background."""
    if not old.started:
        return
    _retired.append(old)
    ending = threading.Thread(target=old.shutdown, args=(30.0,), daemon=True, name="llmeval-retire")
    try:
        ending.start()
    except RuntimeError:
        old.shutdown(1.0)


def _at_flush() -> None:
    """Judge and deliver when the app flushes another library; as long as one judgement may take.

    An event loop is not held up: there, what waits is only sent sooner.
    """
    with _shield.shield("flush"):
        asyncio = sys.modules.get("asyncio.events")
        on_a_loop = asyncio is not None and asyncio._get_running_loop() is not None
        flush(0.0 if on_a_loop else settings().judge_timeout)


def take_over_from_children() -> None:
    """Deliver what terminated children left, for a process that recorded nothing itself."""
    with _shield.shield("exit"):
        _meet_children()
        if _pipeline is not None:
            _at_exit()


def _meet_children() -> None:
    """Set the SDK up where only children of this process have recorded something."""
    if _pipeline is not None or not state.enabled or "multiprocessing.process" not in sys.modules:
        return
    resolved = config.from_environment(problems=[])
    if Path(resolved.store).expanduser().with_name(CHILDREN).exists():
        configure_from_environment()


def _at_exit() -> None:
    """Deliver what is there; children that multiprocessing is about to end leave something too."""
    if after_children(_end_of_all):
        with _shield.shield("exit"):
            flush((_settings or Settings()).shutdown_timeout / 2)
    else:
        _end_of_all()


def _end_of_all() -> None:
    """Deliver what is there, within the deadline; say what was not."""
    with _shield.shield("exit"):
        result = shutdown()
        if losses := result.losses:
            _shield.tell("exit", f"{losses}; see stats()")
        if _pipeline is not None:
            say_if_nothing_was_judged(_pipeline.plan, result)
        _shield.write_notices()
        for pipeline in _newest_first():
            pipeline.clear()


def _at_hard_exit() -> None:
    """Deliver what is there; where threads of the app still run, what they record may follow."""
    main = threading.main_thread()
    if all(each.daemon or each is main for each in threading.enumerate()):
        _at_exit()
    else:
        flush((_settings or Settings()).shutdown_timeout)


def _after_fork() -> None:
    """Begin anew in a child: what waited in the parent is the parent's, and so are its threads."""
    global _pipeline, _lock
    _lock = threading.RLock()
    _inherited.extend([*_retired, *_current()])  # kept: a finaliser here could hurt the parent
    _retired.clear()
    if _pipeline is None:
        return
    for exporter in _pipeline.plan.exporters:
        restart = getattr(exporter, "after_fork", None)
        if restart is not None:
            with _shield.shield(f"exporter {exporter.name}", calls_out=True):
                restart()
    _pipeline = _make(_pipeline.plan)
    state.recorder = _pipeline if state.enabled else None


_inherited: list[Pipeline] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports, after_in_child=_after_fork)
