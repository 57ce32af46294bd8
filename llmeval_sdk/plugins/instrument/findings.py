"""What `llmeval doctor` says of the clients of models that are, or could be, instrumented."""

from __future__ import annotations

from collections.abc import Iterator

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.instrument._libraries import check, is_installed, library
from llmeval_sdk.plugins.instrument.settings import LIBRARIES, InstrumentationSettings


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
