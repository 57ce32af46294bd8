"""Patches the clients of models, and takes the patches back."""

from __future__ import annotations

import sys
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.instrument import _datadog
from llmeval_sdk.plugins.instrument._libraries import ClientLibrary, check, library
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
        if self.is_wanted and _datadog.is_in_charge():
            return not _datadog.leave(self.library.name)
        return self.is_wanted

    def _imported(self, _: Any) -> None:
        try:
            if self.is_wanted:
                self._patch()
        except Exception as error:
            if not swallow(f"instrument {self.library.name}", error, calls_out=True):
                raise

    def _patch(self) -> None:
        with self._lock:
            if self._is_claimed:
                return
            self._is_claimed = True
        try:
            from llmeval_sdk.plugins.instrument._provider import GatedProvider

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
    if _datadog.is_in_charge():
        _datadog.take_over([one.name for one in wanted])
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
    if _datadog.is_in_charge():
        names += [name for name, patch in _patches.items() if patch.is_wanted]
    for name in dict.fromkeys(names):
        try:
            instrument(name)
        except ConfigurationError as error:
            tell(f"instrument {name}", str(error))
        except Exception as error:
            if not swallow(f"instrument {name}", error, calls_out=True):
                raise
