"""The child's side: one process per host and spec answers jobs of all that connect.

A handler is ``open(options) -> (handle, about)``. ``await handle(job, seconds)`` returns a plain
mapping and does not raise; ``about`` is a plain mapping that clients get when the child is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any, cast

from llmeval_sdk.errors import JudgeError


LINE_BYTES = 64 << 20
ALONE_SECONDS = 10.0
"""How long it stays when the last client has left: a script may evaluate again in a moment."""
_NICE = 5

Handle = Callable[[Mapping[str, object], float], Awaitable[Mapping[str, object]]]


def serve(task: Mapping[str, Any]) -> int:
    """Serve until idle or alone; 0 also where another process already serves this address."""
    import fcntl  # Windows has none: there, Ragas runs on a thread of the app

    address = task["address"]
    lock = os.open(f"{address}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    with suppress(FileNotFoundError):
        os.unlink(address)  # noqa: PTH108 - its server is gone, or the lock would be held
    os.umask(0o077)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(address)
    listening.listen(128)  # clients may connect from here on; they wait for `ready`
    os.environ.update(task["environment"])  # noqa: TID251 - before the libraries are imported
    handle, greeting = _open(task)
    with suppress(OSError):  # from here on; somebody waits for the start
        os.nice(_NICE)
    if handle is not None:
        _limit_memory(task["memory_bytes"])
    asyncio.run(Server(handle, greeting, task["idle_seconds"]).run(listening))
    with suppress(FileNotFoundError):
        os.unlink(address)  # noqa: PTH108
    return 0


def _open(task: Mapping[str, Any]) -> tuple[Handle | None, Mapping[str, Any]]:
    module, _, attribute = task["handler"].partition(":")
    try:
        handle, about = getattr(import_module(module), attribute)(task["options"])
    except JudgeError as error:
        return None, {"fatal": {"type": error.type, "message": str(error)}}
    except Exception as error:
        return None, {"fatal": {"type": "error", "message": f"{type(error).__name__}: {error}"}}
    return cast("Handle", handle), {"ready": about}


def _limit_memory(extra: int) -> None:
    """Allow so many bytes more than what is taken now; where the system can say what that is."""
    if not extra:
        return
    import resource

    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            pages = int(file.read().split()[5])
    except (OSError, ValueError, IndexError):
        return
    most = pages * resource.getpagesize() + extra
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Server:
    """Reads jobs, one JSON object a line, and writes answers as they come."""

    def __init__(
        self, handle: Handle | None, greeting: Mapping[str, object], idle_seconds: float
    ) -> None:
        self._handle = handle
        self._greeting = greeting
        self._idle_seconds = idle_seconds
        self._clients: set[asyncio.StreamWriter] = set()
        self._jobs: dict[tuple[asyncio.StreamWriter, int], asyncio.Task[None]] = {}
        self._busy_at = self._alone_since = monotonic()

    async def run(self, listening: socket.socket) -> None:
        """Serve until there is nothing to do any more."""
        server = await asyncio.start_unix_server(self._client, sock=listening, limit=LINE_BYTES)
        while not self._finished():  # noqa: ASYNC110 - it is time that passes, nothing happens
            await asyncio.sleep(min(1.0, self._idle_seconds / 4))
        server.close()
        for client in self._clients:  # a job that is on its way is sent again to the next child
            self._say(client, {"bye": True})
            with suppress(OSError):
                await client.drain()
        os._exit(0)  # a library's thread or exit handler must not keep 200 MB alive

    def _finished(self) -> bool:
        now = monotonic()
        if self._jobs:
            self._busy_at = now
        if self._clients:
            self._alone_since = now
        alone = min(ALONE_SECONDS, self._idle_seconds)
        return now - self._busy_at > self._idle_seconds or now - self._alone_since > alone

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        self._say(writer, self._greeting)
        try:
            while line := await reader.readline():
                message = json.loads(line)
                key = (writer, message["id"])
                if "cancel" in message:
                    self._cancel(key)
                elif self._handle is not None:
                    self._jobs[key] = asyncio.create_task(self._answer(key, message))
        except (OSError, ValueError):
            pass
        finally:
            for key in [key for key in self._jobs if key[0] is writer]:
                self._cancel(key)
            self._clients.discard(writer)
            writer.close()

    def _cancel(self, key: tuple[asyncio.StreamWriter, int]) -> None:
        task = self._jobs.get(key)
        if task is not None:
            task.cancel()

    async def _answer(
        self, key: tuple[asyncio.StreamWriter, int], message: Mapping[str, Any]
    ) -> None:
        writer, number = key
        assert self._handle is not None
        try:
            answer = await self._handle(message["job"], message["seconds"])
        except MemoryError:
            os._exit(1)  # nothing can be relied on after that; the next child starts clean
        except Exception as error:
            answer = {"error": {"type": type(error).__name__, "message": str(error)}}
        finally:
            self._jobs.pop(key, None)
            self._busy_at = monotonic()
        self._say(writer, {"id": number, "answer": answer})
        with suppress(OSError):
            await writer.drain()

    @staticmethod
    def _say(writer: asyncio.StreamWriter, what: Mapping[str, object]) -> None:
        if not writer.is_closing():
            writer.write(json.dumps(what).encode() + b"\n")
