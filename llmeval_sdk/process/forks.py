"""Makes a fork wait until no other thread is inside an import that our code began.

Only the thread that forks lives on in the child. A module that another thread was importing at that
moment stays half imported there, and its import lock is never released: the next import of it in
the child hangs, even one by the app. We import modules late and on background threads, so it is up
to us to prevent that.
"""

from __future__ import annotations

import sys
import threading
from time import monotonic, sleep

from llmeval_sdk.process import PACKAGE_FOLDER


WAIT_SECONDS = 1.0
"""A fork is never held up for longer. None of our imports takes so long."""
_IMPORT = "<frozen importlib._bootstrap>"


def wait_for_imports() -> None:
    """Wait until no other thread is inside an import that our code began."""
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
