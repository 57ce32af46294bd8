"""The settings of the store, the spool and the background work."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._texts import count, fraction, one_of, positive


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """Where records are kept, and what the background work may take."""

    store: str = setting(".llmeval/llmeval.db", "LLMEVAL_STORE", doc="File of the embedded store.")
    store_max_bytes: int = setting(
        1 << 30, "LLMEVAL_STORE_MAX_BYTES", read=count, doc="Oldest traces go above this size."
    )
    store_max_days: float = setting(
        30.0, "LLMEVAL_STORE_MAX_DAYS", read=positive, doc="Traces older than this go."
    )
    spool: str | None = setting(
        None,
        "LLMEVAL_SPOOL",
        doc="Folder of its own in which records survive the process; see `llmeval agent`.",
    )
    spool_bytes: int = setting(
        16 << 20, "LLMEVAL_SPOOL_BYTES", read=count, doc="Size of one process's file there."
    )
    spool_max_bytes: int = setting(
        1 << 30, "LLMEVAL_SPOOL_MAX_BYTES", read=count, doc="What all files there may take."
    )
    worker: str = setting(
        "thread",
        "LLMEVAL_WORKER",
        read=one_of("thread", "off", "agent"),
        doc="`thread` does the background work in this process; `off` starts no thread and leaves "
        "it to `llmeval agent`, by way of the spool; `agent` is what that command sets.",
    )
    queue_records: int = setting(
        20_000, "LLMEVAL_QUEUE_RECORDS", read=count, doc="Finished spans that may wait."
    )
    queue_bytes: int = setting(
        32 << 20, "LLMEVAL_QUEUE_BYTES", read=count, doc="Bytes of finished spans that may wait."
    )
    background_share: float = setting(
        0.5,
        "LLMEVAL_BACKGROUND_SHARE",
        read=fraction,
        doc="Share of one core that scoring in the background may take.",
    )
    shutdown_timeout: float = setting(
        1.0, "LLMEVAL_SHUTDOWN_TIMEOUT", read=positive, doc="Seconds that exit may wait for us."
    )
