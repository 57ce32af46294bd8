"""A fork waits until no other thread is importing on our behalf.

Only the thread that forks goes on in the child. What another one was importing stays half made
there and its lock is held for ever, so the next to import it hangs, be it the app. We import late
and in the background; therefore this is ours to prevent.
"""

from __future__ import annotations

import sys
import threading
from time import monotonic, sleep

from llmeval_sdk._process import PACKAGE_FOLDER


WAIT_SECONDS = 1.0
"""More than any of our imports takes; a fork is never held up for longer."""
_IMPORT = "<frozen importlib._bootstrap>"


def wait_for_imports() -> None:
    """Wait until no other thread is inside an import that code of ours led to."""
    deadline = monotonic() + WAIT_SECONDS
    while _is_importing() and monotonic() < deadline:
        sleep(0.001)


def _is_importing() -> bool:
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        importing = False
        at = frame if thread != own else None
        while at is not None:
            name = at.f_code.co_filename
            if importing and name.startswith(PACKAGE_FOLDER):
                return True
            importing = importing or name == _IMPORT
            at = at.f_back
    return False
