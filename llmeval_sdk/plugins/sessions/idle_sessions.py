"""Keeps the turns of sessions in the worker, and has a session evaluated when it was idle."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time_ns
from typing import Any, NamedTuple

from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation.scoring import Heuristics, is_built_in, loaded
from llmeval_sdk.evaluation.standing import standing_heuristics
from llmeval_sdk.model import Record, Target
from llmeval_sdk.model.protocols import Evaluator, Heuristic, Judge
from llmeval_sdk.pipeline.evaluating import Case, Subject
from llmeval_sdk.pipeline.plan import Hooks, Plan, Running
from llmeval_sdk.plugins.sessions.heuristics import COUNTED
from llmeval_sdk.plugins.sessions.settings import SessionSettings
from llmeval_sdk.plugins.sessions.turn_store import (
    LEASE_SECONDS,
    LONGEST_ID,
    DueSession,
    KeptTurn,
    TurnStore,
    key_of,
    record_of_session,
    written,
)
from llmeval_sdk.process.shield import Counts, swallow, tell
from llmeval_sdk.store.connection import Inherited
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import state_path
from llmeval_sdk.tracing import Span


SITE = "sessions"
MOST_PENDING = 2_000
"""Turns that wait to be written, while the file cannot be."""
WRITE_TURNS, WRITE_SECONDS = 100, 0.05
"""How many turns are written together, and for how long those of a burst are gathered."""
RETRY_SECONDS = 0.5
LOOK_SECONDS = 10.0
"""How often it is looked whether sessions are due, where they are not idle sooner."""
SETTLE_SECONDS = 0.1
"""How often it is looked whether sessions are judged and delivered."""
MOST_TAKEN = 50
"""Sessions that a process takes at a time."""
MOST_UNDER_WAY = 500
"""Sessions whose judgements or deliveries may be under way at a time."""
FEWEST_LEASE_SECONDS = 5.0
"""The lease where sessions are idle sooner than that."""
TIDY_SECONDS = 60.0


class _UnderWay(NamedTuple):
    due: DueSession
    judgements: list[Future[None]]
    barriers: list[Any] | None = None
    """Set once all that was emitted has been delivered; ``None`` until all is judged."""


class Sessions(Hooks):
    """The sessions of one pipeline. The worker calls everything but `stats` and `close`.

    Args:
        turn_store: Keeps the turns.
        heuristics: Those that score sessions.
        judges: Those that judge sessions.
        idle: Seconds after which a session is evaluated.
        content: Whether texts may be kept.
    """

    counted_as, needs_clock = "sessions", True

    def __init__(
        self,
        turn_store: TurnStore,
        heuristics: Sequence[Heuristic],
        judges: Sequence[Judge],
        *,
        idle: float,
        content: bool,
    ) -> None:
        self._turn_store = turn_store
        self._idle = idle
        self._heuristics = Heuristics(heuristics)
        self._judges = judges
        self._content = content
        self._lease = min(LEASE_SECONDS, max(idle, FEWEST_LEASE_SECONDS))
        self._pending: deque[tuple[KeptTurn, Future[None] | None]] = deque()
        self._taken: deque[DueSession] = deque()
        self._under_way: deque[_UnderWay] = deque()
        self._counts = Counts()
        self._evaluate_case: Callable[..., None] | None = None
        self._barriers: Callable[[], list[Any]] = list
        self._write_at = self._retry_at = self._look_at = self._renew_at = self._tidy_at = (
            self._settle_at
        ) = 0.0
        self._begin_anew()

    def begin(self, running: Running) -> None:
        """Learn from the worker what evaluates a session, and how to wait for its delivery."""
        self._evaluate_case, self._barriers = running.evaluate, running.barriers

    def stats(self) -> dict[str, int]:
        """Return what became of turns and sessions, by word."""
        return self._counts.snapshot()

    # -- in the worker ----------------------------------------------------------------------------

    def record_evaluated(self, span: Span, record: Record, *, in_spool: bool) -> list[Future[None]]:
        """Take in an evaluated span of a session; return what the spool has to wait for."""
        if span.session_id is None or (type(span.session_id) is str and not span.session_id):
            return []
        if os.getpid() != self._pid:
            self._begin_anew()
        written_down: Future[None] | None = Future() if in_spool else None
        if not self._guarded(lambda: self._take_in(span, record, written_down)):
            self._counts.add("turns not kept")
            return []
        now = monotonic()
        if now >= self._write_at or (len(self._pending) >= WRITE_TURNS and now >= self._retry_at):
            self._guarded(self._write)
        self._guarded(self._renew)
        return [] if written_down is None else [written_down]

    def _take_in(self, span: Span, record: Record, written_down: Future[None] | None) -> bool:
        """Let a turn wait to be written; of too many that wait, the oldest is not kept."""
        session_id = str(span.session_id)  # the app may have named it by a UUID or a number
        turn = KeptTurn(
            key_of(session_id),
            session_id[:LONGEST_ID].encode("utf-8", "replace").decode(),
            span.trace_id,
            span.span_id,
            span.name,
            span.kind,
            span.start_ns,
            span.end_ns or span.start_ns,
            span.is_local_root,
            written(record, content=self._content),
            _user_of(span),
        )
        if len(self._pending) >= MOST_PENDING:
            _, lost = self._pending.popleft()
            self._counts.add("turns not kept")
            if lost is not None:
                lost.cancel()
        self._pending.append((turn, written_down))
        self._counts.add("turns")
        return True

    def study(self) -> bool:
        """Do a piece of work of about a millisecond; return whether there is more to do at once."""
        if os.getpid() != self._pid:
            self._begin_anew()
        return self._guarded(lambda: self._work(monotonic()))

    def flush(self) -> bool:
        """Write all turns that wait, so that a killed process leaves them to others.

        Turns that cannot be written now go on waiting; ``file failed`` counts the attempts. Returns
        whether none waits any more.
        """
        if os.getpid() != self._pid:
            self._begin_anew()
        while self._pending and self._guarded(self._write):
            pass
        return not self._pending

    def _guarded(self, work: Callable[[], bool]) -> bool:
        """Do a piece of work; a file that cannot be used is counted and told.

        Sessions are then kept in memory, unless the file may be usable another time.
        """
        try:
            return work()
        except sqlite3.OperationalError as error:  # busy or full: another time
            self._look_at = self._write_at = self._retry_at = monotonic() + RETRY_SECONDS
            self._complain(error)
        except (OSError, sqlite3.DatabaseError, Unusable, Inherited) as error:
            self._complain(error)
            self._taken.clear()  # their turns are in the file
            self._turn_store.go_on_in_memory()
        except Exception as error:
            if not swallow(SITE, error):  # the text of an id is the app's code
                raise
        return False

    def close(self) -> None:
        """Write what waits, and leave to others what was begun. Any thread may call it."""
        if os.getpid() != self._pid:
            self._begin_anew()
            self._turn_store.close()
            return
        with suppress(OSError, sqlite3.Error, Unusable, Inherited):
            while self._write():
                pass
            self._settle()
            self._turn_store.release(self._owner)
        self._counts.add("turns not kept", len(self._pending))
        self._turn_store.close()

    def _work(self, now: float) -> bool:
        if self._pending and now >= self._retry_at:
            return self._write()
        self._renew()
        if self._under_way and now >= self._settle_at:
            self._settle_at = now + SETTLE_SECONDS
            self._settle()
        if self._taken:
            self._evaluate(self._taken.popleft())
            return True
        if now >= self._look_at and len(self._under_way) < MOST_UNDER_WAY:
            until = time_ns() + int(self._lease * 1e9)
            taken = self._turn_store.take(self._owner, time_ns(), until, MOST_TAKEN)
            mine = {one.due.key for one in self._under_way}  # renewed too late, on a busy machine
            self._taken.extend(session for session in taken if session.key not in mine)
            if len(taken) < MOST_TAKEN:
                self._look_at = now + min(self._idle / 4, LOOK_SECONDS)
            return bool(self._taken)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_SECONDS
            self._turn_store.tidy(time_ns())
        return False

    def _renew(self) -> bool:
        """Keep the sessions that were taken, while they are worked on."""
        now = monotonic()
        if (self._under_way or self._taken) and now >= self._renew_at:
            self._renew_at = now + self._lease / 3
            self._turn_store.renew(self._owner, time_ns() + int(self._lease * 1e9))
        return False

    def _write(self) -> bool:
        """Write some of the turns that wait; return whether there are more."""
        turns = [self._pending[place] for place in range(min(len(self._pending), WRITE_TURNS))]
        cut, refused = self._turn_store.add((turn for turn, _ in turns), time_ns())
        for _, done in turns:
            self._pending.popleft()
            if done is not None:
                done.set_result(None)
        if cut:
            self._counts.add("turns cut", cut)
        if refused:
            self._counts.add("turns not kept", refused)
            tell(SITE, "there is no room for more sessions: new ones are not evaluated")
        self._write_at = monotonic() + WRITE_SECONDS
        return bool(self._pending)

    def _evaluate(self, due: DueSession) -> None:
        """Have a session evaluated on its last root span."""
        assert self._evaluate_case is not None
        nothing: Any = None  # no single span stands for a session
        subject = Subject(nothing, is_foreign=False, is_whole=True)
        try:
            record = record_of_session(
                self._turn_store.turns(due.key),
                session_id=due.session_id,
                key=due.key,
                count=due.turns,
                span_name=due.target[2],
            )
            target = Target(*due.target, marks=_marks(due, record))  # type: ignore[arg-type]
            self._counts.add("evaluated")
            if due.is_endless:
                self._counts.add("evaluated without a pause")
            if due.was_taken:
                self._counts.add("taken over")
            case = Case(subject, record, target)
            self._evaluate_case(case, self._heuristics, list(self._judges))
        except sqlite3.Error:
            self._taken.appendleft(due)
            raise
        except Exception as error:
            self._counts.add("failed")
            if not swallow(SITE, error):
                raise
        self._under_way.append(_UnderWay(due, subject.judgements))

    def _settle(self) -> None:
        """Note those sessions as done of which all is judged and delivered."""
        done: list[DueSession] = []
        barriers: list[Any] | None = None
        for _ in range(len(self._under_way)):
            one = self._under_way.popleft()
            if not all(judgement.done() for judgement in one.judgements):
                self._under_way.append(one)
            elif any(judgement.cancelled() for judgement in one.judgements):
                self._counts.add("left to others")  # the process ends; the lease runs out
            elif one.barriers is None:
                barriers = self._barriers() if barriers is None else barriers
                self._under_way.append(one._replace(barriers=barriers))
            elif all(barrier.done.is_set() for barrier in one.barriers):
                done.append(one.due)
            else:
                self._under_way.append(one)
        if done:
            self._turn_store.done(self._owner, done)

    def _complain(self, error: Exception) -> None:
        self._counts.add("file failed")
        tell(SITE, f"the file of state cannot be used: {type(error).__name__}: {error}"[:300])

    def _begin_anew(self) -> None:
        """Leave to the parent of a fork what it noted and took."""
        self._pid, self._owner = os.getpid(), secrets.token_hex(8)
        self._pending.clear()
        self._taken.clear()
        self._under_way.clear()


def _user_of(span: Span) -> str | None:
    """Return the user of a span, or of the nearest one around it."""
    here: Any = span
    while type(here) is Span:
        tags = here.tags or {}
        if user := tags.get("user_id") or tags.get("user.id"):
            return str(user)[:LONGEST_ID].encode("utf-8", "replace").decode()
        here = here.parent
    return None


def _marks(due: DueSession, record: Record) -> tuple[tuple[str, Any], ...]:
    """Return what each evaluation of a session says about its scope."""
    about = (
        ("scope", "session"), ("session_id", due.session_id), ("period", due.period),
        ("session_turns", record.attributes[COUNTED]),
    )  # fmt: skip
    return (*about, ("ended_by", "a day")) if due.is_endless else about


# Makes what evaluates the sessions of a plan, where somebody asked for that.


def make(plan: Plan, settings: Settings, requested: Sequence[Evaluator]) -> Plan:
    """Take the evaluators of sessions out of a plan, and put in what runs them."""
    judges = [judge for judge in plan.judges if judge.per == "session"]
    standing = list(
        filter(None, map(loaded, filter(_is_of_session, standing_heuristics(settings))))
    )
    asked = [each for each in requested if each.kind == "heuristic" and _is_of_session(each)]
    own = [each for each in standing if not is_built_in(each)]
    if not (judges or asked or own):
        return plan
    heuristics: dict[str, Any] = {each.name: each for each in (*standing, *asked)}
    idle = settings.of(SessionSettings).session_idle
    sessions = Sessions(
        TurnStore(state_path(settings.store), int(idle * 1e9)),
        [] if settings.heuristics == "off" and not asked else list(heuristics.values()),
        judges,
        idle=idle,
        content=plan.content,
    )
    others = tuple(judge for judge in plan.judges if judge.per != "session")
    return replace(plan, judges=others, hooks=(*plan.hooks, sessions))


def _is_of_session(evaluator: Any) -> bool:
    return getattr(evaluator, "per", "answer") == "session"
