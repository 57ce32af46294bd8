"""W3C ids: 128 random bits for a trace, 64 for a span, never zero."""

from __future__ import annotations

from _random import Random
from time import perf_counter_ns, time_ns

from llmeval_sdk.process.forks import after_in_child


# Our own generator: an app that seeds the global one must not make two processes share ids, and
# ``os.urandom`` gives up the GIL, which beside a busy thread costs milliseconds. It is the one that
# the module `random` builds on; importing that module takes 5 ms of the first traced call.
_random = Random()
after_in_child(_random.seed)

_JUMP_NS = 1_000_000_000
_offset = time_ns() - perf_counter_ns()
"""How far the wall clock was ahead of the monotonic one when the generator was seeded."""


def has_jumped(offset: int) -> bool:
    """Say whether the wall clock has jumped beside the monotonic one, and seed anew if it has.

    It does where a snapshot of this process is started again, as by Lambda's SnapStart: processes
    of one snapshot would make the same ids.
    """
    global _offset  # noqa: PLW0603
    if -_JUMP_NS < offset - _offset < _JUMP_NS:
        return False
    _offset = offset
    _random.seed()
    return True


def _trace_id() -> int:
    return _random.getrandbits(128) or 1


def _span_id() -> int:
    return _random.getrandbits(64) or 1


new_trace_id = _trace_id
new_span_id = _span_id
