"""The settings of a judge fleet."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import Secret, long_secret, positive, setting
from llmeval_sdk.plugins.shared.redis_address import RedisAddress


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """Where judgements go that other hosts make."""

    judge_queue: RedisAddress | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_JUDGE_QUEUE",
        read=RedisAddress,
        doc="A Redis that takes judgements for a fleet: `llmeval fleet` makes them in place of "
        "this process. Naming it allows the fleet to spend.",
    )
    fleet_key: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_FLEET_KEY",
        read=long_secret,
        doc="Key that signs what apps and workers send each other; the same everywhere.",
    )
    fleet_expiry: float = setting(
        21_600.0,
        "LLMEVAL_FLEET_EXPIRY",
        read=positive,
        doc="Seconds after which a judgement that no worker has begun is refused as `expired`. A "
        "verdict is remembered as long, so that a message that comes twice is paid for once.",
    )
