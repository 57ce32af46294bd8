"""The file of sessions: what it keeps of them, and who may evaluate which."""

import json
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace

import pytest

from llmeval_sdk.model import Record, Step
from llmeval_sdk.plugins.sessions import turn_store as turn_store_module
from llmeval_sdk.plugins.sessions.turn_store import (
    LONGEST_ID,
    MOST_BYTES,
    MOST_TURNS,
    KeptTurn,
    TurnStore,
    key_of,
    record_of_session,
    written,
)


SECOND = 10**9
IDLE = 60 * SECOND
NOW = 1_700_000_000 * SECOND
LEASE = 30 * SECOND


def turn(number=0, *, session="chat-1", asked="q", answered="a", end=None, **fields):
    """Return one turn that lasted a second; `number` seconds after `NOW`."""
    start = NOW + number * SECOND
    text = written(Record(request=f"{asked}{number}", response=f"{answered}{number}"), content=True)
    kept = KeptTurn(
        key_of(session), session, f"{number:032x}", f"{number:016x}", "answer", "workflow",
        start, start + SECOND if end is None else end, True, text,
    )  # fmt: skip
    return kept._replace(**fields)


@pytest.fixture
def turn_store(tmp_path):
    with closing(TurnStore(tmp_path / "store.state", IDLE)) as turn_store:
        yield turn_store


@pytest.fixture
def shelf_in_memory():
    with closing(TurnStore(None, IDLE)) as turn_store:
        yield turn_store


def conversation(turn_store, due):
    record = record_of_session(
        turn_store.turns(due.key),
        session_id=due.session_id,
        key=due.key,
        count=due.turns,
        span_name="w",
    )
    return [step.content for step in record.steps]


def take(turn_store, now, owner="me", most=50):
    return turn_store.take(owner, now, now + LEASE, most)


def test_a_session_is_due_when_it_has_been_idle(turn_store):
    """Not a moment before; its turns come in order, and its last root span is named."""
    turn_store.add([turn(0), turn(2)], NOW + 3 * SECOND)
    assert take(turn_store, NOW + 3 * SECOND + IDLE - 1) == []
    (due,) = take(turn_store, NOW + 3 * SECOND + IDLE)
    assert (due.session_id, due.period, due.turns, due.is_endless) == ("chat-1", 1, 2, False)
    assert due.target == (f"{2:032x}", f"{2:016x}", "answer", "workflow")
    assert conversation(turn_store, due) == ["q0", "a0", "q2", "a2"]


def test_nobody_else_gets_a_session_that_is_taken_until_the_lease_runs_out(turn_store):
    """A process that dies leaves it to another, which knows that it took over."""
    turn_store.add([turn(0)], NOW)
    at = NOW + IDLE
    (due,) = take(turn_store, at)
    assert not due.was_taken
    assert take(turn_store, at + 1, "other") == []
    turn_store.renew("me", at + 10 * LEASE)
    assert take(turn_store, at + 2 * LEASE, "other") == []
    (again,) = take(turn_store, at + 11 * LEASE, "other")
    assert again.was_taken
    turn_store.done("me", [due])  # too late: it belongs to somebody else
    assert take(turn_store, at + 12 * LEASE + 1, "third") != []


def test_what_a_process_took_and_left_is_free_at_once(turn_store):
    """At its end it gives back what it has not evaluated."""
    turn_store.add([turn(0)], NOW)
    assert take(turn_store, NOW + IDLE)
    turn_store.release("me")
    assert take(turn_store, NOW + IDLE, "other")


def test_an_evaluated_session_is_due_again_only_when_it_resumes(turn_store):
    """With the next period, and with its former turns."""
    turn_store.add([turn(0)], NOW)
    turn_store.done("me", take(turn_store, NOW + IDLE))
    assert take(turn_store, NOW + 100 * IDLE) == []
    turn_store.add([turn(7_000)], NOW + 7_001 * SECOND)
    (due,) = take(turn_store, NOW + 8_000 * SECOND)
    assert (due.period, due.turns) == (2, 2)
    assert conversation(turn_store, due) == ["q0", "a0", "q7000", "a7000"]


