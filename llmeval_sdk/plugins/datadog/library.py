"""Imports and starts ddtrace, and avoids the traps of both steps.

Everything that the exporter uses of ddtrace beyond its public interface is named in this module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.datadog.flushing import flush_of
from llmeval_sdk.plugins.datadog.settings import DatadogSettings
from llmeval_sdk.process.shield import tell


OLDEST = (4, 8)
"""Earlier releases crash on import when DD_LLMOBS_EVALUATORS names an evaluator of ours."""
RULES = "DD_LLMOBS_EVALUATOR_SAMPLING_RULES"


class Library:
    """ddtrace, loaded and LLM Observability enabled."""

    def __init__(self, ddtrace: Any, llmobs: Any) -> None:
        self.llmobs = llmobs
        self.version: str = ddtrace.__version__
        self._config = ddtrace.config
        self.apm = llmobs._instance.tracer.context_provider
        self.tracer = llmobs._instance.tracer
        self._utils = import_module("ddtrace.llmobs._utils")

    @property
    def active(self) -> Any:
        """The provider of the active LLM Observability span; each enable() makes a new one."""
        return self.llmobs._instance._llmobs_context_provider

    @property
    def app(self) -> str:
        """Return the name of the app in LLM Observability."""
        settings = self._config
        return str(settings._llmobs_ml_app or settings.service or "unnamed-ml-app")

    @property
    def destination(self) -> tuple[str, str, dict[str, str]]:
        """The address, path and headers for evaluations in ddtrace's present mode."""
        writer = self.llmobs._instance._llmobs_eval_metric_writer
        path = writer._endpoint
        return writer._intake, path if path.startswith("/") else f"/{path}", dict(writer._headers)

    def trace_of(self, opened: object) -> str:
        """Return the trace id in LLM Observability of ddtrace's span, 32 hex characters."""
        trace_id = self._utils.get_llmobs_trace_id(opened)
        return f"{trace_id:032x}" if type(trace_id) is int else str(trace_id)  # a number in 4.8

    def send_spans(self) -> None:
        """Send the spans that were finished; blocks as long as ddtrace does."""
        if self.llmobs.enabled:
            flush_of(self.llmobs)()
        self.tracer.flush()

    def at_exit_signal(self, deliver: Callable[[], None]) -> None:
        """Register a function for SIGTERM; it runs before ddtrace ends on that signal."""
        import_module("ddtrace.internal.atexit").register_on_exit_signal(deliver)

    def rename(self, opened: object, trace_id: str, parent_id: str | None) -> None:
        """Place a new root of LLM Observability in a trace, below a span of another process."""
        trace: Any = trace_id
        if type(self._utils.get_llmobs_trace_id(opened)) is int:
            trace = int(trace_id, 16)
        above = {} if parent_id is None else {"parent_id": str(int(parent_id, 16))}
        self._utils._annotate_llmobs_span_data(opened, trace_id=trace, **above)


def load(settings: Settings) -> Library:
    """Import ddtrace and enable it, unless the app has enabled it already.

    Raises `ConfigurationError`, with what to do about it.
    """
    version = installed()
    check(version)
    try:
        ddtrace, llmobs = _import(settings)
        if not llmobs.enabled:
            _enable(ddtrace, llmobs, settings)
        return Library(ddtrace, llmobs)
    except ConfigurationError:
        raise
    except Exception as error:
        problem = f"ddtrace {version} cannot be used: {type(error).__name__}: {error}"
        raise ConfigurationError(problem[:300]) from error


