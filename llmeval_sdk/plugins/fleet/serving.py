"""The process of a worker: Celery's own worker with the one task of a fleet, and its heartbeat."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.fleet._judgement_store import (
    QUEUE,
    WORKERS,
    JudgementStore,
    trouble,
    wrong_types,
)
from llmeval_sdk.plugins.fleet._message import (
    MAX_JUDGEMENTS,
    TASK,
    RefusedError,
    checked_envelope,
    checked_note,
)
from llmeval_sdk.plugins.fleet._worker import (
    CLAIM_MARGIN,
    DELIVERY_SECONDS,
    FleetWorker,
    GiveBackError,
    wait_for_budget,
)
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.redis_client import KEYS, connect, is_redis_error
from llmeval_sdk.process.shield import Counts, shield, swallow, tell


if TYPE_CHECKING:
    from redis import Redis


BEAT_SECONDS = 5.0
GONE_SECONDS = 20.0
"""A worker that has said nothing for so long has ended, or cannot reach Redis."""
FORGOTTEN_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What one worker says of itself."""

    name: str
    release: str
    messages: Sequence[int]
    """The versions of messages that it reads."""
    judges: Sequence[str]
    key: str
    """A fingerprint of its key; see `fingerprint`."""
    pool: str
    slots: int
    model: str = ""
    exporters: Sequence[str] = ()
    problems: Sequence[str] = ()
    at: float = 0.0
    """When it last said so, by the clock of Redis."""
    ahead: float = 0.0
    """By how many seconds its clock is ahead of that of Redis."""


def redis_time(redis: Redis) -> float:
    """Return the time by the clock of Redis."""
    seconds, micros = redis.time()
    return float(seconds + micros / 1e6)


def present_workers(redis: Redis) -> list[WorkerInfo]:
    """Return the workers that said something in the last hour, by name; forget the others."""
    present, at = [], redis_time(redis)
    for name, text in sorted(redis.hgetall(WORKERS).items()):
        try:
            worker = _worker_of(json.loads(text))
            is_forgotten = at - worker.at > FORGOTTEN_SECONDS
        except (ValueError, TypeError, AttributeError):
            is_forgotten = True
        if is_forgotten:
            redis.hdel(WORKERS, name)
        else:
            present.append(worker)
    return present


def _worker_of(said: Mapping[str, Any]) -> WorkerInfo:
    """Make a worker of what it said; the fields that only a newer release knows are left out."""
    known = {field.name for field in fields(WorkerInfo)}
    return WorkerInfo(**{name: value for name, value in said.items() if name in known})


class Heartbeat:
    """Says every few seconds that a worker is there, and looks after judgements that nobody has.

    Args:
        redis: a client.
        store: where lost messages are queued again, and what waited too long is refused.
        worker: what it is; its times are set with each beat.
        lost_after: seconds after which a message that nobody has acknowledged got lost.
    """

    def __init__(
        self, redis: Redis, store: JudgementStore, worker: WorkerInfo, *, lost_after: float
    ) -> None:
        self._redis, self._store, self._worker = redis, store, worker
        self._lost_after = lost_after
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="llmeval-fleet", daemon=True)

    def start(self) -> None:
        """Begin to say so, on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Say that the worker has ended."""
        self._ending.set()
        self._thread.join(BEAT_SECONDS)
        with shield("fleet"):
            self._redis.hdel(WORKERS, self._worker.name)

    def _run(self) -> None:
        while True:
            with shield("fleet", on_own_thread=True):
                try:
                    self._beat()
                except Exception as error:
                    if not is_redis_error(error):
                        raise
                    tell("fleet", f"Redis cannot be used: {trouble(error, self._redis)}")
            if self._ending.wait(BEAT_SECONDS):
                return

    def _beat(self) -> None:
        at = redis_time(self._redis)
        worker = replace(self._worker, at=at, ahead=time() - at)
        self._redis.hset(WORKERS, worker.name, json.dumps(asdict(worker)))
        self._store.queue_again(self._lost_after)
        self._store.sweep()


CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 5.0


def _visibility_seconds(judge_timeout: float, concurrency: int, slots: int) -> float:
    """Return after how long a message that nobody acknowledged is delivered again.

    By then all its judgements have ended, even where each takes as long as it may: ``slots``
    messages share ``concurrency`` places.
    """
    rounds = -(-MAX_JUDGEMENTS * slots // concurrency)
    budget = judge_timeout  # what `wait_for_budget` may take
    judging = (rounds + 1) * (judge_timeout + CLAIM_MARGIN)
    return judging + budget + DELIVERY_SECONDS + ANSWER_SECONDS


def make_app(
    queue: Secret,
    *,
    visibility: float,
    check: Callable[[bytes], str | None],
    check_note: Callable[[bytes], str | None],
) -> Any:
    """Make our own Celery app on an explicit connection.

    It never becomes the current app, and no ``CELERY_*`` variable redirects it: those would win
    over a URL in its configuration.

    Args:
        queue: the address of Redis.
        visibility: seconds after which a message that nobody acknowledged is delivered again.
        check: returns what Celery is to read for an entry of the queue; ``None``: nothing.
        check_note: returns what is to be queued again for what the transport noted of a message
            that nobody acknowledged; ``None``: nothing.

    Raises:
        MissingExtraError: the extra ``fleet`` is not installed.
    """
    try:
        from celery import Celery
        from celery.loaders.app import AppLoader

        transport = _checking_transport(check, check_note)
    except ImportError:
        raise missing_extra("llmeval fleet", "fleet", "celery") from None

    class OwnLoader(AppLoader):  # type: ignore[misc]
        """Reads no configuration: ``CELERY_CONFIG_MODULE`` is the app's."""

        def read_configuration(self, env: str = "") -> dict[str, Any]:
            return {}

    class FleetApp(Celery):  # type: ignore[misc]
        """A Celery app with one broker, whatever the environment says."""

        def connection_for_read(self, url: str | None = None, **options: object) -> Any:
            connection = self._connection(broker, **options)
            connection.transport_cls = transport
            return connection

        def connection_for_write(self, url: str | None = None, **options: object) -> Any:
            return self._connection(broker, **options)

    broker = queue.reveal()
    app = FleetApp("llmeval", set_as_current=False, loader=OwnLoader, broker=broker)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_default_queue=QUEUE,
        task_create_missing_queues=True,
        task_acks_late=True,
        task_acks_on_failure_or_timeout=False,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "global_keyprefix": KEYS,
            "visibility_timeout": visibility,
            "unacked_mutex_expire": 10,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "socket_timeout": ANSWER_SECONDS,
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_keepalive": True,
        },
    )
    return app


