"""The settings of a judge fleet, and whether this process asks or answers."""

from __future__ import annotations

from importlib.util import find_spec

from llmeval_sdk.config import Settings
from llmeval_sdk.config.reading import JUDGES, Secret, Table, long_secret, setting
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.shared.settings import RedisAddress, redis_address


class FleetSettings(Table):
    """Where judgements go that other hosts make."""

    judge_queue: RedisAddress | None = setting(
        None,
        "LLMEVAL_JUDGE_QUEUE",
        read=redis_address,
        closes=JUDGES,
        doc="A Redis that takes judgements for a fleet: `llmeval fleet` makes them in place of "
        "this process. Naming it allows the fleet to spend.",
    )
    fleet_key: Secret | None = setting(
        None,
        "LLMEVAL_FLEET_KEY",
        read=long_secret,
        doc="Key that signs what apps and workers send each other; the same everywhere.",
    )


_answers_here = False


def answer_here() -> None:
    """Make this process a worker: pipelines that are configured from now on answer."""
    global _answers_here  # noqa: PLW0603
    _answers_here = True


def answers_here() -> bool:
    """Return whether this process is a worker."""
    return _answers_here


def check(settings: Settings) -> None:
    """Raise `ConfigurationError` where the settings of a fleet cannot be used."""
    own = settings.of(FleetSettings)
    if own.judge_queue is None:
        raise ConfigurationError(
            "no queue is named: set LLMEVAL_JUDGE_QUEUE, such as redis://localhost:6379/0"
        )
    if own.fleet_key is None:
        raise ConfigurationError(
            "a fleet needs a key: set LLMEVAL_FLEET_KEY on apps and workers, such as that of "
            "`openssl rand -hex 32`"
        )
    if settings.capture_content is not True and not _answers_here:
        raise ConfigurationError(
            "capture_content keeps the app's texts in this process, and a fleet needs them: "
            "unset LLMEVAL_JUDGE_QUEUE, or allow content"
        )
    if find_spec("redis") is None:
        raise missing_extra("a judge fleet", "fleet", "redis")
