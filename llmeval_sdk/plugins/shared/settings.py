"""The settings of what all hosts share."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import count, setting
from llmeval_sdk.plugins.shared.redis_address import RedisAddress


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Where all hosts share one budget, and how many calls they make at a time."""

    shared: RedisAddress | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_SHARED",
        read=RedisAddress,
        doc="A Redis through which all hosts share one judge budget, earlier verdicts, the scores "
        "behind escalation by share, what is known of models that are down, and the turns of "
        "sessions. Default: each host has its own.",
    )
    shared_concurrency: int | None = setting(
        None,
        "LLMEVAL_SHARED_CONCURRENCY",
        read=count,
        doc="With `LLMEVAL_SHARED`: calls to judge models at a time over all hosts. Each process "
        "also keeps to `LLMEVAL_JUDGE_CONCURRENCY`.",
    )
