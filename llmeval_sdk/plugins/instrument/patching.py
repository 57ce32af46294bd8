"""Instruments clients of models: all of a library by patches, or one client without a patch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.datadog.source import evaluate_spans
from llmeval_sdk.plugins.instrument.libraries import ClientLibrary, check, library
from llmeval_sdk.plugins.instrument.settings import LIBRARIES, InstrumentationSettings
from llmeval_sdk.process.forks import Locked
from llmeval_sdk.process.shield import swallow, tell


class _Patch(Locked):
    """One client library that is to be instrumented from when the app has imported it.

    No import happens under the lock: another thread may hold Python's lock of the client's import
    and wait for ours.
    """

    def __init__(self, patched: ClientLibrary) -> None:
        super().__init__()
        self.library = patched
        self.is_wanted = False
        self._is_claimed = False
        self._waits_for_import = False
        self._instrumentor: Any = None

    def want(self) -> None:
        """Instrument the client now, or as soon as it is imported."""
        self.is_wanted = True
        if self.library.module in sys.modules:
            self._patch()
        elif not self._waits_for_import:
            from wrapt import register_post_import_hook

            self._waits_for_import = True
            register_post_import_hook(self._imported, self.library.module)

    def unwant(self) -> None:
        """Take the patch back; where the app has instrumented the client too, ours falls silent."""
        self.is_wanted = False
        made = self._instrumentor
        if made is not None and not _apps_own(self.library):
            made.uninstrument()
            self._instrumentor = None
            self._is_claimed = False

    def is_open(self) -> bool:
        """Say whether calls are wanted now; runs before each of them.

        The app may have turned LLM Observability on since the client was instrumented.
        """
        if self.is_wanted and _is_datadog_in_charge():
            return not _leave_to_datadog(self.library.name)
        return self.is_wanted

    def _imported(self, _: object) -> None:
        try:
            if self.is_wanted:
                self._patch()
        except Exception as error:
            if not swallow(f"instrument {self.library.name}", error):
                raise

    def _patch(self) -> None:
        with self._lock:
            if self._is_claimed:
                return
            self._is_claimed = True
        try:
            from llmeval_sdk.plugins.instrument.calls import GatedProvider

            theirs = self.library.instrumentor_class()
            # A class of its own has a singleton of its own: the app may use theirs, beside ours.
            own = type(theirs.__name__, (theirs,), {"_instance": None})
            made = own()
            made.instrument(tracer_provider=GatedProvider(self.is_open))
        except BaseException:
            self._is_claimed = False
            raise
        self._instrumentor = made


def _apps_own(patched: ClientLibrary) -> bool:
    """Say whether the app uses the same instrumentation itself."""
    single = patched.instrumentor_class()._instance
    return single is not None and bool(single.is_instrumented_by_opentelemetry)


_patches = {name: _Patch(library(name)) for name in LIBRARIES}


def instrument(*names: str) -> None:
    """Trace, score and price each call of these clients, without a decorator.

    It may be called before or after the client was imported, and again. A call inside a span of
    ours belongs to that span's request; a call inside ``@llmeval.llm`` completes that span, and is
    counted once. Where LLM Observability is on, ddtrace instruments the client instead of us.

    Args:
        *names: ``"openai"``, ``"anthropic"``, ``"bedrock"``, ``"google-genai"``, ``"groq"`` or
            ``"mistralai"``.

    Raises:
        ConfigurationError: A name is not known, or the client has a version that cannot be
            instrumented.
        MissingExtraError: The client or what instruments it is not installed; the message says what
            to install.

    Examples:
        >>> llmeval.instrument("openai", "anthropic")  # doctest: +SKIP
    """
    if not names:
        raise ConfigurationError('instrument() needs the names of clients: instrument("openai")')
    wanted = [library(name) for name in names]
    if _is_datadog_in_charge():
        _instrument_by_datadog([one.name for one in wanted])
        return
    for one in wanted:
        check(one)
    for one in wanted:
        _patches[one.name].want()


def uninstrument(*names: str) -> None:
    """Take back what `instrument` did: for these clients, or for all; for tests.

    Raises:
        ConfigurationError: A name is not known.
    """
    for name in [library(name).name for name in names] or LIBRARIES:
        _patches[name].unwant()


def connect(settings: Settings) -> None:
    """Instrument what the settings name. It never raises; a problem is a line in the log.

    What was instrumented before Datadog's exporter became active is ddtrace's from then on.
    """
    names = list(settings.of(InstrumentationSettings).instrument)
    if _is_datadog_in_charge():
        names += [name for name, patch in _patches.items() if patch.is_wanted]
    for name in dict.fromkeys(names):
        try:
            instrument(name)
        except ConfigurationError as error:
            tell(f"instrument {name}", str(error))
        except Exception as error:
            if not swallow(f"instrument {name}", error):
                raise


# One client of OpenAI, without a patch of the library.


Client = TypeVar("Client")
_COPIES = ("copy", "with_options")
"""Methods that return a further client."""


def wrap_openai(client: Client) -> Client:
    """Trace, score and price each call of this client: chat completions, responses, embeddings.

    Streams, ``parse`` and the clients that ``with_options`` makes are traced too. The client itself
    is changed and returned; wrapping it again changes nothing. Where `instrument` has patched the
    library as well, a call is still counted once.

    Args:
        client: An ``OpenAI``, ``AsyncOpenAI`` or Azure client.

    Raises:
        TypeError: It is no client of OpenAI.
        ConfigurationError: The client has a version that cannot be instrumented.
        MissingExtraError: What instruments it is not installed; the message says what to install.

    Examples:
        >>> client = llmeval.wrap_openai(OpenAI())  # doctest: +SKIP
    """
    versions = check(library("openai"))
    import openai

    if not isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
        raise TypeError(f"wrap_openai() takes a client of openai, not {type(client).__name__}")
    if not hasattr(client.request, "llmeval_wrapped"):
        try:
            _wrap(client, _tracing_call(openai, is_async=isinstance(client, openai.AsyncOpenAI)))
        except (ImportError, AttributeError, TypeError) as error:
            raise ConfigurationError(f"wrap_openai() cannot use {versions}: {error}") from error
    return client


def _wrap(client: Any, call: Callable[..., object]) -> None:
    """Put a client's own methods in the place of those of its class."""
    request = client.request

    @wraps(request)
    def traced(*args: object, **options: object) -> object:
        return call(request, client, args, options)

    traced.llmeval_wrapped = True  # type: ignore[attr-defined]
    client.request = traced
    for name in _COPIES:
        setattr(client, name, _wrapping(getattr(client, name)))


