"""The clients that can be instrumented, what instruments each, and what ``doctor`` says of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, NamedTuple

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, MissingExtraError, nearest
from llmeval_sdk.plugins.instrument.settings import LIBRARIES, InstrumentationSettings


class ClientLibrary(NamedTuple):
    """One client library and what instruments it."""

    name: str
    """What `instrument` calls it."""
    client: str
    """The distribution of the client."""
    module: str
    """The module whose import says that the app uses the client."""
    instrumentor: str
    """``module:class`` of what instruments it."""

    @property
    def instrumentation(self) -> str:
        """Return the distribution of what instruments it."""
        return f"openinference-instrumentation-{self.name}"

    def instrumentor_class(self) -> Any:
        """Import what instruments the client."""
        module, _, name = self.instrumentor.partition(":")
        return getattr(import_module(f"openinference.instrumentation.{module}"), name)


_TABLE = {
    library.name: library
    for library in (
        ClientLibrary("anthropic", "anthropic", "anthropic", "anthropic:AnthropicInstrumentor"),
        ClientLibrary("bedrock", "boto3", "boto3", "bedrock:BedrockInstrumentor"),
        ClientLibrary(
            "google-genai", "google-genai", "google.genai", "google_genai:GoogleGenAIInstrumentor"
        ),
        ClientLibrary("groq", "groq", "groq", "groq:GroqInstrumentor"),
        ClientLibrary("mistralai", "mistralai", "mistralai", "mistralai:MistralAIInstrumentor"),
        ClientLibrary("openai", "openai", "openai", "openai:OpenAIInstrumentor"),
    )
}


def library(name: str) -> ClientLibrary:
    """Return a client library by its name.

    Raises:
        ConfigurationError: The name is not known.
    """
    known = _TABLE.get(name.strip().lower()) if isinstance(name, str) else None
    if known is None:
        hint = nearest(str(name), LIBRARIES)
        raise ConfigurationError(f"{str(name)[:80]!r} cannot be instrumented: {hint}")
    return known


def is_installed(client: ClientLibrary) -> bool:
    """Say whether the client itself is installed."""
    return _version(client.client) is not None


def check(wanted: ClientLibrary) -> str:
    """Return the versions of a client and of what instruments it.

    Raises:
        MissingExtraError: One of them is not installed.
        ConfigurationError: The client is of a version that cannot be instrumented.
    """
    feature = f"instrumenting {wanted.name!r}"
    ours = _version(wanted.instrumentation)
    if ours is None or _version("opentelemetry-sdk") is None:
        package = wanted.instrumentation if ours is None else "opentelemetry-sdk"
        raise MissingExtraError(
            f"{feature} needs the package {package!r}: pip install 'llmeval-inprocess[instrument]'"
            f"{'' if wanted.name in _IN_THE_EXTRA else f' {wanted.instrumentation}'}"
        )
    theirs = _version(wanted.client)
    if theirs is None:
        raise MissingExtraError(f"{feature} needs the client itself: pip install {wanted.client}")
    needed = _needed(wanted)
    if needed is not None and not needed.contains(theirs, prereleases=True):
        raise ConfigurationError(
            f"{feature}: {wanted.instrumentation} {ours} works with {wanted.client}{needed}, and "
            f"{theirs} is installed: pip install -U {wanted.client} {wanted.instrumentation}"
        )
    return f"{wanted.client} {theirs}, {wanted.instrumentation} {ours}"


_IN_THE_EXTRA = ("anthropic", "openai")
"""Names whose instrumentation the extra ``instrument`` brings."""


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _needed(wanted: ClientLibrary) -> Any:
    """Return the versions of the client that its instrumentation says it works with."""
    from packaging.requirements import Requirement

    for line in requires(wanted.instrumentation) or ():
        requirement = Requirement(line)
        if requirement.name == wanted.client and "instruments" in str(requirement.marker):
            return requirement.specifier
    return None


# Findings for ``llmeval doctor``.


def findings(
    settings: Settings, *, offline: bool = False
) -> Iterator[tuple[bool | None, str, str]]:
    """Yield what each client that is installed or named needs: whether it is good, its name, words.

    Nothing is patched. The command sees ``LLMEVAL_INSTRUMENT``, and not what an app instruments by
    a call.
    """
    named = settings.of(InstrumentationSettings).instrument
    for name in LIBRARIES:
        is_named = name in named
        if not (is_named or is_installed(library(name))):
            continue
        try:
            versions = check(library(name))
        except ConfigurationError as error:  # of which a missing package is one kind
            yield (False if is_named else None), name, str(error)
        except Exception as error:
            yield False, name, f"cannot be checked: {type(error).__name__}: {error}"
        else:
            words = "LLMEVAL_INSTRUMENT names it"
            if "datadog" in settings.exporters:
                words += "; ddtrace traces it instead while LLM Observability is on"
            if not is_named:
                words = f'not traced unless the app has instrument("{name}")'
            yield (True if is_named else None), name, f"{words} ({versions})"
