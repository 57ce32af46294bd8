"""The queue of judgements, in which those that were escalated come first."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from time import time_ns
from typing import Generic, TypeVar

from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.model import NotRun, Record, Target
from llmeval_sdk.model.protocols import Judge


JobT = TypeVar("JobT")


@dataclass(frozen=True, slots=True)
class Job:
    """One judge to run on one record."""

    judge: Judge
    record: Record
    target: Target
    admitted: Admitted
    in_spool: bool = False
    """Whether the spool holds the record until it is judged."""

    def not_run(self, reason: str, detail: str) -> NotRun:
        """Return the record of why it did not run."""
        return not_run(self.judge, self.target, reason, detail)


class QueuedJob(Generic[JobT]):
    """A job that waits or runs; whoever takes it first emits its outcome, and nobody else does."""

    __slots__ = ("_taken", "done", "job")

    def __init__(self, job: JobT) -> None:
        self.job = job
        self.done: Future[None] = Future()
        self._taken = count()

    def take(self) -> bool:
        """Return True to the first caller only."""
        return next(self._taken) == 0


class JobQueue:
    """The waiting jobs. The worker adds and gives up, the judges' thread takes the next one."""

    def __init__(self) -> None:
        self._escalated: deque[QueuedJob[Job]] = deque()
        self._others: deque[QueuedJob[Job]] = deque()

    def add(self, turn: QueuedJob[Job]) -> None:
        """Add a job behind those of its kind, escalated or not."""
        (self._escalated if turn.job.admitted.escalated else self._others).append(turn)

    def next(self) -> QueuedJob[Job] | None:
        """Take the escalated job that waited longest, else another; ``None`` where none waits."""
        for waiting in (self._escalated, self._others):
            if waiting:
                try:
                    return waiting.popleft()
                except IndexError:  # the worker has just given it up
                    continue
        return None

    def give_up(self) -> QueuedJob[Job] | None:
        """Take the newest job that was not escalated, to make room for one that was."""
        try:
            return self._others.pop()
        except IndexError:
            return None

    def __bool__(self) -> bool:
        return bool(self._escalated or self._others)


def not_run(judge: Judge, target: Target, reason: str, detail: str) -> NotRun:
    """Return the record of why a judge did not run."""
    return NotRun(
        f"{target.span_id or ''}-{judge.name}", target, judge.name, reason, detail, time_ns()
    )
