"""The shelf of sessions that all hosts share: turns meet in Redis, and one process takes each.

The worker never waits for Redis. What it notes stands in this host's file and is told to Redis on
the link's thread, with the next beat. What the thread takes there waits here for the worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from llmeval_sdk.plugins.sessions._turn import KeptTurn, StoredTurn
from llmeval_sdk.plugins.sessions._turn_store import KEPT_NS, DueSession
from llmeval_sdk.plugins.sessions.hosts._journal import MOST_TOLD, Journal, News
from llmeval_sdk.plugins.sessions.hosts._wire import (
    HOLD,
    MOST_READ,
    MS,
    PREFIX,
    Clock,
    Script,
    conversation,
    due_session,
    evaluated_session,
    open_session,
)
from llmeval_sdk.plugins.shared.link import RedisLink, elapsed
from llmeval_sdk.process.shield import tell


if TYPE_CHECKING:
    from redis import Redis


SITE = "sessions of all hosts"
GAP_SECONDS = 5.0
"""After so long without a word from Redis a host counts it as having been away."""
MOST_TAKEN = 50
"""Sessions that are taken with one beat; more at once where there are more."""
MOST_WAITING = 200
"""Sessions that wait for the worker at most."""
LOOK_SECONDS = 0.5
"""How often the worker looks whether there are any."""
ASK_AGAIN_SECONDS = 10.0


class SharedTurnStore(Journal):
    """Keeps turns as any `TurnStore` does, and hands out the sessions of all hosts.

    Args:
        path: Of this host's file.
        idle_ns: How long a session is idle before it is evaluated.
        link: Talks to Redis.
    """

    look_seconds = LOOK_SECONDS
    hold_seconds = 12.0
    """For how long nobody takes a session after Redis was away or lost its data, so that all hosts
    can tell it what they have; longer than judges may not pay then."""

    def __init__(self, path: Path | None, idle_ns: int, link: RedisLink) -> None:
        super().__init__(path, idle_ns)
        self._link = link
        self._hold = int(self.hold_seconds * 1000)
        self.forked()
        link.join(self)

    def forked(self) -> None:
        """Leave to the parent what it took."""
        self._waiting: deque[DueSession] = deque()
        self._turns: dict[bytes, list[StoredTurn]] = {}
        self._held: dict[bytes, str] = {}
        self._done: deque[DueSession] = deque()
        self._script: Script | None = None
        self._owner: str | None = None
        self._lease_ms, self._renewed_until = 0, 0.0
        self._heard: float | None = None
        self._is_catching_up = self._is_more = False
        self._clock = Clock(0)

    # -- in the worker ----------------------------------------------------------------------------

    def add(self, turns: Iterable[KeptTurn], now: int) -> tuple[int, int]:
        """Keep turns in the file; Redis is told of them with the next beat."""
        outcome = super().add(turns, now)
        self._link.start()
        return outcome

    def take(self, owner: str, now: int, until: int, most: int) -> list[DueSession]:
        """Return sessions that were taken in Redis for this process; none while that is away."""
        self._owner = owner
        self.renew(owner, until)
        self._link.start()
        if self._link.is_away:
            return []
        taken: list[DueSession] = []
        while self._waiting and len(taken) < most:
            due = self._waiting.popleft()
            if due.key in self._held:
                taken.append(due)
        if self._is_more and len(self._waiting) < MOST_TAKEN:
            self._link.wake()
        return taken

    def turns(self, key: bytes) -> list[StoredTurn]:
        """Return the turns of a session that was taken, once."""
        return self._turns.pop(key, [])

    def done(self, owner: str, sessions: Iterable[DueSession]) -> None:
        """Note that sessions were evaluated; Redis is told as soon as it is there."""
        self._done.extend(sessions)
        self._link.wake()

    def renew(self, owner: str, until: int) -> None:
        """Keep what was taken, for as long as the worker goes on saying so."""
        seconds = max(until - time_ns(), 0) / 1e9
        self._lease_ms, self._renewed_until = int(seconds * 1000), elapsed() + seconds

    def release(self, owner: str) -> None:
        """Give back what was not evaluated; the link does it when it closes, which is next."""
        self._waiting.clear()
        self._renewed_until = 0.0

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Tell Redis what it does not know, hear what became of sessions, and take some."""
        if self._script is None:
            self._script = Script(redis)
        which = self._greet(self._script)
        self._tell_done(self._script)
        is_behind = self._tell_news(self._script, which)
        if self._is_catching_up:
            redis.set(HOLD, 1, px=self._hold)
            self._is_catching_up = is_behind
        self._hear(self._script)
        self._keep(self._script)
        self._take(redis, self._script)
        self._heard = elapsed()
        if is_behind or self._done:
            self._link.wake()

    def leave(self, redis: Redis, /) -> None:
        """Tell what is left, and give back what was taken."""
        script = self._script
        if script is None:
            return
        self._tell_done(script)
        if self._held:
            script("release", owner=self._owner, names=[key.hex() for key in self._held])
        self._forget(list(self._held))
        while self._tell_news(script, None):
            pass

    def _greet(self, script: Script) -> str:
        """Learn the time of Redis, and whether it knows less than this host has told it."""
        sent = time_ns()
        reply = script("hello", hold=self._hold)
        here = (sent + time_ns()) // 2
        theirs = int(reply["seconds"]) * 10**9 + int(reply["microseconds"]) * 1000
        self._clock = Clock(theirs - here)
        which: str = reply["which"]
        told, _ = self.position()
        if told != which:
            self.note_position(which, b"")
            self._is_catching_up = True
        if self._heard is not None and elapsed() - self._heard > GAP_SECONDS:
            self._is_catching_up = True
        return which

    def _tell_news(self, script: Script, which: str | None) -> bool:
        """Tell a few hundred kilobytes of what Redis does not know; return whether there is more.

        ``which`` data are told of sessions that they may have lost, unless it is ``None``.
        """
        news = self.news()
        self._tell(script, news)
        self.note_told(news)
        is_behind = sum(len(one.rows) for one in news) >= MOST_TOLD
        _, after = self.position()
        if which is not None and after is not None:
            lost = self.sessions_after(after)
            self._tell(script, lost)
            self.note_position(which, lost[-1].key if lost else None)
            is_behind = is_behind or bool(lost)
        return is_behind

    def _tell(self, script: Script, news: list[News]) -> None:
        now = time_ns()
        share = [open_session(one, now, self._clock, self._idle) for one in news if one.is_open]
        script.each("share", share)
        evaluated = [one for one in news if not one.is_open and one.period > 1]
        script.each("remind", [evaluated_session(one, now) for one in evaluated])
        told = sum(len(one.turns) for one in news)
        if told:
            self._link.counts.add("turns shared", told)

    def _hear(self, script: Script) -> None:
        """Ask what became of the sessions that are idle on this host."""
        now = time_ns()
        keys = self.idle_sessions(now)
        if not keys:
            return
        states = script("look", names=[key.hex() for key in keys])["states"]
        unknown, waiting = [], []
        for key, state in zip(keys, states, strict=True):
            if not state["known"]:
                unknown.append(key)
            elif state["due"]:
                waiting.append(key)
            else:
                active = self._clock.ours(int(state["active"]) * 1000)
                self.note_evaluated(key, int(state["period"]), active)
        later = now + int(ASK_AGAIN_SECONDS * 1e9)
        self.tell_again(unknown, later)
        self.look_later(waiting, later)

    def _tell_done(self, script: Script) -> None:
        """Say what was evaluated. What others took over meanwhile is theirs to say."""
        done = list(self._done)
        if not done:
            return
        sessions = [
            {
                "name": one.key.hex(), "period": one.period, "active": str(one.active),
                "count": self._held.get(one.key, str(one.turns)),
            }
            for one in done
        ]  # fmt: skip
        reply = script(
            "done", owner=self._owner, sessions=sessions, idle=self._idle // MS, kept=KEPT_NS // MS
        )
        noted = set(reply["noted"])
        for one in done:
            self._done.popleft()
            if one.key.hex() in noted:
                active = self._clock.ours(one.active * 1000)
                self.note_evaluated(one.key, one.period + 1, active)
        self._forget([one.key for one in done])

    def _keep(self, script: Script) -> None:
        """Renew what was taken, while the worker is alive; let go of what somebody else has.

        The worker may have begun with it: then it goes on, and Redis decides whose verdict counts.
        """
        names = [key.hex() for key in self._held]
        if names and elapsed() < self._renewed_until:
            reply = script("renew", owner=self._owner, names=names, lease=self._lease_ms)
            lost = [bytes.fromhex(name) for name in reply["lost"]]
            self._forget([key for key in lost if key in self._turns])

    def _take(self, redis: Redis, script: Script) -> None:
        if self._owner is None or elapsed() >= self._renewed_until:
            return
        if len(self._waiting) + MOST_TAKEN > MOST_WAITING:
            return
        reply = script("take", owner=self._owner, lease=self._lease_ms, most=MOST_TAKEN)
        states: list[dict[str, str]] = list(reply["taken"])
        self._is_more = len(states) == MOST_TAKEN
        if not states:
            return
        pipeline: Any = redis.pipeline(transaction=False)
        for state in states:
            name = f"{PREFIX}{state['name']}.turns"
            pipeline.zrange(name, 0, MOST_READ - 1, withscores=True)
        refused = []
        for state, members in zip(states, pipeline.execute(), strict=True):
            if not self._take_in(state, members):
                refused.append(state["name"])
        if refused:
            self._link.counts.add("sessions not understood", len(refused))
            tell(SITE, f"{self._link.place} holds sessions that nobody can read: they are dropped")
            script("drop", names=refused)

    def _take_in(self, state: dict[str, str], members: list[tuple[bytes, float]]) -> bool:
        """Hand a session to the worker; ``False`` where nothing of it can be read."""
        turns = conversation(members, self._clock)
        if not turns:
            return False
        try:
            due = due_session(state, self._idle // MS, len(turns))
        except Exception:  # whatever stands there, this SDK did not write it
            return False
        self._held[due.key] = str(state["count"])
        self._turns[due.key] = turns
        self._waiting.append(due)
        return True

    def _forget(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._held.pop(key, None)
            self._turns.pop(key, None)
