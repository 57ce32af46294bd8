"""Celery's own worker, which runs the one task of a fleet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import missing_extra
from llmeval_sdk.plugins.fleet._answering import CLAIM_MARGIN, DELIVERY_SECONDS, GiveBackError
from llmeval_sdk.plugins.fleet._keys import QUEUE
from llmeval_sdk.plugins.fleet._message import MAX_JUDGEMENTS, TASK
from llmeval_sdk.plugins.shared.client import KEYS
from llmeval_sdk.process.shield import swallow


CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 5.0


def visibility_seconds(judge_timeout: float, concurrency: int, slots: int) -> float:
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

        def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
            connection = self._connection(broker, **options)
            connection.transport_cls = transport
            return connection

        def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
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

        def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
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

    def judge(body: Any = None, signed: Any = None) -> None:
        try:
            answer(body, signed)
        except GiveBackError as error:
            raise Reject(str(error), requeue=True) from error
        except Exception as error:
            if not swallow("fleet", error, calls_out=True):
                raise
            raise Reject(type(error).__name__, requeue=True) from error

    app.task(name=TASK, shared=False)(judge)


def run_worker(app: Any, *, pool: str, slots: int, name: str) -> int:
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
