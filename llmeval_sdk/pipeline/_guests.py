"""The app's own code in the worker: on a thread beside it, which is left behind where it hangs.

Built-in heuristics run in the worker itself. A function of the app may never return, and then the
worker goes on without it: the heuristic is off until its call comes back, and for good after three
such calls. What is left behind is a daemon thread, so it never keeps the process alive.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic

from llmeval_sdk._process.shield import caught, tell
from llmeval_sdk.evaluation import failed, is_built_in, own_copy, raised, run_heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.protocols import Heuristic
from llmeval_sdk.tracing import off


PATIENCE_SECONDS = 5.0
LAST_PATIENCE_SECONDS = 0.2
"""When the pipeline is ending."""
MAX_STRIKES = 3
MAX_LEFT_BEHIND = 8


class _Call:
    __slots__ = ("done", "error", "heuristic", "outcome", "record")

    def __init__(self, heuristic: Heuristic, record: Record) -> None:
        self.heuristic = heuristic
        self.record = record
        self.outcome: Evaluation | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()


class Guests:
    """Runs heuristics for one worker; ``ending`` says whether it has no time to lose."""

    def __init__(self, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self._calls: SimpleQueue[_Call | None] | None = None
        self._overdue: dict[str, _Call] = {}
        self._strikes: Counter[str] = Counter()

    def run(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic where it is safe to; ``None`` where it is switched off."""
        run = run_heuristic if is_built_in(heuristic) else self.run_aside
        return run(heuristic, record)

    def run_aside(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic that calls code of the app, and wait for it for a while."""
        if self._is_off(heuristic.name):
            caught.add(f"heuristic {heuristic.name}: switched off")
            return None
        calls = self._calls or self._start()
        if calls is None:
            return failed(heuristic, "no_worker", "no thread could be started")
        call = _Call(heuristic, own_copy(record))
        calls.put(call)
        begun = monotonic()
        while not call.done.wait(0.05):
            patience = LAST_PATIENCE_SECONDS if self._ending() else PATIENCE_SECONDS
            if (waited := monotonic() - begun) > patience:
                return self._left_behind(call, waited)
        return call.outcome if call.error is None else raised(heuristic, call.error)

    def close(self) -> None:
        """Let the thread end once it is through."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.put(None)

    def _is_off(self, name: str) -> bool:
        if not self._overdue:
            return False
        call = self._overdue.get(name)
        if call is not None and call.done.is_set() and self._strikes[name] < MAX_STRIKES:
            del self._overdue[name]
            call = None
        stuck = [each for each in self._overdue.values() if not each.done.is_set()]
        return call is not None or len(stuck) >= MAX_LEFT_BEHIND

    def _left_behind(self, call: _Call, waited: float) -> Evaluation:
        self.close()
        name = call.heuristic.name
        self._overdue[name] = call
        self._strikes[name] += 1
        caught.add(f"heuristic {name}")
        tell(f"heuristic {name}", f"no answer after {waited:.1f} s, switched off until there is")
        return failed(call.heuristic, "timeout", f"no answer after {waited:.1f} s")

    def _start(self) -> SimpleQueue[_Call | None] | None:
        calls: SimpleQueue[_Call | None] = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(calls,), name="llmeval-own", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return None
        self._calls = calls
        return calls


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    off()  # a heuristic that calls the app's decorated helpers makes no spans
    while (call := calls.get()) is not None:
        try:
            call.outcome = run_heuristic(call.heuristic, call.record)
        except BaseException as error:  # nobody else's: signals interrupt the main thread only
            call.error = error
        call.done.set()
