"""A helper process of ours: a plain subprocess that speaks JSON lines over a local socket.

It loads this package by its path into any interpreter, so nothing of the app comes along: no
pickle, no second run of the app's main module, no bootstrap of other tools. Processes that ask for
the same child share it. A handler says what the child does, see `_serve`. This is the app's side:
it finds or starts the child, sends jobs, and gives up on a child that does not answer.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.plugins.ragas._serve import LINE_BYTES
from llmeval_sdk.process.forks import after_in_child


PACKAGE = Path(__file__).resolve().parents[2]
_MAX_ADDRESS = 100
"""Bytes; the address of a local socket may have 103 on the strictest system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """Plain data that says what to run; equal specs on one host mean one process."""

    handler: str
    """``module:attribute`` of this package: called once with ``options`` in the child, it returns
    what answers jobs and a mapping that says what is there."""
    python: str
    """The interpreter to run."""
    paths: tuple[str, ...] = ()
    """Folders for the end of the child's ``sys.path``."""
    options: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to add."""
    shared_by: str = ""
    """Processes that name the same thing (the store's folder) share one child."""
    idle_seconds: float = 300.0
    memory_bytes: int = 1 << 30
    """Memory the child may take beyond what it has when it is ready; 0 is no limit."""

    def text(self) -> str:
        """Return all of it as JSON: what the child is given and what tells two apart."""
        return json.dumps({**asdict(self), "package": str(PACKAGE)}, sort_keys=True)

    def address(self) -> Path:
        """Return the socket's path, in a folder that only this user may enter.

        Raises OSError where no such folder can be had.
        """
        name = hashlib.sha256(self.text().encode()).hexdigest()[:20]
        parent = tempfile.gettempdir()
        if len(os.fsencode(parent)) > _MAX_ADDRESS - 45:
            parent = "/tmp"  # noqa: S108 - checked below
        folder = Path(parent) / f"llmeval-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = folder.lstat()
            if found.st_uid != os.getuid() or (found.st_mode & 0o40077) != 0o40000:
                raise PermissionError(f"{folder} is not a private folder of this user") from None
        return folder / f"{name}.sock"


def interpreter() -> str:
    """Return the running interpreter's file, also where a server has it embedded."""
    if Path(sys.executable or "").name.startswith(("python", "pypy")):
        return sys.executable
    return str(Path(sysconfig.get_path("scripts")) / "python3")


START_SECONDS = 60.0
"""A child that is not ready by then is killed."""
CONNECT_SECONDS = 10.0
GRACE_SECONDS, GRACE_SHARE = 2.0, 0.08
"""How much longer than its deadline a job may take before the child counts as stuck: so many
seconds, or that share of the deadline where it is less."""
_BOOT = Path(__file__).with_name("_boot.py")
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 60.0

_started: list[subprocess.Popen[bytes]] = []
_children: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Child]]
_connections: WeakSet[_Connection]


def child(spec: ChildSpec) -> Child:
    """Return the running loop's access to a child; nothing is started before the first job."""
    mine = _children.setdefault(asyncio.get_running_loop(), {})
    key = spec.text()
    if key not in mine:
        mine[key] = Child(spec)
    return mine[key]


class RetiredError(Exception):
    """The child ended by itself before it took the job."""


class Child:
    """Sends jobs to the child, which it starts where nobody has. For one event loop."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._losses = 0
        self._not_before = 0.0
        self._why = JudgeError("worker_lost")

    async def call(self, job: Mapping[str, object], *, seconds: float) -> Mapping[str, object]:
        """Have a job done within ``seconds`` and return the handler's answer.

        Raises:
            JudgeError: ``worker_lost`` where the child crashed, was killed because it did not
                answer, or may not be started again yet; or what the handler said when it could
                not be opened.
        """
        while True:
            connection = await self._connected()
            try:
                answer = await connection.ask(job, seconds)
            except RetiredError:
                continue
            except JudgeError as error:
                self._lost(connection, error)
                raise
            self._losses = 0
            return answer

    async def about(self) -> Mapping[str, object]:
        """Start the child if need be and return what it says of itself; raises `JudgeError`."""
        found: Mapping[str, object] = (await self._connected()).greeting.result()["ready"]
        return found

    def close(self) -> None:
        """Leave the child; alone, it ends in a moment."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                if monotonic() < self._not_before:
                    raise JudgeError(self._why.type, str(self._why))
                self._connection = None
                try:
                    self._connection = await _connect(self._spec)
                except (OSError, JudgeError) as error:
                    self._lost(None, JudgeError("worker_lost", f"cannot be started: {error}"))
                    raise self._why from None
            connection = self._connection
            done, _ = await asyncio.wait([connection.greeting], timeout=START_SECONDS)
            if not done:
                connection.kill()
            try:
                greeting = connection.greeting.result() if done else {}
            except JudgeError as error:
                self._lost(connection, error)
                raise
            fatal = greeting.get("fatal") or (
                None if done else {"type": "worker_lost", "message": "was not ready in time"}
            )
            if fatal is not None:
                self._losses = 99  # it will say the same again: look once a minute
                self._lost(connection, JudgeError(fatal["type"], fatal["message"]))
                connection.close()
                raise self._why
            return connection

    def _lost(self, connection: _Connection | None, error: JudgeError) -> None:
        """Note, once per connection, why the child is gone, and when it may be started again."""
        _reap()
        if connection is not self._connection:
            return
        self._connection = None
        pause = min(_FIRST_PAUSE * 2 ** min(self._losses, 10), _MAX_PAUSE)
        self._losses += 1
        self._not_before = monotonic() + pause
        self._why = error


