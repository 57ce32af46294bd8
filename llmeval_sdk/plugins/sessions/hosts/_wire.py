"""What stands in Redis of a session: how it is written, and read as anybody's data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk.plugins.sessions._turn import FIRST_TURNS, LONGEST_ID, KeptTurn, StoredTurn, joined
from llmeval_sdk.plugins.sessions._turn_store import (
    KEPT_NS,
    LONGEST_NS,
    MOST_BYTES,
    MOST_TURNS,
    DueSession,
)
from llmeval_sdk.plugins.sessions.hosts._journal import News
from llmeval_sdk.plugins.shared.client import KEYS


if TYPE_CHECKING:
    from redis import Redis


PREFIX = f"{KEYS}{{shared}}.session."
"""With this begins the name of a session's keys; the braces keep all on one server of a cluster."""
DUE, HOLD, BORN = (f"{KEYS}{{shared}}.sessions.{word}" for word in ("due", "hold", "born"))
LONGEST_TURN = 1 << 20
"""Characters of a turn that are read."""
MOST_READ = 600
"""Turns of a session that are read."""
SLACK_MS = 1_000
"""By how much two hosts may differ about when a session had its last turn."""
MS = 10**6
"""Nanoseconds of a millisecond."""
_LONGEST_WORD = 1_000
_PARTS_OF_CALL = 7


class Clock(NamedTuple):
    """How this host's clock compares with that of Redis, which puts turns of all hosts in order."""

    ahead_ns: int
    """By how much the clock of Redis is ahead of this one."""

    def on_server(self, here_ns: int) -> int:
        """Return a time of this host in microseconds by the clock of Redis."""
        return (here_ns + self.ahead_ns) // 1000

    def ours(self, microseconds: float) -> int:
        """Return a time of Redis in nanoseconds by the clock of this host."""
        return max(int(microseconds) * 1000 - self.ahead_ns, 0)


class Script:
    """Runs the commands of ``sessions.lua``."""

    def __init__(self, redis: Redis) -> None:
        text = (Path(__file__).parent / "sessions.lua").read_text("utf-8")
        self._script = redis.register_script(text)
        self._redis = redis

    def __call__(self, command: str, **request: Any) -> dict[str, Any]:
        """Run one command and return its reply."""
        (reply,) = self.each(command, [request])
        return reply

    def each(self, command: str, requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run a command several times, with one wait for all replies."""
        pipeline = self._redis.pipeline(transaction=False)
        for request in requests:
            text = json.dumps({"command": command, "prefix": PREFIX, **request})
            self._script(keys=[DUE, HOLD, BORN], args=[text], client=pipeline)
        return [json.loads(reply) for reply in pipeline.execute()]


def open_session(one: News, now: int, clock: Clock, idle_ns: int) -> dict[str, Any]:
    """Return what Redis is told of an open session."""
    target = None
    if one.target is not None:
        about, is_top, end = one.target
        target = {"about": about, "top": int(is_top), "end": str(clock.on_server(end))}
    turns = [(str(clock.on_server(turn.start_ns)), _turn_text(turn)) for turn in one.turns]
    return {
        **_place(one, now), "id": one.session_id, "opened": max(now - one.opened, 0) // MS,
        "idle": idle_ns // MS, "longest": LONGEST_NS // MS, "kept": KEPT_NS // MS, "cut": one.cut,
        "most": MOST_TURNS, "most_bytes": MOST_BYTES, "first": FIRST_TURNS,
        "target": target, "turns": turns,
    }  # fmt: skip


def evaluated_session(one: News, now: int) -> dict[str, Any]:
    """Return what Redis is told of a session that was evaluated."""
    return {**_place(one, now), "slack": SLACK_MS}


def _place(one: News, now: int) -> dict[str, Any]:
    ago = max(now - one.active, 0) // MS
    return {"name": one.key.hex(), "period": one.period, "active": ago}


def _turn_text(turn: KeptTurn) -> str:
    """Write a turn for Redis. The same turn always gives the same text, so that it is kept once."""
    about = [turn.span_id, turn.trace_id, turn.end_ns - turn.start_ns, turn.text]
    return json.dumps(about, ensure_ascii=False)


def due_session(state: Mapping[str, str], idle_ms: int, turns: int) -> DueSession:
    """Read the state of a session that was taken.

    Raises:
        Exception: it is nothing that this SDK wrote.
    """
    target = json.loads(state["target"])
    about = [_word(part) for part in target["about"]]
    trace_id, span_id, name, kind = about
    due, active = int(state["due"]), int(state["active"])
    return DueSession(
        bytes.fromhex(state["name"]),
        _word(state["id"])[:LONGEST_ID],
        int(state["period"]),
        turns + max(int(state["cut"]), 0),
        due,
        active,
        due < active + idle_ms,
        (trace_id, span_id, name, kind),
        bool(state.get("owner")),
    )


def conversation(members: Iterable[tuple[bytes, float]], clock: Clock) -> list[StoredTurn]:
    """Read the turns of a session and put them together, as on one host.

    What lies inside another turn of its trace is part of that one. What cannot be read is left out.
    """
    read = [_turn(member, score, clock) for member, score in members]
    turns = [one for one in read if one is not None]
    turns.sort(key=lambda one: (one[1].start_ns, -one[1].end_ns))
    whole: list[StoredTurn] = []
    inner: list[list[str]] = []
    outer: dict[str, int] = {}
    for trace_id, turn in turns:
        place = outer.get(trace_id)
        if place is not None and whole[place].end_ns >= turn.end_ns:
            inner[place].append(turn.text)
            continue
        outer[trace_id] = len(whole)
        whole.append(turn)
        inner.append([])
    return [
        turn._replace(text=joined(turn.text, below)) if below else turn
        for turn, below in zip(whole, inner, strict=True)
    ]


def _turn(member: bytes, score: float, clock: Clock) -> tuple[str, StoredTurn] | None:
    """Read one turn with its trace; ``None`` for what this SDK did not write."""
    try:
        _, trace_id, nanoseconds, text = json.loads(member[:LONGEST_TURN])
        start = clock.ours(score)
        turn = StoredTurn(start, start + max(int(nanoseconds), 0), text)
        content = json.loads(text)
        says = [content[part] for part in ("u", "a")]
        if any(not isinstance(part, str | None) for part in says):
            return None
        if any(not _is_call(call) for call in content["t"]) or not _is_time(turn.end_ns):
            return None
        return _word(trace_id), turn
    except Exception:  # whatever stands there, nobody but this SDK can be blamed for no turn
        return None


def _is_call(call: Any) -> bool:
    if type(call) is not list or len(call) != _PARTS_OF_CALL:
        return False
    *texts, start, end = call
    are_texts = all(isinstance(text, str | None) for text in texts)
    return are_texts and all(when is None or _is_time(when) for when in (start, end))


def _is_time(nanoseconds: Any) -> bool:
    return type(nanoseconds) is int and 0 <= nanoseconds < 1 << 63


def _word(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST_WORD:
        raise TypeError("no short text")
    return text
