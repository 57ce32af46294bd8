"""Puts a configuration in force, and reacts when the app flushes, forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial
from time import monotonic

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation.resolve import place_of
from llmeval_sdk.model.protocols import Heuristic, Judge, Services
from llmeval_sdk.pipeline.dispatcher import say_if_nothing_was_judged
from llmeval_sdk.pipeline.pipeline import Pipeline
from llmeval_sdk.pipeline.plan import Plan, Plugin
from llmeval_sdk.pipeline.planning import make_plan
from llmeval_sdk.pipeline.runtime._in_force import InForce
from llmeval_sdk.pipeline.runtime._neighbours import meet
from llmeval_sdk.pipeline.spool import children_of
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.process.distribution import namesake_warning
from llmeval_sdk.process.exits import after_children, before_hard_exit
from llmeval_sdk.process.forks import wait_for_imports
from llmeval_sdk.store.identities import identities
from llmeval_sdk.tracing.internals import install, keep_images, state


in_force = InForce()
_exit_registered = False
_looked_for_namesake = threading.Lock()
"""The first worker that looks for another project's package takes it and never releases it."""
_metrics_shown = threading.Lock()
"""The first worker that shows the counters to OpenTelemetry takes it and never releases it."""


def configure_from_environment() -> None:
    """Set the SDK up from the environment alone. Never raises; problems are one log line each."""
    with in_force.lock:
        if in_force.pipeline is not None:
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
        put_in_force(resolved, plan, problems)


def deliver(timeout: float) -> Stats:
    """Judge and deliver what was recorded so far, for at most so many seconds."""
    deadline = monotonic() + timeout
    _set_up_for_children()
    return in_force.flush(deadline)


def _deliver_in_time(timeout: float | None) -> bool:
    return deliver(in_force.exit_seconds if timeout is None else timeout).complete


def _make(plan: Plan) -> Pipeline:
    return Pipeline(plan, begun=partial(before_hard_exit, _at_hard_exit), often=_housekeeping)


def _housekeeping() -> None:
    """Write waiting lines to the log; show OpenTelemetry the counters if the app has loaded it."""
    if _looked_for_namesake.acquire(blocking=False) and (warning := namesake_warning()):
        shield.tell("installation", warning)
    shield.write_notices()
    if "opentelemetry.metrics" in sys.modules and _metrics_shown.acquire(blocking=False):
        with shield.shield("otel metrics", calls_out=True):
            if not in_force.settings_or_default().otel_disabled:
                from llmeval_sdk.exporters.otlp.app_providers import observe

                observe(in_force.stats)


def put_in_force(resolved: Settings, plan: Plan, problems: Sequence[str]) -> None:
    """Replace the pipeline in force; the old one delivers its records in the background."""
    global _exit_registered  # noqa: PLW0603
    with in_force.lock:
        for problem in problems:
            setting, _, reason = problem.partition(": ")
            shield.tell(f"configure: {setting[:100]}", reason[:300] or "ignored")
        old, in_force.settings = in_force.pipeline, resolved
        services = Services(plan.redactor, in_force.lost, end=_at_exit, deliver=_at_flush)
        meet(plan.exporters, services)
        new = in_force.pipeline = _make(plan)
        state.sample_below = round(resolved.trace_sample_rate * (1 << 64))
        state.enabled = resolved.enabled
        keep_images(resolved.images == "keep")
        state.identities = identities(resolved, problems)
        state.recorder = new if resolved.enabled else None
        if not _exit_registered:
            _exit_registered = True
            registry.subscribe(_registered)
            atexit.register(_at_exit)
        if old is not None:
            old.retire(new)
            in_force.retire(old)
    for plugin in registry.plugins():
        if isinstance(plugin, Plugin):
            with shield.shield(f"plugin {plugin.name}", calls_out=True):
                plugin.start(resolved)
    shield.write_notices()


def _registered(evaluator: Heuristic | Judge) -> None:
    """Add a heuristic that was declared after configure() to the plan in force."""
    current = in_force.pipeline
    if current is None or evaluator.kind != "heuristic":
        return
    settings = in_force.settings_or_default()
    place = place_of(evaluator, settings, requested=evaluator.name in settings.evaluators)
    if place is not None:
        plan = current.plan
        (plan.inline if place == "caller" else plan.background).add(evaluator)


def _at_flush() -> None:
    """Judge and deliver while the app flushes another library, for as long as a judgement may take.

    An event loop is not held up: there the records are only sent sooner.
    """
    with shield.shield("flush"):
        asyncio = sys.modules.get("asyncio.events")
        on_a_loop = asyncio is not None and asyncio._get_running_loop() is not None
        deliver(0.0 if on_a_loop else in_force.settings_or_default().judge_timeout)


def _take_over_from_children() -> None:
    """Deliver what terminated children left, in a process that has recorded nothing itself."""
    with shield.shield("exit"):
        _set_up_for_children()
        if in_force.pipeline is not None:
            _at_exit()


def _set_up_for_children() -> None:
    """Set the SDK up if children of this process have recorded something and it has not."""
    if (
        in_force.pipeline is not None
        or not state.enabled
        or "multiprocessing.process" not in sys.modules
    ):
        return
    resolved = config.from_environment(problems=[])
    if children_of(resolved.store).exists():
        configure_from_environment()


def _at_exit() -> None:
    """Deliver what is there, and again after multiprocessing has ended this process's children."""
    if after_children(_end_of_all):
        with shield.shield("exit"):
            deliver(in_force.exit_seconds / 2)
    else:
        _end_of_all()


def _end_of_all() -> None:
    """Deliver what is there by the deadline, and tell what was not delivered."""
    with shield.shield("exit"):
        result = in_force.shutdown(monotonic() + in_force.exit_seconds)
        if losses := result.losses:
            shield.tell("exit", f"{losses}; see stats()")
        if (current := in_force.pipeline) is not None:
            say_if_nothing_was_judged(current.plan, result)
        shield.write_notices()
        for pipeline in in_force.newest_first():
            pipeline.clear()


def _at_hard_exit() -> None:
    """Deliver what is there, and end only if no thread of the app can still record something."""
    main = threading.main_thread()
    if all(thread.daemon or thread is main for thread in threading.enumerate()):
        _at_exit()
    else:
        deliver(in_force.exit_seconds)


def _after_fork() -> None:
    """Begin anew in a forked child: threads and waiting records belong to the parent."""
    in_force.begin_anew(lambda parents: _make(parents.plan))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports, after_in_child=_after_fork)


install(
    set_up=configure_from_environment, take_over=_take_over_from_children, deliver=_deliver_in_time
)
