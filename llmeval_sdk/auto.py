"""Import this, or start with ``llmeval run``, to set the SDK up from the environment alone.

For apps whose code never mentions us: what ``DD_LLMOBS_EVALUATORS`` and the other variables ask for
is on from here. Never raises.
"""

from __future__ import annotations

from importlib import import_module

from llmeval_sdk import runtime
from llmeval_sdk._process.shield import swallow, write_notices


SOURCES: tuple[str, ...] = ("llmeval_sdk.sources.datadog:connect",)
"""``module:function`` of what connects spans that other libraries make; each takes the Settings,
decides by them whether it is wanted, and installs itself."""


def _set_up() -> None:
    if runtime.pipeline() is None:
        return
    for source in SOURCES:
        module, _, function = source.partition(":")
        try:
            getattr(import_module(module), function)(runtime.settings())
        except Exception as error:
            if not swallow(f"auto: {source}", error, calls_out=True):
                raise
    write_notices()


_set_up()
