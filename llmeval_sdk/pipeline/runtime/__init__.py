"""Puts the parts together: settings, evaluators, pipeline and tracing.

This is the only room that knows all others; each of them can be used without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.config import Settings, price_table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.sampling import SamplingRule
from llmeval_sdk.model.protocols import LLM, DecisionModel, Exporter, Heuristic, Judge
from llmeval_sdk.pipeline.pipeline import Pipeline
from llmeval_sdk.pipeline.planning import make_plan, recording_plan
from llmeval_sdk.pipeline.runtime._lifecycle import (
    configure_from_environment,
    deliver,
    in_force,
    put_in_force,
)
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.tracing.internals import is_off, state


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
    is still delivered.

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
    problems: list[str] = []
    names = tuple(name for name in exporters or () if isinstance(name, str))
    if isinstance(llm, str):
        settings["judge_model"], llm = llm, None
    if isinstance(decisions, str):
        settings["decision_model"], decisions = decisions, None
    if not (redact is None or callable(redact) or isinstance(redact, str) or _is_texts(redact)):
        raise ConfigurationError(
            f'redact={redact!r:.100} does not say what to remove: write redact="all" for'
            ' everything that can be detected, redact="off" for nothing, or name detectors as in'
            ' redact=("api_key", "email")'
        )
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
        decisions=decisions,
        exporters=tuple(item for item in exporters or () if not isinstance(item, str)),
        redact=redact if callable(redact) else None,
        strict=True,
    )
    put_in_force(resolved, plan, problems)


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(item, str) for item in value
    )


def flush(timeout: float = 10.0) -> Stats:
    """Wait until everything that was recorded so far is scored, judged and delivered.

    It never raises. It does not wait until open sessions are idle and evaluated, only until their
    turns are in the file from which that happens later.

    Args:
        timeout: How many seconds to wait at most.

    Returns:
        The counters; ``complete`` says whether everything was done in time.

    Examples:
        >>> llmeval.flush(timeout=5.0).complete
        True
    """
    return deliver(timeout)


def shutdown(timeout: float | None = None) -> Stats:
    """Deliver what was recorded, and stop recording. It runs by itself when the process exits.

    Args:
        timeout: How many seconds to wait at most; by default the setting
            ``LLMEVAL_SHUTDOWN_TIMEOUT``.

    Returns:
        The counters, with what was dropped by reason.

    Examples:
        >>> result = llmeval.shutdown(timeout=5.0)
        >>> result.losses
        ''
    """
    return in_force.shutdown(monotonic() + (in_force.exit_seconds if timeout is None else timeout))


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
    if in_force.pipeline is None and state.enabled:
        configure_from_environment()
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
    plan = recording_plan(resolved, problems, exporters=exporters, exports=exports)
    with isolated():
        put_in_force(resolved, plan, problems)
        yield