def installed() -> str | None:
    """Return the version of ddtrace without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ddtrace")
    except PackageNotFoundError:
        return None


def check(version: str | None) -> None:
    """Refuse a version that cannot work."""
    if version is None:
        raise missing_extra("the exporter 'datadog'", "datadog", "ddtrace")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        raise ConfigurationError(
            f"ddtrace {version} is too old for the exporter 'datadog': "
            "pip install 'ddtrace>=4.8' (older ones fail on the names of our evaluators)"
        )


def _import(settings: Settings) -> tuple[Any, Any]:
    """Import ddtrace while our sampling rules are hidden, because they can crash its import.

    The mode is decided before the import, because ddtrace would otherwise ask the agent and wait.
    """
    if "ddtrace.llmobs" in sys.modules:
        return sys.modules["ddtrace"], sys.modules["ddtrace.llmobs"].LLMObs
    with config.hidden(RULES):
        ddtrace = import_module("ddtrace")
        if ddtrace.config._llmobs_agentless_enabled is None:
            ddtrace.config._llmobs_agentless_enabled = agentless(settings)
        llmobs = import_module("ddtrace.llmobs").LLMObs
        sampler = import_module("ddtrace.llmobs._evaluators.sampler").EvaluatorRunnerSampler
        sampler.parse_rules = _no_rules  # it would read them again in each child after a fork
    return ddtrace, llmobs


def _no_rules(_: object) -> list[object]:
    return []


def agentless(settings: Settings) -> bool:
    """Decide whether to use the agent: if there is a key, only if something listens at its address.

    This does not wait for an answer of the agent.
    """
    own = settings.of(DatadogSettings)
    if own.datadog_agentless is not None:
        return own.datadog_agentless
    if own.datadog_api_key is None or own.datadog_agent_url:
        return False
    return not _listening(own.datadog_agent_host or "localhost")


def _listening(host: str) -> bool:
    import socket
    from pathlib import Path

    if Path("/var/run/datadog/apm.socket").exists():
        return True
    try:
        socket.create_connection((host, 8126), timeout=0.2).close()
    except OSError:
        return False
    return True


def _enable(ddtrace: Any, llmobs: Any, settings: Settings) -> None:
    from inspect import signature

    own = settings.of(DatadogSettings)
    without_agent = agentless(settings)
    if without_agent and own.datadog_api_key is None:
        raise ConfigurationError(
            "Datadog without an agent needs DD_API_KEY (and DD_SITE where it is not datadoghq.com);"
            " or unset DD_LLMOBS_AGENTLESS_ENABLED to send through the agent"
        )
    key = own.datadog_api_key
    options = {
        "integrations_enabled": own.datadog_integrations == ("all",),
        "agentless_enabled": without_agent,
        "site": own.datadog_site,
        "api_key": key.reveal() if key else None,
        "env": own.datadog_env,
        "service": settings.service_name,
    }
    named = "agent_service" if "agent_service" in signature(llmobs.enable).parameters else "ml_app"
    if own.datadog_app:
        options[named] = own.datadog_app
    with config.hidden(RULES):
        llmobs.enable(**options)
    if not llmobs.enabled:
        raise ConfigurationError("DD_LLMOBS_ENABLED is false and keeps ddtrace off: unset it")
    _patch(ddtrace, own.datadog_integrations)
    _heed(ddtrace, llmobs)


def _heed(ddtrace: Any, llmobs: Any) -> None:
    """Make the arguments of the app's own enable() count although ours came first.

    Without this, ddtrace ignores a second call with all its arguments, such as the app's name and
    which libraries to instrument.
    """
    begin = llmobs.enable

    def enable(*args: Any, **options: Any) -> None:
        again = llmobs.enabled
        begin(*args, **options)
        if not again:
            return
        app = options.get("agent_service") or options.get("ml_app") or next(iter(args), None)
        settings = ddtrace.config
        settings._llmobs_ml_app = app or settings._llmobs_ml_app
        settings.env = options.get("env") or settings.env
        settings.service = options.get("service") or settings.service
        if options.get("span_processor") is not None:
            llmobs.register_processor(options["span_processor"])
        if options.get("integrations_enabled", True):
            llmobs._patch_integrations()

    llmobs.enable = enable


def _patch(ddtrace: Any, integrations: tuple[str, ...]) -> None:
    """Instrument the libraries that were asked for by name."""
    if integrations == ("all",):
        return
    for name in integrations:
        try:
            ddtrace.patch(raise_errors=True, **{name: True})
        except Exception as error:
            tell("exporter datadog", f"cannot instrument {name[:40]!r}: {type(error).__name__}")
