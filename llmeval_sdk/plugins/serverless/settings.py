"""The setting for processes that are frozen between invocations."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import one_of, setting


@dataclass(frozen=True, kw_only=True)
class ServerlessSettings:
    """Where the process runs."""

    mode: str = setting(
        "server",
        "LLMEVAL_MODE",
        read=one_of("server", "serverless"),
        doc="`serverless` is for functions that are frozen between invocations: records are sent "
        "within some hundredths of a second, no thread wakes up while there are none, and the time "
        "of a judgement stands still while the process is frozen.",
    )
