"""Clients of Redis, and the thread of this process that talks to it, so that nobody else waits.

This is the one place that imports the library.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.process.shield import Counts, shield, tell


if TYPE_CHECKING:
    from redis import Redis


KEYS = "llmeval."
"""With this begins the name of every key."""


def is_redis_error(error: BaseException) -> bool:
    """Say whether the library raised an error, without importing it where nobody has."""
    return type(error).__module__.partition(".")[0] == "redis"


def connect(
    address: str | Secret, *, connect_seconds: float = 2.0, answer_seconds: float = 5.0
) -> Redis:
    """Make a client; it connects when it is first used, and threads may share it.

    It never tries again by itself, so that a command takes no longer than both timeouts together.
    With ``rediss://`` the certificate is checked; options such as ``?ssl_ca_certs=/path/ca.pem``
    stand in the address.

    Args:
        address: ``redis://…`` or ``rediss://…``.
        connect_seconds: how long a connection may take.
        answer_seconds: how long the answer to a command may take.

    Raises:
        ConfigurationError: the address cannot be used; the message does not hold its password.
        MissingExtraError: the library is not installed.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise missing_extra("What all hosts share", "fleet", "redis") from None
    text = address.reveal() if isinstance(address, Secret) else address
    try:
        place = RedisAddress(text).place
    except ValueError as problem:
        raise ConfigurationError(f"the address of Redis: {problem}") from None
    try:
        client: Redis = Redis.from_url(
            text.strip(),
            socket_connect_timeout=connect_seconds,
            socket_timeout=answer_seconds,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # with 3, the client also listens for notices of maintenance
            client_name="llmeval",
            decode_responses=False,
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # does not connect yet
    except Exception as error:  # an option in the address that the library does not know
        raise ConfigurationError(f"{place} cannot be used: {type(error).__name__}") from None
    return client


T = TypeVar("T")
PATIENCE_SECONDS = 0.5
"""How long the thread waits for a connection and for an answer, and a judgement for the thread."""
LOADING_SECONDS = 10.0
"""How long the first judgements of a process wait at most until the library is loaded."""
BEAT_SECONDS = 2.0
"""How often the thread exchanges what is shared, once anything of it was used."""
MAX_PAUSE_SECONDS = 2.0
"""How long the thread waits at most before it tries a Redis that is away once more."""
MAX_WAITING = 256
"""How many questions may wait for the thread; a further one is not asked."""


def elapsed() -> float:
    """Return seconds that also pass while the machine sleeps, where it can tell."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SharedState(Protocol):
    """Something that is shared, and exchanged with every beat."""

    def exchange(self, redis: Redis, /) -> None:
        """Exchange what is new. Raises whatever the client raises."""

    def forked(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""


class RedisThread:
    """Runs all commands on one daemon thread, which starts with the first of them.

    A Redis that hangs holds up this thread alone, for `PATIENCE_SECONDS` at a time. Whoever asks
    something may await the answer with `heard`; while Redis is known to be away there is none.
    """

    def __init__(self, address: Secret, *, beat: float = BEAT_SECONDS) -> None:
        self.place = RedisAddress(address.reveal()).place
        self.counts = Counts()
        """What was exchanged, and what failed, by reason."""
        self._address = address
        self._beat = beat
        self._members: list[SharedState] = []
        self._process = _ProcessState()
        self.is_away = False
        """Whether the latest command failed."""
        self._pause = 0.0

    def join(self, member: SharedState) -> None:
        """Exchange for a member with every beat from now on."""
        self._members.append(member)

    def start(self) -> None:
        """Start the thread in this process, unless it runs; a forked child begins anew."""
        self._mine()

    def ask(self, question: Callable[[Redis], T]) -> Future[T | None]:
        """Ask Redis something; return at once what will hold the answer.

        ``None`` stands for no answer: Redis is away, busy, or refuses the command.
        """
        process, answer = self._mine(), Future[T | None]()
        if self.is_away or process.thread is None or process.questions.qsize() >= MAX_WAITING:
            self.counts.add("not asked")
            answer.set_result(None)
        else:
            process.questions.put((question, answer))
        return answer

    async def heard(self, answer: Future[T | None]) -> T | None:
        """Await an answer for `PATIENCE_SECONDS` at most; ``None`` where there is none by then.

        A question that Redis was not asked by then is not asked any more. The first one of a
        process also waits until the library is loaded.
        """
        try:
            if not self._process.loaded.done():
                await _done_within(self._process.loaded, LOADING_SECONDS)
            await _done_within(answer, PATIENCE_SECONDS)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()

    def heard_now(self, answer: Future[T | None]) -> T | None:
        """Do what `heard` does, on a thread that may wait."""
        try:
            self._process.loaded.result(LOADING_SECONDS)
            return answer.result(PATIENCE_SECONDS)
        except FutureTimeoutError:
            answer.cancel()
            return None

    def close(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Exchange once more and end the thread; wait at most this long for it."""
        process = self._process
        if process.pid == os.getpid() and process.thread is not None:
            process.is_closing = True
            process.questions.put(None)
            process.thread.join(seconds)
            self._process = _ProcessState()

    # -- on the thread ---------------------------------------------------------------------------

    def _mine(self) -> _ProcessState:
        process = self._process
        if process.pid != os.getpid():
            process = self._process = _ProcessState()
            self.is_away, self._pause = False, 0.0
            for member in self._members:
                member.forked()
        if process.thread is None:
            with process.lock:
                if process.thread is None:
                    thread = threading.Thread(
                        target=self._serve, args=(process,), name="llmeval-shared", daemon=True
                    )
                    with shield("what all hosts share"):  # no thread can start at the very end
                        thread.start()
                        process.thread = thread
        return process

    def _serve(self, process: _ProcessState) -> None:
        with shield("what all hosts share", on_own_thread=True):
            try:
                redis = connect(
                    self._address, connect_seconds=PATIENCE_SECONDS, answer_seconds=PATIENCE_SECONDS
                )
            except Exception:
                self.is_away = True  # nobody will ever answer
                raise
            finally:
                process.loaded.set_result(None)
            due = 0.0
            while not process.is_closing:
                try:
                    asked = process.questions.get(timeout=max(due - elapsed(), 0.0))
                except Empty:
                    asked = None
                if asked is not None:
                    self._answer(*asked, redis)
                if elapsed() >= due:
                    self._exchange(redis)
                    due = elapsed() + (self._pause or self._beat)
            self._exchange(redis)
            redis.close()

    def _answer(self, question: Callable[[Redis], Any], answer: Future[Any], redis: Redis) -> None:
        if answer.set_running_or_notify_cancel():  # else nobody waits for it any more
            answer.set_result(None if self.is_away else self._try(question, redis))

    def _exchange(self, redis: Redis) -> None:
        if self.is_away and not self._try(lambda redis: redis.ping(), redis):
            return
        for member in self._members:
            self._try(member.exchange, redis)
            if self.is_away:
                return

    def _try(self, command: Callable[[Redis], T], redis: Redis) -> T | None:
        from redis.exceptions import RedisError, ResponseError

        try:
            result = command(redis)
        except ResponseError as error:  # Redis is there: only this command is refused
            self.counts.add(f"failed: {type(error).__name__}")
            tell("what all hosts share", f"{self.place} refuses a command: {error!s:.100}")
            return None
        except (RedisError, OSError) as error:
            self.counts.add(f"failed: {type(error).__name__}")
            self.is_away = True
            self._pause = min(self._pause * 2 or 0.25, MAX_PAUSE_SECONDS)
            tell("what all hosts share", f"{self.place} cannot be used: {type(error).__name__}")
            return None
        except Exception as error:
            self.counts.add(f"failed: {type(error).__name__}")
            tell("what all hosts share", f"{type(error).__name__}: {error!s:.100}")
            return None
        self.is_away, self._pause = False, 0.0
        return result


async def _done_within(future: Future[Any], seconds: float) -> None:
    """Wait until a future of another thread is done, or the time is over.

    ``asyncio.wait_for`` would lose a cancellation that comes together with the answer.
    """
    waited = asyncio.wrap_future(future)
    try:
        await asyncio.wait([waited], timeout=seconds)
    finally:
        waited.cancel()


class _ProcessState:
    """What a forked child has to make anew."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.questions: SimpleQueue[tuple[Callable[[Redis], Any], Future[Any]] | None] = (
            SimpleQueue()
        )
        self.thread: threading.Thread | None = None
        self.is_closing = False
        self.loaded: Future[None] = Future()
        """Done when the library is loaded, which takes longer than an answer."""
        self.loaded.set_running_or_notify_cancel()  # who waits for it cannot cancel it