def test_a_session_that_goes_on_while_it_is_evaluated_stays_due(turn_store):
    """The new turn is part of the next period and not lost."""
    turn_store.add([turn(0)], NOW)
    taken = take(turn_store, NOW + IDLE)
    turn_store.add([turn(61)], NOW + IDLE + SECOND)
    turn_store.done("me", taken)
    (due,) = take(turn_store, NOW + 2 * IDLE + SECOND)
    assert (due.period, due.turns) == (2, 2)


def test_a_turn_that_is_delivered_twice_is_kept_once(turn_store):
    """As the spool does after a crash."""
    turn_store.add([turn(0), turn(1)], NOW)
    turn_store.add([turn(0)], NOW + SECOND)
    (due,) = take(turn_store, NOW + SECOND + IDLE)
    assert due.turns == 2


def test_a_span_without_text_does_not_reopen_a_session(turn_store):
    """There is nothing new to evaluate, so there is no second verdict."""
    turn_store.add([turn(0)], NOW)
    turn_store.done("me", take(turn_store, NOW + IDLE))
    turn_store.add([turn(90, text="")], NOW + 90 * SECOND)
    assert take(turn_store, NOW + 10 * IDLE) == []
    turn_store.add([turn(0, session="silent", text="")], NOW)
    assert take(turn_store, NOW + 10 * IDLE) == []


def test_a_turn_has_the_calls_since_the_user_spoke_last():
    """Messages of a request hold the whole history; the calls of former turns are in those."""
    call = Step("tool", None, "old", {"id": 1}, "found")
    history = (Step("user", "one?"), call, Step("assistant", "a"), Step("user", "two?"))
    new = replace(call, name="new")
    for steps, names in (((*history, new), ["new"]), ((call, new), ["old", "new"])):
        record = Record(request="two?", response="b", steps=steps)
        assert [call[0] for call in json.loads(written(record, content=True))["t"]] == names


class TestNested:
    """What lies inside another span of the session is part of that turn."""

    def test_an_agent_inside_a_workflow_is_no_turn_of_its_own(self, turn_store):
        """The outer one says what was asked and answered; the inner one what was called."""
        inner = turn(0, trace_id="t", is_top=False, span_id="in")
        record = Record(
            request="q", response="a", steps=(Step("tool", None, "find", {"id": 1}, "found"),)
        )
        inner = inner._replace(text=written(record, content=True))
        outer = turn(0, trace_id="t", span_id="out", end=NOW + 2 * SECOND, asked="Q", answered="A")
        turn_store.add([inner], NOW)
        turn_store.add([outer], NOW + 2 * SECOND)
        (due,) = take(turn_store, NOW + IDLE + 2 * SECOND)
        assert (due.turns, due.target[1]) == (1, "out")
        steps = record_of_session(
            turn_store.turns(due.key), session_id="s", key=due.key, count=1, span_name="w"
        ).steps
        assert [step.name or step.content for step in steps] == ["Q0", "find", "A0"]
        assert steps[1].arguments == {"id": 1}

    def test_one_that_comes_after_the_outer_one_is_none_either(self, turn_store):
        """Processes write in any order."""
        turn_store.add(
            [turn(0, trace_id="t", span_id="out", end=NOW + 9 * SECOND)], NOW + 10 * SECOND
        )
        turn_store.add([turn(2, trace_id="t", span_id="in", is_top=False)], NOW + 10 * SECOND)
        (due,) = take(turn_store, NOW + 10 * SECOND + IDLE)
        assert (due.turns, due.target[1]) == (1, "out")

    def test_turns_below_a_span_that_says_nothing_stay_turns(self, turn_store):
        """A workflow around a whole chat is where the verdict goes, and no turn."""
        inner = [turn(n, trace_id="t", is_top=False) for n in (0, 2)]
        outer = turn(0, trace_id="t", span_id="out", end=NOW + 5 * SECOND, text="")
        turn_store.add([*inner, outer], NOW + 6 * SECOND)
        (due,) = take(turn_store, NOW + 6 * SECOND + IDLE)
        assert (due.turns, due.target[1]) == (2, "out")
        assert conversation(turn_store, due) == ["q0", "a0", "q2", "a2"]

    def test_requests_one_after_the_other_in_one_trace_are_turns(self, turn_store):
        """As those of a connection that is one trace of somebody else's."""
        turn_store.add([turn(0, trace_id="t"), turn(2, trace_id="t")], NOW + 3 * SECOND)
        (due,) = take(turn_store, NOW + 3 * SECOND + IDLE)
        assert due.turns == 2