class _Connection:
    """One socket to the child; a task of the loop reads it to its end."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Path
    ) -> None:
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self.closed = False
        self.number = writer.get_extra_info("socket").fileno()
        self._writer = writer
        self._address = address
        self._waiting: dict[int, asyncio.Future[Mapping[str, object]]] = {}
        self._ids = count(1)
        self._reading = loop.create_task(self._read(reader))
        _connections.add(self)

    async def ask(self, job: Mapping[str, object], seconds: float) -> Mapping[str, object]:
        """Send a job and wait for its answer."""
        if self.closed:
            raise RetiredError
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "job": job, "seconds": seconds})
            longer = min(GRACE_SECONDS, seconds * GRACE_SHARE)
            done, _ = await asyncio.wait([answer], timeout=seconds + longer)
        except BaseException:
            self._send({"id": number, "cancel": True})
            raise
        finally:
            del self._waiting[number]
        if not done:
            self.kill()
            raise JudgeError("worker_lost", "did not answer in time and was killed")
        result: Mapping[str, object] = answer.result()
        return result

    def kill(self) -> None:
        """End a child that does not answer, whoever started it."""
        with suppress(OSError, ValueError):
            process = int(Path(f"{self._address}.lock").read_text("ascii"))
            if not self.closed:
                os.kill(process, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.closed = True
        self._writer.close()
        self._reading.cancel()

    def _send(self, what: Mapping[str, object]) -> None:
        if not self.closed:
            self._writer.write(json.dumps(what, default=str).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        failure: Exception = JudgeError("worker_lost", "ended without an answer")
        try:
            while line := await reader.readline():
                told = json.loads(line)
                if "bye" in told:
                    failure = RetiredError()
                    break
                if "id" not in told:
                    self.greeting.set_result(told)
                    continue
                answer = self._waiting.get(told["id"])  # None where nobody waits any more
                if answer is not None and not answer.done():
                    answer.set_result(told["answer"])
        except (OSError, ValueError):
            pass
        finally:
            self.closed = True
            self._writer.close()
            for answer in (self.greeting, *self._waiting.values()):
                if not answer.done():
                    answer.set_exception(failure)
            if self.greeting.done() and not self.greeting.cancelled():
                self.greeting.exception()  # nobody may be waiting for it


async def _connect(spec: ChildSpec) -> _Connection:
    """Connect to the child that serves the spec, or start one. Of several, the first lives."""
    address = spec.address()
    process: subprocess.Popen[bytes] | None = None
    deadline = monotonic() + CONNECT_SECONDS
    while True:
        try:
            found = await asyncio.open_unix_connection(str(address), limit=LINE_BYTES)
            return _Connection(*found, address)
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        if process is not None and process.poll():
            raise JudgeError("worker_lost", f"{spec.python} ended with {process.returncode}")
        if process is None or process.poll() == 0:  # 0: another was faster; it may be gone by now
            process = _start(spec, address)
        if monotonic() > deadline:
            raise JudgeError("worker_lost", f"no child came up at {address}")
        await asyncio.sleep(0.05)


def _start(spec: ChildSpec, address: Path) -> subprocess.Popen[bytes]:
    _reap()
    told = json.dumps({**json.loads(spec.text()), "address": str(address)})
    process = subprocess.Popen(  # noqa: S603 - our own script
        [spec.python, "-I", str(_BOOT), told],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a terminal's interrupt is the app's
    )
    _started.append(process)
    return process


def _let_go() -> None:
    """Leave at exit the children that still serve, which others share and which end by themselves.

    ``Popen`` warns of a process that runs on, and here that is what is meant to be.
    """
    _reap()
    for process in _started:
        process.returncode = 0


atexit.register(_let_go)


def _reap() -> None:
    """Take note of children of ours that have ended, so that none stays as a zombie."""
    _started[:] = [process for process in _started if process.poll() is None]


def _after_fork() -> None:
    """Let go of what belongs to the parent: a socket kept open here would keep the child."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for connection in list(_connections):
        connection.closed = True
        with suppress(OSError):
            os.dup2(nothing, connection.number, inheritable=False)
    os.close(nothing)
    for process in _started:
        process.returncode = 0  # not ours to wait for
    _started.clear()


_children = WeakKeyDictionary()
_connections = WeakSet()
after_in_child(_after_fork)
