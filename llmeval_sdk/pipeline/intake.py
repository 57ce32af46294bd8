"""What the app's thread has to know: the part of a plan that is made before the first call returns.

It says what is recorded and how, which exporters follow spans while they are open, and which
heuristics may run on the app's thread. The worker makes the rest, `plan.Plan`, off that thread:
evaluators, judges, limits, exporters, the store, and plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk import config, registry
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.process.shield import caught, describe, is_ours
from llmeval_sdk.tracing.internals import off


if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmeval_sdk.config import Settings
    from llmeval_sdk.evaluation.scoring import Heuristics
    from llmeval_sdk.exporters.redaction import Redactor
    from llmeval_sdk.model.protocols import BaseExporter, Exporter
    from llmeval_sdk.pipeline.plan import Plan


MAX_QUEUED_RECORDS = 20_000
"""Finished spans that may wait."""
MAX_QUEUED_BYTES = 32 << 20
_NOT_LIVE = frozenset(("local", "console", "memory"))
"""Exporters that know nothing of open spans, so that the worker may make them."""


class IntakePlan:
    """What the app's thread works by.

    Args:
        exporters: those that are made already, because they follow open spans.
        names: the exporters that there will be, as far as that is known.
        is_whole: whether the app's thread needs the whole plan before its first record is taken.
        may_judge: whether a judge may run.
        make_inline: makes the inline heuristics.
        inline: these, where they are made already, because one of them is the app's own.
        retrieved: see the setting ``retrieved_context``.
        retrieval_limits: see the setting of that name.
        queue_records: how many finished spans may wait.
        queue_bytes: how many bytes of them.
    """

    def __init__(
        self,
        *,
        make_inline: Callable[[], Heuristics],
        inline: Heuristics | None = None,
        exporters: Sequence[BaseExporter] = (),
        names: Sequence[str] = (),
        is_whole: bool = False,
        may_judge: bool = False,
        retrieved: str = "last",
        retrieval_limits: Mapping[str, int] | None = None,
        queue_records: int = MAX_QUEUED_RECORDS,
        queue_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self.make_inline = make_inline
        self.inline = inline
        self.exporters = tuple(exporters)
        self.names = tuple(names) or tuple(exporter.name for exporter in exporters)
        self.is_whole = is_whole
        self.may_judge = may_judge
        self.retrieved = retrieved
        self.retrieval_limits = retrieval_limits
        self.queue_records = queue_records
        self.queue_bytes = queue_bytes

    @classmethod
    def of(cls, plan: Plan) -> IntakePlan:
        """Return the part of a finished plan that the app's thread has to know."""
        return cls(
            make_inline=lambda: plan.inline,
            inline=plan.inline,
            exporters=plan.exporters,
            retrieved=plan.retrieved,
            retrieval_limits=plan.retrieval_limits,
            queue_records=plan.queue_records,
            queue_bytes=plan.queue_bytes,
        )


def intake_plan(settings: Settings, exporters: Sequence[BaseExporter]) -> IntakePlan:
    """Make the intake plan of settings under which the worker makes the rest.

    Args:
        settings: those of the core; the tables of plugins need not be there.
        exporters: what `make_early` has made.
    """

    def make_inline() -> Heuristics:
        from llmeval_sdk.evaluation.standing import inline_heuristics

        return inline_heuristics(settings)

    own = any(getattr(evaluator, "inline", False) for evaluator in registry.own_evaluators())
    names = settings.exporters or tuple(exporter.name for exporter in exporters)
    return IntakePlan(
        make_inline=make_inline,
        inline=make_inline() if own else None,
        exporters=exporters,
        names=names or ("local",),
        is_whole=_needs_whole_plan(settings),
        may_judge=_may_judge(settings),
        retrieved=settings.retrieved_context,
        retrieval_limits=settings.retrieval_limits,
    )


def _needs_whole_plan(settings: Settings) -> bool:
    """Return whether the app's thread needs the whole plan.

    A process that keeps its records in the spool has to write the first one there before it goes
    on.
    """
    return bool(settings.spool) or settings.worker != "thread"


