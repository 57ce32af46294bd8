"""Connects tracing with the runtime, which installs itself and its recorder here."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from llmeval_sdk.process import first_use


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.model.protocols import ContextBridge
    from llmeval_sdk.tracing._span import Link, Span


class Recorder(Protocol):
    """What receives spans. Both calls run on the app's thread and never raise."""

    @property
    def reads_at_once(self) -> bool:
        """Whether all that is left to a span has to be there the moment it ends."""

    def on_start(self, span: Span, /) -> None:
        """Take note of a span that begins."""

    def on_end(self, span: Span, /) -> None:
        """Take a span that ended."""

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once."""

    def early(self, span: Span, /) -> Evaluation | None:
        """Score the context that a span holds before it ends."""

    def take(
        self, read: Callable[[], Iterable[Span]], size: int, /, *, exported: bool = False
    ) -> None:
        """Take finished spans of another library, to be read and scored in the background."""


MAX_REQUESTED = 1_000
"""Decorators with evaluators that are remembered."""


class State:
    """What tracing works with now; a plain object, so that the hot path only reads attributes."""

    __slots__ = (
        "ambient_parent", "enabled", "identities", "keeps_images", "neighbours", "read_calls_of",
        "recorder", "requested", "sample_below",
    )  # fmt: skip

    def __init__(self) -> None:
        self.enabled = True
        self.recorder: Recorder | None = None
        self.sample_below = 1 << 64
        """A new trace is recorded when the low 64 bits of its id are below this."""
        self.ambient_parent: Any = None
        """Returns the Link of another library's active span, where an exporter installed one."""
        self.read_calls_of: Callable[[Any], None] | None = None
        """Reads the instrumented calls inside an open span that wait for the worker."""
        self.identities: Any = None
        """Hashes the ids of users and sessions, where a setting asks for that."""
        self.keeps_images = False
        """Whether images, sounds and files in texts are kept, and not only what they were."""
        self.neighbours: tuple[ContextBridge, ...] = ()
        """Other libraries' contexts, which are switched together with ours."""
        self.requested: dict[tuple[Any, ...], tuple[str, tuple[Any, ...]]] = {}
        """Names of spans with the evaluators that their decorators name, for `configure` to check.
        The key keeps a decorator that runs in every request from adding an entry each time."""

    def note_requested(self, name: str, evaluators: tuple[Any, ...]) -> None:
        """Remember the evaluators that a decorator names, for as long as there are not too many."""
        if len(self.requested) < MAX_REQUESTED:
            key = (name, *map(id, evaluators))
            self.requested[key] = (name, evaluators)


state = State()


def hide_ids(span: Any) -> None:
    """Hash the session and the user of a span, where a setting asks for that."""
    if state.identities is not None:
        state.identities.hide(span)


current: ContextVar[Span | Link | None] = ContextVar("llmeval_current", default=None)
"""The active span, a Link to a parent elsewhere, or a Link that says: nothing is recorded here."""

_bootstrap = threading.RLock()


def _renew_lock() -> None:
    """Make the lock anew in a forked child: the thread that held it lives in the parent only."""
    global _bootstrap  # noqa: PLW0603
    _bootstrap = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Switching(threading.local):
    """Whether this thread is inside ``ContextVar.set``."""

    busy = False


_switching = _Switching()


def make_current(value: Span | Link | None) -> None:
    """Make a span the active one.

    Before Python 3.12 garbage may be collected inside ``ContextVar.set``, while it copies the
    context. A finaliser that sets a variable then frees what is being copied, and the process
    crashes. So a span that a finaliser begins at that moment does not become the active one.
    """
    if _switching.busy:
        return
    _switching.busy = True
    try:
        current.set(value)
    finally:
        _switching.busy = False


if sys.version_info >= (3, 12):
    make_current = current.set  # type: ignore[assignment]  # the collector waits for a safe place


class _Runtime(NamedTuple):
    set_up: Callable[[], None]
    take_over: Callable[[], None]
    deliver: Callable[[float | None], bool]


_installed: _Runtime | None = None


def install(
    *,
    set_up: Callable[[], None],
    take_over: Callable[[], None],
    deliver: Callable[[float | None], bool],
) -> None:
    """Take from the runtime how to configure the SDK, look for children at exit, and deliver."""
    global _installed  # noqa: PLW0603
    _installed = _Runtime(set_up, take_over, deliver)


def deliver(timeout: float | None) -> bool:
    """Score and deliver what was recorded so far, and return whether that was done in time.

    Args:
        timeout: how many seconds to wait at most; None for as long as the exit may wait.
    """
    return _installed is None or state.recorder is None or _installed.deliver(timeout)


def _runtime() -> _Runtime:
    """Return what the runtime installed; load the runtime if this is the first span."""
    if _installed is None:
        first_use.load()
    assert _installed is not None
    return _installed


def recorder() -> Recorder | None:
    """Return the recorder; configure the SDK from the environment if nothing has so far."""
    if state.recorder is None and state.enabled:
        with _bootstrap:
            if state.recorder is None and state.enabled:
                _runtime().set_up()
    return state.recorder


def _before_exit() -> None:
    """Let the runtime deliver what children left, if this process has recorded nothing itself."""
    if state.recorder is None and state.enabled and "multiprocessing.process" in sys.modules:
        _runtime().take_over()


atexit.register(_before_exit)


def outside_contexts() -> list[Any]:
    """Return the current contexts of the other libraries; empty where there are none."""
    return [neighbour.get() for neighbour in state.neighbours]


def swap_contexts(others: list[Any]) -> list[Any]:
    """Make other contexts of the other libraries current, and return those that were."""
    if not others or _switching.busy:
        return others
    before = []
    for neighbour, context in zip(state.neighbours, others, strict=False):
        before.append(neighbour.get())
        neighbour.put(context)
    return before
