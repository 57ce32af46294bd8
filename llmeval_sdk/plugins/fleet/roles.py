"""Which side of a fleet this process is, if any: it asks, or it answers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.fleet.settings import FleetSettings


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.judging import Judging

Factory = Callable[[Any, Any], "Judging"]
"""Makes what takes the judgements of one pipeline, of its plan and its outlet."""

_answers_here = False


def answer_here() -> None:
    """Make this process a worker: pipelines that are configured from now on answer."""
    global _answers_here  # noqa: PLW0603
    _answers_here = True


def make(settings: Settings, problems: list[str], *, strict: bool) -> Factory | None:
    """Return what takes judgements in the place of this process's judges; ``None`` for itself.

    A mistake of the environment is a line of ``problems``, and then no judgement leaves.

    Raises:
        ConfigurationError: the settings cannot be used, and a person is watching.
    """
    own = settings.of(FleetSettings)
    if not _answers_here and own.judge_queue is None:
        return None
    try:
        check(settings)
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{config.source_of('judge_queue')}: {error}")
        return None
    if _answers_here:
        from llmeval_sdk.plugins.fleet._answering import Answering

        return lambda plan, dispatcher: Answering(plan, dispatcher, own)
    from llmeval_sdk.plugins.fleet._asking import FleetAsking

    return lambda plan, dispatcher: FleetAsking(plan, dispatcher, settings)


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
