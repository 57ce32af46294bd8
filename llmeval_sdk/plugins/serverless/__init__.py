"""Functions that are frozen between invocations: what they record is sent before they return.

AWS Lambda stops all threads of a process as soon as the handler has returned, for seconds or for
ever. `lambda_handler` and `flush_after` therefore deliver what an invocation has recorded while it
is still running, within the time that it has left. They trace nothing by themselves: decorate the
handler, or what it calls, with ``@llmeval.workflow`` as anywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmeval_sdk.config.reading import Table, one_of, setting
from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.plan import Planning
    from llmeval_sdk.plugins.serverless._handlers import flush_after, lambda_handler

__all__ = ["flush_after", "lambda_handler"]


class ServerlessSettings(Table):
    """Where the process runs."""

    mode: str = setting(
        "server",
        "LLMEVAL_MODE",
        read=one_of("server", "serverless"),
        doc="`serverless` is for functions that are frozen between invocations: records are sent "
        "within some hundredths of a second, no thread wakes up while there are none, and the time "
        "of a judgement stands still while the process is frozen.",
    )


class ServerlessPlugin(Plugin):
    """What ``LLMEVAL_MODE=serverless`` changes in a pipeline."""

    name = "serverless"
    settings = {"Serverless functions": ":ServerlessSettings"}

    def prepare(self, planning: Planning) -> None:
        """Have records sent at once, if the process may be frozen at any moment."""
        if planning.settings.of(ServerlessSettings).mode == "serverless":
            from llmeval_sdk.plugins.serverless._loop import ThawingLoop

            planning.freezes, planning.new_loop = True, ThawingLoop


plugin = ServerlessPlugin()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return plugin.resolve(f"_handlers:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
