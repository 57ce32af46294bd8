"""Runs the heuristics of the app beside the worker.

Built-in heuristics run in the worker itself. A function of the app may never return, so it runs on
a thread that can be abandoned, by the rules of `llmeval_sdk.process.threads`.
"""

from __future__ import annotations

from collections.abc import Callable

from llmeval_sdk.evaluation import failed, is_built_in, own_copy, raised, run_heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import Heuristic
from llmeval_sdk.process.threads import (
    HelperThreads,
    NoAnswerError,
    NotCalledError,
    NoThreadError,
)


PATIENCE_SECONDS = 5.0
"""How long the worker waits for one heuristic and one record."""
LAST_PATIENCE_SECONDS = 0.2
"""How long it waits while the process ends. Each call that misses this deadline halves it for the
next one, so that code that hangs costs less than 0.4 s in all, and all records are delivered."""


class AppHeuristics:
    """Runs heuristics for one worker; ``ending`` says whether the worker has no time to lose."""

    def __init__(self, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self._helpers: dict[str, HelperThreads] = {}
        self._last_patience = LAST_PATIENCE_SECONDS

    def run(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic; one of the app as `run_with_deadline` does."""
        run = run_heuristic if is_built_in(heuristic) else self.run_with_deadline
        return run(heuristic, record)

    def run_with_deadline(self, heuristic: Heuristic, record: Record) -> Evaluation | None:
        """Run a heuristic that calls code of the app, and wait for it until its deadline.

        Returns ``None`` where it is not called because too many of its calls hang; this is counted.
        """
        name = heuristic.name
        helper = self._helpers.get(name)
        if helper is None:
            helper = self._helpers[name] = HelperThreads(f"heuristic {name}")
        try:
            return helper.call(_run, heuristic, own_copy(record), patience=self._patience)
        except NoThreadError as error:
            return failed(heuristic, error.type, str(error))
        except NotCalledError:
            return None
        except NoAnswerError as error:
            if self._ending():
                self._last_patience /= 2
            return failed(heuristic, error.type, str(error))

    def _patience(self) -> float:
        return self._last_patience if self._ending() else PATIENCE_SECONDS


def _run(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run a heuristic on a thread where any exception can only be its own."""
    try:
        return run_heuristic(heuristic, record)
    except BaseException as error:
        return raised(heuristic, error)
