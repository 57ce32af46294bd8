"""`llmeval doctor` explains sessions that look wrong."""

import time

from command_line import run_command

from llmeval_sdk.model import Record
from llmeval_sdk.plugins.sessions.turn_store import MOST_TURNS, KeptTurn, TurnStore, key_of, written


HOUR = 3_600 * 10**9
TEXT = written(Record(request="q", response="a"), content=True)


def turns(session, count, at):
    return [
        KeptTurn(
            key_of(session), session, f"{n:032x}", f"{n:016x}", "w", "workflow", at + n, at + n,
            True, TEXT,
        )
        for n in range(count)
    ]  # fmt: skip


def doctor(folder):
    env = {"LLMEVAL_STORE": str(folder / "store.db")}
    return run_command("doctor", "--all", "--offline", folder=folder, env=env)


def test_the_doctor_names_shared_endless_and_forgotten_sessions(tmp_path):
    """Each with what to do; nothing is changed."""
    store, now = tmp_path / "store.db", time.time_ns()
    turn_store = TurnStore(store.with_suffix(".state"), HOUR)
    turn_store.add(turns("default\x1b[31m", MOST_TURNS + 40, now), now)
    for half in range(28, 0, -1):
        at = now - half * HOUR // 2
        turn_store.add(turns("poller", 1, at), at)
    turn_store.add(turns("poller", 1, now), now)
    turn_store.add(turns("left", 1, now - 3 * HOUR), now - 3 * HOUR)
    turn_store.close()
    done = doctor(tmp_path)
    printed = " ".join(done.stdout.split())
    assert "3 sessions, 3 of them open" in printed
    assert "1 have been due for more than ten minutes" in printed
    assert f"{MOST_TURNS + 40} turns, of which {MOST_TURNS} at most are kept" in printed
    assert "session 'poller' not idle for twelve hours" in printed
    assert "\x1b" not in done.stdout


def test_without_sessions_the_doctor_has_nothing_to_say(tmp_path):
    """No section, and no file."""
    assert "\nSessions\n" not in doctor(tmp_path).stdout
    assert list(tmp_path.iterdir()) == []