def _checking_transport(
    check: Callable[[bytes], str | None], check_note: Callable[[bytes], str | None]
) -> Any:
    """Make a transport that reads nothing that was not checked; see `make_app`."""
    from kombu.transport.redis import Channel, PrefixedStrictRedis, Transport

    class CheckingClient(PrefixedStrictRedis):  # type: ignore[misc]
        """Gives the transport no entry of the queue that was not checked."""

        def parse_response(self, connection: object, command_name: str, **options: object) -> Any:
            answer = super().parse_response(connection, command_name, **options)
            if command_name != "BRPOP" or not answer:
                return answer
            queue_name, entry = answer
            envelope = check(entry)
            return None if envelope is None else (queue_name, envelope)

    class CheckingQoS(Channel.QoS):  # type: ignore[misc]
        """Queues nothing again that was not checked, and only in the queue of the fleet."""

        def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:  # noqa: FBT001, FBT002
            with self.channel.conn_or_acquire(client) as redis:
                note = redis.hget(self.unacked_key, tag)
                envelope = None if note is None else check_note(note)

                def restore(pipe: Any) -> None:
                    is_there = pipe.hget(self.unacked_key, tag) == note
                    pipe.multi()
                    if is_there:
                        self._remove_from_indices(tag, pipe)
                        if envelope is not None:
                            (pipe.lpush if leftmost else pipe.rpush)(QUEUE, envelope)

                redis.transaction(restore, self.unacked_key)

    class CheckingChannel(Channel):  # type: ignore[misc]
        QoS = CheckingQoS

        def _get_client(self) -> Any:
            return partial(CheckingClient, global_keyprefix=self.global_keyprefix)

    class CheckingTransport(Transport):  # type: ignore[misc]
        Channel = CheckingChannel

    return CheckingTransport


def add_task(app: Any, answer: Callable[[Any, Any], None]) -> None:
    """Give the app its one task, which answers a message.

    A message that cannot be finished goes back to the queue: Celery would throw away one whose task
    raised, and its judgements would wait until they expire. One at which workers fail again and
    again ends by `MAX_TRIES`.
    """
    from celery.exceptions import Reject

    def judge(body: object = None, signed: object = None) -> None:
        try:
            answer(body, signed)
        except GiveBackError as error:
            raise Reject(str(error), requeue=True) from error
        except Exception as error:
            if not swallow("fleet", error):
                raise
            raise Reject(type(error).__name__, requeue=True) from error

    app.task(name=TASK, shared=False)(judge)


def _run_worker(app: Any, *, pool: str, slots: int, name: str) -> int:
    """Run the worker until a signal ends it; return the exit status."""
    worker = app.Worker(
        hostname=name,
        pool=pool,
        concurrency=slots,
        queues=[QUEUE],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


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

    def answer(body: object, signed: object) -> None:
        pipeline = current()
        if pipeline is None or not pipeline.start():
            raise GiveBackError("no thread can be started")
        if (work := pipeline.work()) is None:
            raise GiveBackError("the worker cannot be set up; its log has the reason")
        judging = work.worker.judging
        assert isinstance(judging, FleetWorker)
        judging.answer(body, signed)

    slots = described["slots"]
    sharing = slots if described["pool"] == "threads" else 1
    concurrency = current().plan.concurrency
    visibility = _visibility_seconds(settings.judge_timeout, concurrency, sharing)
    redis = connect(own.judge_queue)
    _check_keys(redis)
    store = JudgementStore(redis)

    def checked(check: Callable[[bytes, Secret], str], entry: bytes) -> str | None:
        try:
            return check(entry, key)
        except RefusedError as error:
            refused.add(error.reason)
            times = refused.of(error.reason)
            tell("fleet", f"an entry of the queue is refused: {error.reason}", times)
            try:
                store.refuse_message(error.reason, entry)
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
    heartbeat = Heartbeat(
        redis, store, WorkerInfo(**described), lost_after=visibility + REDELIVERY_SECONDS
    )
    heartbeat.start()
    wait_for_budget(current().plan.limiter, BUDGET_SECONDS)
    try:
        status = _run_worker(app, pool=described["pool"], slots=slots, name=described["name"])
    finally:
        heartbeat.stop()
    if status:  # where Celery could not go on, its log says no more than what Redis answered
        _check_keys(redis)
    return status


def _check_keys(redis: Redis) -> None:
    """Raise `ConfigurationError` where a key of the fleet holds something of another type."""
    try:
        wrong = wrong_types(redis)
    except Exception as error:
        if not is_redis_error(error):
            raise
        return  # Celery waits for a Redis that is away
    if wrong:
        raise ConfigurationError("\n".join(wrong))