def _wrapping(copy: Callable[..., object]) -> object:
    @wraps(copy)
    def copied(*args: object, **options: object) -> object:
        return wrap_openai(copy(*args, **options))

    return copied


def _tracing_call(openai: object, *, is_async: bool) -> Callable[..., object]:
    from openinference.instrumentation import OITracer, TraceConfig
    from openinference.instrumentation.openai import _request

    from llmeval_sdk.plugins.instrument.calls import GatedProvider

    provider = GatedProvider(lambda: not _does_datadog_see("openai"))
    tracer: Any = OITracer(provider.get_tracer(_request.__name__), config=TraceConfig())
    kind = _request._AsyncRequest if is_async else _request._Request
    traced: Callable[..., object] = kind(tracer=tracer, openai=openai)
    return traced


# Where Datadog gets the app's spans, ddtrace instruments the clients.


_NAMES = {"bedrock": "botocore", "google-genai": "google_genai"}
"""What ddtrace calls a client, where its name is not ours."""
_MODULES = {"bedrock": "botocore.client", "google-genai": "google.genai"}
"""The module that ddtrace patches, where it has another name than the client."""


def _is_datadog_in_charge() -> bool:
    """Say whether ddtrace's own integrations trace the calls: LLM Observability is on."""
    loaded = sys.modules.get("ddtrace.llmobs")
    return loaded is not None and bool(loaded.LLMObs.enabled)


_taken: set[str] = set()
"""Clients that were left to ddtrace."""


_FLAGS = ("_datadog_patch", "__datadog_patch")
"""The attributes by which ddtrace marks a module that it has patched."""


def _does_datadog_see(name: str) -> bool:
    """Say whether ddtrace traces a client, and score its spans then; runs before each call."""
    if not _is_datadog_in_charge() or not _is_patched(name):
        return False
    evaluate_spans()
    return True


def _leave_to_datadog(name: str) -> bool:
    """Leave a client to ddtrace; False where it does not see the call that is about to be made.

    That is the first call after the app turned LLM Observability on without its integrations.
    """
    if name in _taken:
        return True
    was_patched = _is_patched(name)
    _instrument_by_datadog([name])
    return was_patched


def _is_patched(name: str) -> bool:
    module = sys.modules.get(_MODULES.get(name, name))
    return any(getattr(module, flag, False) for flag in _FLAGS)


def _instrument_by_datadog(names: list[str]) -> None:
    """Have ddtrace instrument clients, and score the spans that it makes of their calls."""
    for name in names:
        if name in _taken:
            continue
        _taken.add(name)
        theirs = _NAMES.get(name, name)
        try:
            import_module("ddtrace").patch(raise_errors=True, **{theirs: True})
            tell(
                f"instrument {name}",
                "LLM Observability is on, so ddtrace's own integration traces the client",
            )
        except Exception as error:
            if not swallow(f"instrument {name}", error):
                raise
    evaluate_spans()
