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

from llmeval_sdk import config, registry
from llmeval_sdk._in_force import InForce
from llmeval_sdk._neighbours import meet
from llmeval_sdk._process import shield
from llmeval_sdk._process.forks import wait_for_imports
from llmeval_sdk._process.hard_exit import after_children, before_hard_exit
from llmeval_sdk.config import Secret, Settings, price_table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import (
    Pipeline,
    Plan,
    Stats,
    make_plan,
    recording_plan,
    say_if_nothing_was_judged,
)
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.escalation import Escalation
from llmeval_sdk.policy.sampling import SamplingRule
from llmeval_sdk.protocols import LLM, Exporter, Heuristic, Judge, Services
from llmeval_sdk.spool import CHILDREN
from llmeval_sdk.tracing._inner import install, is_off, state


_lock = threading.RLock()
_in_force = InForce()
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
        if _in_force.pipeline is not None:
            return
        problems: list[str] = []
        try:
            resolved = config.from_environment(problems=problems)
            plan = make_plan(resolved, problems)
        except Exception as error:
            if not shield.swallow("configure", error, calls_out=True):
                raise
            state.enabled = False
            shield.write_notices()
            return
        _install(resolved, plan, problems)


def flush(timeout: float = 10.0) -> Stats:
    """Wait until everything so far is scored, judged and delivered, at most ``timeout`` seconds.

    Returns the counters; ``complete`` says whether all was done in time. Never raises.
    """
    deadline = monotonic() + timeout
    _meet_children()
    return _in_force.flush(deadline)


def shutdown(timeout: float | None = None) -> Stats:
    """Deliver what is there within ``timeout`` seconds (default: the setting) and stop recording.

    Returns the counters, with what was dropped by reason. Runs by itself when the process exits.
    """
    return _in_force.shutdown(
        monotonic() + (_in_force.exit_seconds if timeout is None else timeout)
    )


def stats() -> Stats:
    """Return all counters as they stand; they add up, see `Stats`."""
    return _in_force.stats()


def enabled() -> bool:
    """Say whether a decorated call would be recorded here and now.

    False where the SDK is switched off (``LLMEVAL_ENABLED=0``, ``configure(enabled=False)``) and
    inside ``disabled()``. It sets nothing up, and never raises.
    """
    try:
        return state.enabled and not is_off() and settings().enabled
    except Exception as error:
        if not shield.swallow("enabled", error):
            raise
        return False


def settings() -> Settings:
    """Return the settings in force."""
    return _in_force.settings_or_default()


def pipeline() -> Pipeline | None:
    """Return the pipeline in force, setting it up from the environment if there is none."""
    if _in_force.pipeline is None and state.enabled:
        configure_from_environment()
    return _in_force.pipeline if state.enabled else None


@contextmanager
def isolated() -> Iterator[None]:
    """Set the configuration aside for the block, for tests; what is made inside ends with it."""
    with _in_force.set_aside(_lock):
        yield


@contextmanager
def recording(
    resolved: Settings, problems: list[str], *, exporters: Sequence[Exporter], exports: bool
) -> Iterator[None]:
    """Trace the block under other settings, and evaluate nothing; then all is as it was.

    Raises `ConfigurationError` for an exporter that is not known or lacks its library.
    """
    plan = recording_plan(resolved, problems, exporters=exporters, exports=exports)
    with isolated():
        _install(resolved, plan, problems)
        yield


def _make(plan: Plan) -> Pipeline:
    return Pipeline(plan, begun=partial(before_hard_exit, _at_hard_exit), often=_often)


def _often() -> None:
    """Write what waits for the log; show the counters to OpenTelemetry if the app has loaded it."""
    shield.write_notices()
    if "opentelemetry.metrics" in sys.modules and _shown.acquire(blocking=False):
        with shield.shield("otel metrics", calls_out=True):
            if not settings().otel_disabled:
                registry.load("llmeval_sdk.exporters.otel.metrics:observe")(stats)


def _install(resolved: Settings, plan: Plan, problems: Iterable[str]) -> None:
    """Put a new pipeline in place of the old one, which delivers what it has in the background."""
    global _exit_registered  # noqa: PLW0603
    with _lock:
        for problem in problems:
            about, _, what = problem.partition(": ")
            shield.tell(f"configure: {about[:100]}", what[:300] or "ignored")
        old, _in_force.settings = _in_force.pipeline, resolved
        services = Services(plan.redactor, _in_force.lost, end=_at_exit, deliver=_at_flush)
        meet(plan.exporters, services)
        new = _in_force.pipeline = _make(plan)
        state.sample_below = round(resolved.trace_sample_rate * (1 << 64))
        state.enabled = resolved.enabled
        state.recorder = new if resolved.enabled else None
        if not _exit_registered:
            _exit_registered = True
            registry.subscribe(_registered)
            atexit.register(_at_exit)
        if old is not None:
            old.retire(new)
            _in_force.retire(old)
    shield.write_notices()


def _registered(evaluator: Heuristic | Judge) -> None:
    """Let a heuristic that is declared after configure() attach by itself like the others."""
    current = _in_force.pipeline
    if current is not None and evaluator.kind == "heuristic" and evaluator.automatic:
        inline = evaluator.inline and settings().heuristics == "inline"
        (current.plan.inline if inline else current.plan.background).add(evaluator)


def _at_flush() -> None:
    """Judge and deliver when the app flushes another library; as long as one judgement may take.

    An event loop is not held up: there, what waits is only sent sooner.
    """
    with shield.shield("flush"):
        asyncio = sys.modules.get("asyncio.events")
        on_a_loop = asyncio is not None and asyncio._get_running_loop() is not None
        flush(0.0 if on_a_loop else settings().judge_timeout)


def take_over_from_children() -> None:
    """Deliver what terminated children left, for a process that recorded nothing itself."""
    with shield.shield("exit"):
        _meet_children()
        if _in_force.pipeline is not None:
            _at_exit()


def _meet_children() -> None:
    """Set the SDK up where only children of this process have recorded something."""
    if (
        _in_force.pipeline is not None
        or not state.enabled
        or "multiprocessing.process" not in sys.modules
    ):
        return
    resolved = config.from_environment(problems=[])
    if Path(resolved.store).expanduser().with_name(CHILDREN).exists():
        configure_from_environment()


def _at_exit() -> None:
    """Deliver what is there; children that multiprocessing is about to end leave something too."""
    if after_children(_end_of_all):
        with shield.shield("exit"):
            flush(_in_force.exit_seconds / 2)
    else:
        _end_of_all()


def _end_of_all() -> None:
    """Deliver what is there, within the deadline; say what was not."""
    with shield.shield("exit"):
        result = shutdown()
        if losses := result.losses:
            shield.tell("exit", f"{losses}; see stats()")
        if (current := _in_force.pipeline) is not None:
            say_if_nothing_was_judged(current.plan, result)
        shield.write_notices()
        for pipeline in _in_force.newest_first():
            pipeline.clear()


def _at_hard_exit() -> None:
    """Deliver what is there; where threads of the app still run, what they record may follow."""
    main = threading.main_thread()
    if all(each.daemon or each is main for each in threading.enumerate()):
        _at_exit()
    else:
        flush(_in_force.exit_seconds)


def _after_fork() -> None:
    """Begin anew in a child: what waited in the parent is the parent's, and so are its threads."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    _in_force.begin_anew(lambda parents: _make(parents.plan))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports, after_in_child=_after_fork)


install(set_up=configure_from_environment, take_over=take_over_from_children)
