"""What a worker process does, from its settings to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.fleet._answering import Answering, GiveBackError, wait_for_budget
from llmeval_sdk.plugins.fleet._keys import trouble, wrong_types
from llmeval_sdk.plugins.fleet._message import RefusedError, checked_envelope, checked_note
from llmeval_sdk.plugins.fleet._presence import Presence
from llmeval_sdk.plugins.fleet._register import Register
from llmeval_sdk.plugins.fleet._worker import add_task, make_app, run_worker, visibility_seconds
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.client import connect, is_redis_error
from llmeval_sdk.process.counters import Counts
from llmeval_sdk.process.shield import tell


BUDGET_SECONDS = 30.0
"""How long a worker waits for its budget before it says that it is ready."""


REDELIVERY_SECONDS = 10.0
"""Seconds after the visibility timeout by which Celery has queued an unanswered message again."""


def serve(settings: Settings, described: Mapping[str, Any], *, current: Callable[[], Any]) -> int:
    """Run a worker until a signal ends it; return the exit status.

    Args:
        settings: those that this process configured.
        described: what the worker says of itself; the fields of `Worker`.
        current: returns the pipeline of this process, in a forked child that of the child.

    Raises:
        ConfigurationError: a key of the fleet holds something of another type.
    """
    own = settings.of(FleetSettings)
    assert own.judge_queue is not None
    assert own.fleet_key is not None
    key, refused = own.fleet_key, Counts()

    def answer(body: Any, signed: Any) -> None:
        pipeline = current()
        if pipeline is None or not pipeline.start():
            raise GiveBackError("no thread can be started")
        judging = pipeline._worker.judging
        assert isinstance(judging, Answering)
        judging.answer(body, signed)

    slots = described["slots"]
    sharing = slots if described["pool"] == "threads" else 1
    concurrency = current().plan.concurrency
    visibility = visibility_seconds(settings.judge_timeout, concurrency, sharing)
    redis = connect(own.judge_queue)
    _check_keys(redis)
    register = Register(redis, expiry=own.fleet_expiry)

    def checked(check: Callable[[bytes, Secret], str], entry: bytes) -> str | None:
        try:
            return check(entry, key)
        except RefusedError as error:
            refused.add(error.reason)
            times = refused.snapshot()[error.reason]
            tell("fleet", f"an entry of the queue is refused: {error.reason}", times)
            try:
                register.refuse_message(error.reason, entry)
            except Exception as failure:
                if not is_redis_error(failure):
                    raise
                tell("fleet: a refused entry", f"Redis cannot be used: {trouble(failure, redis)}")
            return None

    app = make_app(
        own.judge_queue,
        visibility=visibility,
        check=partial(checked, checked_envelope),
        check_note=partial(checked, checked_note),
    )
    add_task(app, answer)
    presence = Presence(redis, register, described, lost_after=visibility + REDELIVERY_SECONDS)
    presence.start()
    wait_for_budget(current().plan.limiter, BUDGET_SECONDS)
    try:
        status = run_worker(app, pool=described["pool"], slots=slots, name=described["name"])
    finally:
        presence.stop()
    if status:  # where Celery could not go on, its log says no more than what Redis answered
        _check_keys(redis)
    return status


def _check_keys(redis: Any) -> None:
    """Raise `ConfigurationError` where a key of the fleet holds something of another type."""
    try:
        wrong = wrong_types(redis)
    except Exception as error:
        if not is_redis_error(error):
            raise
        return  # Celery waits for a Redis that is away
    if wrong:
        raise ConfigurationError("\n".join(wrong))
