"""The end of processes that never reach ``atexit``: multiprocessing's children, Celery's workers.

Both leave by ``os._exit``. Before it, multiprocessing runs the finalizers of its own registry (its
queues flush there), and Celery sends a signal. Only what the app has loaded is asked; nothing is
patched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


LAST = -100
"""The finalizer's priority: after those of queues and pools, which may still run the app's code."""
_asked_in = 0


def before_hard_exit(end: Callable[[], None]) -> None:
    """Have ``end`` called when this process ends without ``atexit``, if it is one that will.

    To be called in the process itself, once its work has begun: multiprocessing empties its
    registry before that.
    """
    global _asked_in  # noqa: PLW0603
    if _asked_in == os.getpid():
        return
    _asked_in = os.getpid()
    process, util = _multiprocessing()
    if process is not None and util is not None and process.parent_process():
        util.Finalize(None, end, exitpriority=LAST)
    signals = sys.modules.get("celery.signals")
    if signals is not None:

        def at_shutdown(**_: Any) -> None:
            end()

        signals.worker_process_shutdown.connect(at_shutdown, weak=False, dispatch_uid=__name__)


def is_to_be_killed() -> bool:
    """Say whether this is a daemonic child of multiprocessing, such as a pool's.

    Its parent terminates it when the pool's block ends, or its own end comes: nothing runs then.
    """
    process, _ = _multiprocessing()
    return (
        process is not None
        and process.parent_process() is not None
        and process.current_process().daemon
    )


def after_children(end: Callable[[], None]) -> bool:
    """Have ``end`` called once multiprocessing has ended this process's children at exit.

    Returns False where it has none, or has ended them already.
    """
    process, util = _multiprocessing()
    if process is None or util is None or util.is_exiting() or not process.active_children():
        return False
    util.Finalize(None, end, exitpriority=LAST)
    return True


def _multiprocessing() -> tuple[Any, Any]:
    """Return multiprocessing's modules ``process`` and ``util`` where the app has loaded them."""
    return sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
