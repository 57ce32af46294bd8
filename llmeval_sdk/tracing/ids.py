"""W3C ids: 128 random bits for a trace, 64 for a span, never zero."""

from __future__ import annotations

import os
from _random import Random


# Our own generator: an app that seeds the global one must not make two processes share ids, and
# ``os.urandom`` gives up the GIL, which beside a busy thread costs milliseconds. It is the one that
# the module `random` builds on; importing that module takes 5 ms of the first traced call.
_random = Random()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def _trace_id() -> int:
    return _random.getrandbits(128) or 1


def _span_id() -> int:
    return _random.getrandbits(64) or 1


new_trace_id = _trace_id
new_span_id = _span_id