class TestBadInput:
    """Bounded, explained, nothing raised and nothing lost silently."""

    def test_an_id_that_everybody_shares_stays_bounded(self, turn_store):
        """The first turns and the latest are kept; how many were cut is known."""
        many = MOST_TURNS + 300
        cut = sum(
            turn_store.add([turn(n) for n in range(start, start + 100)], NOW)[0]
            for start in range(0, many, 100)
        )
        assert cut == 300
        (due,) = take(turn_store, NOW + IDLE)
        assert (due.turns, len(turn_store.turns(due.key))) == (many, MOST_TURNS)
        texts = conversation(turn_store, due)
        assert texts[:2] == ["q0", "a0"]
        assert "[300 turns of this session are left out here]" in texts
        assert texts[-1] == f"a{many - 1}"

    def test_long_turns_are_bounded_in_bytes(self, turn_store):
        """Of each session at most 256 KB are kept, whatever alphabet it is in."""
        for number in range(60):
            turn_store.add([turn(number, asked="漢" * 5_000, answered="é" * 5_000)], NOW)
        (due,) = take(turn_store, NOW + IDLE)
        held = turn_store.turns(due.key)
        assert sum(len(one.text.encode()) for one in held) <= MOST_BYTES
        assert len(held) < due.turns == 60

    def test_a_turn_of_any_size_is_cut(self):
        """Ten megabytes of text, two thousand calls."""
        steps = tuple(
            Step("tool", None, f"t{n}", {"x": "y" * 9_000}, "z" * 10**5) for n in range(2_000)
        )
        record = Record(request="q" * 10**7, response="a" * 10**7, steps=steps)
        assert len(written(record, content=True)) < 400_000

    def test_ids_of_any_length_are_told_apart(self, turn_store):
        """By all of their characters; only some are kept."""
        long = "x" * 10**7
        ids = [long + "a", long + "b", "\ud800", "", "a\x00b"]
        kept = [
            turn(n, session=name, session_id=name[:LONGEST_ID].encode("utf-8", "replace").decode())
            for n, name in enumerate(ids)
        ]
        turn_store.add(kept, NOW)
        dues = take(turn_store, NOW + IDLE)
        assert len(dues) == 5
        assert max(len(due.session_id) for due in dues) == LONGEST_ID

    def test_one_that_never_ends_is_evaluated_once_a_day(self, turn_store, monkeypatch):
        """It would wait for ever otherwise, and says so."""
        monkeypatch.setattr(turn_store_module, "LONGEST_NS", 10 * IDLE)
        for number in range(0, 660, 30):
            at = NOW + number * SECOND
            turn_store.add([turn(number)], at)
            dues = take(turn_store, at)
            assert len(dues) == (number == 600)
            if dues:
                assert dues[0].is_endless
                turn_store.done("me", dues)
        assert take(turn_store, NOW + 631 * SECOND) == []

    def test_one_that_goes_on_during_its_daily_evaluation_is_not_lost(
        self, turn_store, monkeypatch
    ):
        """The turn that came meanwhile is evaluated at the next pause, and not at once."""
        monkeypatch.setattr(turn_store_module, "LONGEST_NS", 2 * IDLE)
        for number in range(0, 150, 30):
            turn_store.add([turn(number)], NOW + number * SECOND)
        dues = take(turn_store, NOW + 2 * IDLE)
        assert dues[0].is_endless
        turn_store.add([turn(150)], NOW + 150 * SECOND)
        turn_store.done("me", dues)
        assert take(turn_store, NOW + 151 * SECOND) == []
        (due,) = take(turn_store, NOW + 150 * SECOND + IDLE)
        assert (due.period, due.turns, due.is_endless) == (2, 6, False)

    def test_leases_of_a_clock_that_ran_ahead_end(self, turn_store):
        """Otherwise nobody could take the session for as long as the clock was wrong."""
        turn_store.add([turn(0)], NOW + 10**18)
        assert take(turn_store, NOW + 10**18 + IDLE)
        turn_store.tidy(NOW)
        (due,) = take(turn_store, NOW + IDLE, "other")
        assert not due.is_endless

    @pytest.mark.parametrize("ahead", [-(10**18), -3_600 * SECOND, 3_600 * SECOND, 10**18])
    def test_clocks_out_of_order_change_nothing_about_when_it_is_due(self, turn_store, ahead):
        """Idle is measured by this host's clock; times in the future count as now."""
        odd = turn(1)
        odd = odd._replace(start_ns=max(0, odd.start_ns + ahead), end_ns=max(0, odd.end_ns + ahead))
        backwards = turn(2, end=NOW - 5 * SECOND)
        turn_store.add([turn(0), odd, backwards], NOW + 3 * SECOND)
        (due,) = take(turn_store, NOW + 3 * SECOND + IDLE)
        held = turn_store.turns(due.key)
        assert due.turns == len(held) == 3
        assert all(one.start_ns <= one.end_ns <= NOW + 3 * SECOND for one in held)

    def test_a_clock_that_was_set_back_by_years_does_not_hold_sessions_for_years(self, turn_store):
        """Tidying gives them their time anew."""
        turn_store.add([turn(0)], NOW + 10**18)
        turn_store.tidy(NOW)
        assert take(turn_store, NOW + IDLE)

    def test_sessions_of_last_week_are_forgotten_and_waiting_ones_are_not(self, turn_store):
        """The file stays bounded; nothing that was not evaluated goes."""
        turn_store.add([turn(0)], NOW)
        turn_store.done("me", take(turn_store, NOW + IDLE))
        turn_store.add([turn(0, session="waits")], NOW)
        turn_store.tidy(NOW + turn_store_module.KEPT_NS + SECOND)
        assert turn_store.turns(key_of("chat-1")) == []
        assert len(turn_store.turns(key_of("waits"))) == 1

    def test_a_full_file_refuses_new_sessions_and_says_how_many(self, turn_store, monkeypatch):
        """Those that it has go on."""
        turn_store.add([turn(0)], NOW)
        monkeypatch.setattr(turn_store_module, "FILE_BYTES", 1)
        assert turn_store.add([turn(1), turn(2, session="new")], NOW) == (0, 1)
        assert take(turn_store, NOW + IDLE)[0].turns == 2

    def test_memory_is_bounded_and_forgets_what_was_evaluated(self, shelf_in_memory, monkeypatch):
        """Nothing that was not evaluated goes; new turns find room as soon as something was."""
        turn_store = shelf_in_memory
        turn_store.add([turn(0)], NOW)
        turn_store.done("me", take(turn_store, NOW + IDLE))
        turn_store.add([turn(1, session="waits")], NOW + IDLE)
        with turn_store._file.reading() as database:
            size = turn_store._bytes(database)
        monkeypatch.setattr(turn_store_module, "MEMORY_BYTES", size - 1)
        assert turn_store.add([turn(2, session="waits")], NOW + IDLE + SECOND) == (0, 1)
        assert turn_store.turns(key_of("chat-1")) == []
        assert len(turn_store.turns(key_of("waits"))) == 1

    def test_without_content_nothing_but_times_and_counts_is_kept(self):
        """What may not leave is not written either."""
        record = Record(request="secret", response="secret", steps=(Step("tool", name="secret"),))
        assert "secret" not in written(record, content=False)
        assert json.loads(written(record, content=False))["u"] is None
        assert written(replace(record, request=None, response=None), content=True) == ""


def test_the_file_is_private(turn_store, tmp_path):
    """Nobody else of the machine reads conversations."""
    turn_store.add([turn(0)], NOW)
    assert stat.S_IMODE((tmp_path / "store.state").stat().st_mode) == 0o600


def test_a_file_of_hosts_that_shared_their_sessions_is_read(tmp_path):
    """Its sessions are due as before, and what was kept for Redis goes."""
    path = tmp_path / "store.state"
    with closing(TurnStore(path, IDLE)) as former:
        former.add([turn()], NOW)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE plugins SET version = 1 WHERE name = 'sessions'")
        database.execute("CREATE TABLE unshared_turns (key BLOB, start INTEGER, span TEXT)")
        database.execute("CREATE TABLE sessions_shared_with (which TEXT, after BLOB)")
    with closing(TurnStore(path, IDLE)) as here:
        (due,) = here.take("me", NOW + IDLE, NOW + IDLE + LEASE, 10)
        assert due.session_id == "chat-1"
    with closing(sqlite3.connect(path)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        assert not tables & {"unshared_turns", "sessions_shared_with"}
