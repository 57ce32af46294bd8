"""The judges' thread: one daemon thread with an event loop of its own, never the app's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llmeval_sdk._process.shield import shield
from llmeval_sdk._process.threads import DaemonLoop, OneThread
from llmeval_sdk.tracing._inner import off


READY_SECONDS = 5.0


class JudgesLoop:
    """An event loop on a thread that starts when it is first needed."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = DaemonLoop

    def __init__(self) -> None:
        self._thread = OneThread(self._serve, name="llmeval-judges")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._shut = False

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self._thread.start()

    def is_ready(self) -> bool:
        """Start the thread and wait for its loop; False where there will be none."""
        return self.start() and self._ready.wait(READY_SECONDS)

    def call(self, function: Callable[[], Any]) -> None:
        """Have a loop that is ready call a function soon."""
        if self._loop is not None:
            with suppress(RuntimeError):  # somebody else has ended the loop
                self._loop.call_soon_threadsafe(function)

    def shut(self) -> None:
        """End the loop and what still runs on it."""
        self._shut = True
        if self._loop is not None:
            self.call(self._loop.stop)

    def _serve(self) -> None:
        off()  # a judge that calls the app's decorated helpers is not traced, nor judged
        loop = self._loop = self.new_loop()
        loop.call_soon(self._ready.set)
        while not self._shut:
            with shield("judges' loop", on_own_thread=True):  # a sys.exit() in a judge ends it
                loop.run_forever()
        with shield("judges' loop"):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), 1.0))
            loop.close()  # the clients' connections were closed by the line above
