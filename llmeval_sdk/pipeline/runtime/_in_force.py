"""The configuration in force, and the replaced ones whose records are still on their way.

They are counted, flushed and shut down together. `_lifecycle` decides which configuration is put in
force, and notices when the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.pipeline.pipeline import Pipeline
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.process.exits import seconds_left
from llmeval_sdk.tracing.internals import State, state


class InForce:
    """The current pipeline and its settings, and those that were replaced."""

    def __init__(self) -> None:
        self.pipeline: Pipeline | None = None
        self.settings: Settings | None = None
        self.retired: list[Pipeline] = []
        self.lock = threading.RLock()
        """Held while one configuration replaces another."""
        self._inherited: list[Pipeline] = []

    def all(self) -> list[Pipeline]:
        """Return all pipelines, the oldest first."""
        return [*self.retired, *([self.pipeline] if self.pipeline is not None else [])]

    def newest_first(self) -> list[Pipeline]:
        """Return all pipelines; replaced ones come last, because they end by themselves."""
        return self.all()[::-1]

    def stats(self) -> Stats:
        """Return the counters of all pipelines together."""
        return _merged([pipeline.stats() for pipeline in self.all()])

    def lost(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many records are lost, by exporter and reason."""
        return {
            name: account.lost for name, account in self.stats().exporters.items() if account.lost
        }

    def flush(self, deadline: float) -> Stats:
        """Wait until everything so far is delivered, until a monotonic deadline at most."""
        return _merged([pipeline.flush(seconds_left(deadline)) for pipeline in self.newest_first()])

    def shutdown(self, deadline: float) -> Stats:
        """Deliver what is there until a monotonic deadline, and stop recording."""
        return _merged(
            [pipeline.shutdown(seconds_left(deadline)) for pipeline in self.newest_first()]
        )

    def settings_or_default(self) -> Settings:
        """Return the settings in force, or those of the environment where none are yet."""
        return self.settings or config.from_environment(problems=[])

    @property
    def exit_seconds(self) -> float:
        """How long the end of the process may wait."""
        return (self.settings or Settings()).shutdown_timeout

    def retire(self, old: Pipeline) -> None:
        """Have a replaced pipeline deliver its records in the background."""
        if not old.started:
            return
        self.retired.append(old)
        ending = threading.Thread(
            target=old.shutdown, args=(30.0,), daemon=True, name="llmeval-retire"
        )
        try:
            ending.start()
        except RuntimeError:
            old.shutdown(1.0)

    @contextmanager
    def without_configuration(self) -> Iterator[None]:
        """Run the block without a configuration; shut down what it made, and restore this one."""
        with self.lock:
            configuration = (self.pipeline, self.settings, self.retired)
            switches = {name: getattr(state, name) for name in State.__slots__}
            self.pipeline, self.settings, self.retired = None, None, []
            State.__init__(state)
        try:
            yield
        finally:
            for inner in self.all():
                inner.shutdown(5.0)
            with self.lock:
                self.pipeline, self.settings, self.retired = configuration
                for name, value in switches.items():
                    setattr(state, name, value)

    def begin_anew(self, make: Callable[[Pipeline], Pipeline]) -> None:
        """Begin anew in a forked child, without the parent's threads and waiting records."""
        self.lock = threading.RLock()
        # Kept alive: what they hold must not be finalised here, as the parent still uses it.
        self._inherited.extend(self.all())
        self.retired.clear()
        if self.pipeline is None:
            return
        for exporter in self.pipeline.plan.exporters:
            with shield.shield(f"exporter {exporter.name}", calls_out=True):
                exporter.after_fork()
        self.pipeline = make(self.pipeline)
        state.recorder = self.pipeline if state.enabled else None


def _merged(results: Sequence[Stats]) -> Stats:
    total = results[0] if results else Stats()
    for stats in results[1:]:
        total = total + stats
    return total
