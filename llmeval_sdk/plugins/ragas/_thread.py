"""Ragas in this process: on a daemon thread with an event loop of its own, never the app's."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from llmeval_sdk.model.protocols import LLM


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


async def run(
    job: Mapping[str, Any], llm: LLM, setup: str | None, seconds: float
) -> Mapping[str, Any]:
    """Run one metric on the thread and return the engine's answer."""
    future = asyncio.run_coroutine_threadsafe(_run(job, llm, setup, seconds), _started())
    return await asyncio.wrap_future(future)


async def _run(
    job: Mapping[str, Any], llm: LLM, setup: str | None, seconds: float
) -> Mapping[str, Any]:
    engine = import_module("llmeval_sdk.plugins.ragas._engine").engine(setup)
    answer: Mapping[str, Any] = await engine.run(job, llm, seconds)
    return answer


def stop() -> None:
    """End the thread and close its clients, for tests."""
    global _loop
    with _lock:
        loop, _loop = _loop, None
    if loop is not None:
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(5.0)
        loop.call_soon_threadsafe(loop.stop)
        while not loop.is_closed():
            time.sleep(0.001)


def _started() -> asyncio.AbstractEventLoop:
    """Return the thread's loop; the thread has the context of who asked, where tracing is off."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            context = contextvars.copy_context()
            threading.Thread(
                target=context.run, args=(_serve, _loop), name="llmeval-ragas", daemon=True
            ).start()
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _after_fork() -> None:
    """Begin anew in a child: the thread lives in the parent only."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
