"""Sessions whose turns arrive at several hosts are judged once, whatever fails: a real Redis."""

import threading

import pytest
from command_line import run_command
from fleet_parts import until
from talking_hosts import TalkingHosts

from llmeval_sdk.plugins.sessions.shared_turn_store import DUE


@pytest.fixture
def hosts(tmp_path, redis):
    made = TalkingHosts(tmp_path, redis)
    yield made
    made.close()


def in_the_end(hosts, expected):
    """Check the verdicts, also after every process had the time to make another one."""
    threading.Event().wait(2 * hosts.idle)
    for host in hosts.hosts:
        if host.process.poll() is None:
            host.end()
    assert hosts.verdicts() == expected
    assert len(hosts.seen) == len(expected)


def test_turns_of_one_session_on_several_hosts_are_judged_once_as_a_whole(hosts):
    """In the order in which they took place, although the hosts' clocks differ by minutes."""
    apps = [hosts.start("one"), hosts.start("two", late=400), hosts.start("three", late=-700)]
    for session in range(5):
        for turn in range(6):
            apps[(session + turn) % 3].talk(f"s{session}", f"{turn}?")
    expected = [(f"s{session}", 1) for session in range(5)]
    assert hosts.are_judged(5) == expected
    for session, _ in expected:
        said = [text for text in hosts.texts(session) if text.endswith("?") and len(text) == 2]
        assert said == [f"{turn}?" for turn in range(6)]
    in_the_end(hosts, expected)


def test_a_session_that_resumes_on_another_host_is_judged_again_as_a_whole(hosts):
    """The second verdict is of the next period, and of the turns of both hosts."""
    one, two = hosts.start("one"), hosts.start("two", late=300)
    one.talk("s", "0?")
    assert hosts.are_judged(1) == [("s", 1)]
    two.talk("s", "1?")
    assert hosts.are_judged(2) == [("s", 1), ("s", 2)]
    assert [text for text in hosts.texts("s") if len(text) == 2] == ["0?", "1?"]
    in_the_end(hosts, [("s", 1), ("s", 2)])


def test_a_host_that_is_killed_while_it_judges_leaves_the_session_to_another(hosts):
    """Its turns are in Redis, and its lease runs out."""
    one = hosts.start("one")
    hosts.free.clear()
    for turn in range(3):
        one.talk("s", f"{turn}?")
    until(lambda: hosts.seen, "the first judgement")
    one.kill()
    hosts.free.set()
    hosts.start("two", late=-500).talk("other", "0?")
    expected = [("other", 1), ("s", 1)]
    assert hosts.are_judged(2) == expected
    judged_by = [judgement["host"] for judgement in hosts.seen if judgement["session"] == "s"]
    assert judged_by == ["one", "two"]
    assert [text for text in hosts.texts("s") if len(text) == 2] == ["0?", "1?", "2?"]
    threading.Event().wait(2 * hosts.idle)
    assert hosts.verdicts() == expected


def test_while_redis_is_away_sessions_wait_and_none_is_lost_or_judged_twice(hosts, redis):
    """What was said meanwhile stands in the hosts' files; Redis comes back without any data."""
    one, two = hosts.start("one", late=200), hosts.start("two")
    one.talk("done", "0?")
    assert hosts.are_judged(1) == [("done", 1)]
    one.talk("both", "0?")
    redis.kill()
    for turn in range(1, 4):
        (one, two)[turn % 2].talk("both", f"{turn}?")
    one.talk("new", "0?")
    threading.Event().wait(2 * hosts.idle)
    assert hosts.verdicts() == [("done", 1)]
    redis.start()
    expected = [("both", 1), ("done", 1), ("new", 1)]
    assert hosts.are_judged(3) == expected
    assert [t for t in hosts.texts("both") if len(t) == 2] == ["0?", "1?", "2?", "3?"]
    in_the_end(hosts, expected)


def test_a_verdict_that_is_made_while_redis_loses_its_data_is_not_made_again(hosts, redis):
    """Whoever judges the session tells Redis what it forgot, before another host does."""
    one, two = hosts.start("one"), hosts.start("two")
    hosts.free.clear()
    for turn in range(4):
        (one, two)[turn % 2].talk("s", f"{turn}?")
    until(lambda: hosts.seen, "the first judgement")
    redis.flush()
    hosts.free.set()
    assert hosts.are_judged(1) == [("s", 1)]
    in_the_end(hosts, [("s", 1)])


def test_what_a_killed_host_had_not_told_yet_is_told_when_it_is_back(hosts, redis):
    """Its file says so; with Redis away it could tell nothing."""
    one = hosts.start("one")
    one.talk("s", "0?")
    redis.kill()
    one.talk("s", "1?")
    one.talk("t", "0?")
    one.kill()
    redis.start()
    hosts.start("one").talk("other", "0?")
    expected = [("other", 1), ("s", 1), ("t", 1)]
    assert hosts.are_judged(3) == expected
    assert [text for text in hosts.texts("s") if len(text) == 2] == ["0?", "1?"]
    in_the_end(hosts, expected)


def test_the_doctor_says_what_waits_for_redis(hosts, redis):
    """How many sessions of all hosts are open, and what this host could not tell."""
    one = hosts.start("one", LLMEVAL_SESSION_IDLE="600")
    one.talk("s", "0?")
    until(lambda: redis.client().zcard(DUE), "Redis is told")
    env = {"LLMEVAL_STORE": one.store, "LLMEVAL_SHARED": redis.address}
    printed = " ".join(run_command("doctor", "--all", folder=hosts.folder, env=env).stdout.split())
    assert "1 sessions of all hosts are open" in printed
    redis.kill()
    one.talk("s", "1?")
    printed = " ".join(run_command("doctor", "--all", folder=hosts.folder, env=env).stdout.split())
    assert "1 turns of this host wait for" in printed
    assert "until it answers, sessions wait and none is evaluated" in printed
