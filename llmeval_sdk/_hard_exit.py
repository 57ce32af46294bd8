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
    global _asked_in
    if _asked_in == os.getpid():
        return
    _asked_in = os.getpid()
    multiprocessing = sys.modules.get("multiprocessing")
    util = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and util is not None and multiprocessing.parent_process():
        util.Finalize(None, end, exitpriority=LAST)
    signals = sys.modules.get("celery.signals")
    if signals is not None:

        def at_shutdown(**_: Any) -> None:
            end()

        signals.worker_process_shutdown.connect(at_shutdown, weak=False, dispatch_uid=__name__)
