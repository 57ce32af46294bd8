"""Import this, or start with ``llmeval run``, to set the SDK up from the environment alone.

For apps whose code never mentions us: what ``DD_LLMOBS_EVALUATORS`` and the other variables ask for
is on from here. Never raises.
"""

from __future__ import annotations

from llmeval_sdk import registry
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process.shield import swallow, write_notices


def _set_up() -> None:
    if runtime.pipeline() is None:
        return
    for name, address in registry.table("readers").items():
        try:
            registry.load(address)(runtime.settings())
        except Exception as error:
            if not swallow(f"auto: {name}", error):
                raise
    write_notices()


_set_up()