def _may_judge(settings: Settings) -> bool:
    """Return whether a judge may run, as far as the core can tell."""
    decisions = settings.of(DecisionSettings).decision_model
    if settings.judge_model or decisions or settings.evaluators or settings.escalations:
        return True
    return any(evaluator.kind == "judge" for evaluator in registry.own_evaluators())


def may_be_live(settings: Settings) -> bool:
    """Return whether some exporter may have to see the first span when it begins.

    Args:
        settings: those of the core; the tables of plugins need not be there.
    """
    if settings.exporters:
        return not _NOT_LIVE.issuperset(settings.exporters)
    return _sends_otlp(settings) or acts_early()


def acts_early() -> bool:
    """Return whether the environment asks for what a plugin does before the first call returns."""
    return any(map(config.variables, registry.EARLY_VARIABLES))


class Early(NamedTuple):
    """Parts of the plan that the app's thread has made, since an exporter follows open spans."""

    exporters: tuple[BaseExporter, ...] = ()
    redactor: Redactor | None = None
    problems: tuple[str, ...] = ()
    """A line for each exporter that cannot be used."""


NOTHING_EARLY = Early()


def make_early(settings: Settings) -> Early:
    """Make the exporters of settings if one of them follows open spans; else nothing."""
    if _NOT_LIVE.issuperset(settings.exporters or default_exporters(settings)):
        return NOTHING_EARLY
    try:
        redactor = make_redactor(settings, None)
    except Exception as error:  # the worker says so, and closes what it protects
        if not is_ours(error):
            raise
        return NOTHING_EARLY
    problems: list[str] = []
    exporters = make_exporters(settings, (), problems, strict=False)
    return Early(exporters, redactor, tuple(problems))


def default_exporters(settings: Settings) -> tuple[str, ...]:
    """Return the exporters for settings that name none: those with an address, else local."""
    from llmeval_sdk.pipeline.plan import Plugin

    names = ["otlp"] if _sends_otlp(settings) else []
    for plugin in registry.plugins():
        if not isinstance(plugin, Plugin):
            continue
        try:
            names += plugin.default_exporters(settings)
        except (Exception, SystemExit) as error:
            if not is_ours(error):
                raise
            registry.leave_out(plugin.name, f"its exporters: {describe(error)}")
    return tuple(names) or ("local",)


def _sends_otlp(settings: Settings) -> bool:
    endpoints = (
        settings.otlp_endpoint, settings.otlp_traces_endpoint, settings.otlp_logs_endpoint
    )  # fmt: skip
    return (any(endpoints) and not settings.otel_disabled) or settings.otel == "global"


def make_exporters(
    settings: Settings, own: Sequence[Exporter], problems: list[str], *, strict: bool
) -> tuple[BaseExporter, ...]:
    """Return the app's own exporters and the named ones; by default, those with an address.

    One whose address, key or certificate cannot be read, or that cannot be made, is left out.

    Raises:
        ConfigurationError: the same where a person is watching.
    """
    from llmeval_sdk.model.protocols import complete_exporter

    exporters = [complete_exporter(exporter) for exporter in own]
    for name in settings.exporters or (() if exporters else default_exporters(settings)):
        if name in settings.closed:
            continue
        try:
            exporters.append(complete_exporter(registry.exporter_factory(name)(settings)))
        except ConfigurationError as error:
            if strict:
                raise
            problems.append(f"{config.source_of('exporters')}: {error}; left out")
        except (Exception, SystemExit) as error:
            if not is_ours(error):
                raise
            caught.add(f"exporter {name}")
            words = f"exporter {name!r} cannot be made: {describe(error)}"
            if strict:
                raise ConfigurationError(words) from error
            problems.append(f"{words}; left out")
    return tuple(exporters) or (complete_exporter(registry.exporter_factory("local")(settings)),)


def make_redactor(settings: Settings, custom: Callable[[str], str] | None) -> Redactor:
    """Make what takes out of every record what may not leave: detectors, and the app's own."""
    from llmeval_sdk.exporters.redaction import Redactor

    def quietly(text: str) -> str:
        off()  # decorated helpers of the redactor must not make spans that need redaction
        assert custom is not None
        return custom(text)

    return Redactor(settings.redact, None if custom is None else quietly)
