"""One verdict for each idle period, whatever becomes of the processes that share the sessions."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from llmeval_sdk.testing.judge_server import JudgeServer, stand_in


pytestmark = pytest.mark.timeout(240)
"""Each starts several interpreters, and waits for what a dead process had taken to be free."""

APP = """
import sys, time
import llmeval_sdk as llmeval

def talk(session, *texts):
    for text in texts:
        with llmeval.workflow("chat", request=text, session_id=session) as span:
            span.response = "The answer to " + text

def say(word):
    print(word, flush=True)

llmeval.configure(evaluators=["goal_reached"], escalations=[])
"""
IDLE = 1.0


@pytest.fixture
def host(tmp_path, until):
    """A store, a judge's server, and apps in processes of their own."""

    class Host:
        store = tmp_path / "store.db"

        def __init__(self, server):
            self.server, self.apps, self.wait = server, [], until

        def start(self, code, **variables):
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "DD_"))}
            process = subprocess.Popen(
                [sys.executable, "-c", APP + code],
                env={
                    **kept,
                    "LLMEVAL_STORE": str(self.store),
                    "XDG_STATE_HOME": str(tmp_path / "state"),
                    "LLMEVAL_SESSION_IDLE": str(IDLE),
                    "LLMEVAL_JUDGE_MODEL": "stand-in",
                    "LLMEVAL_JUDGE_API_KEY": "none",
                    "LLMEVAL_JUDGE_BASE_URL": self.server.base_url,
                    "LLMEVAL_SHUTDOWN_TIMEOUT": "10",
                    **variables,
                },
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.apps.append(process)
            return process

        def heard(self, process, word):
            assert process.stdout.readline().strip() == word, process.stderr.read()

        def rows(self, name="goal_reached"):
            if not self.store.exists():
                return []
            query = (
                "SELECT json_extract(metadata, '$.session_id'), json_extract(metadata, '$.period')"
                " FROM evaluations WHERE name = ? ORDER BY 1, 2"
            )
            try:
                with closing(sqlite3.connect(self.store, timeout=5)) as database:
                    return database.execute(query, (name,)).fetchall()
            except sqlite3.OperationalError:  # its tables are being made
                return []

        def talks(self):
            return [row for row in self.rows() if row[0] != "ready"]

        def due(self):
            with closing(sqlite3.connect(self.store.with_suffix(".state"))) as database:
                query = "SELECT count(*) FROM sessions WHERE due IS NOT NULL"
                return database.execute(query).fetchone()[0]

    with JudgeServer() as server:
        made = Host(server)
        yield made
        for process in made.apps:
            process.kill()
            process.communicate()


def test_four_processes_that_share_sessions_judge_each_once(host):
    """Turns of one session come from all of them; one verdict is made of all turns."""
    code = """
talk("ready", "one?")
llmeval.flush(20)
say("ready")
sys.stdin.readline()
for number in range(20):
    talk(f"s{number}", "one?")
say("talked")
sys.stdin.readline()
"""
    apps = [host.start(code, LLMEVAL_SESSION_IDLE="8") for _ in range(4)]
    for process in apps:
        host.heard(process, "ready")
    for process in apps:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in apps:
        host.heard(process, "talked")
    expected = sorted((f"s{number}", 1) for number in range(20))
    host.wait(lambda: len(set(host.talks())) >= 20 and host.due() == 0, 120)
    assert host.talks() == expected
    for process in apps:
        process.communicate("\n", timeout=60)
    assert host.talks() == expected
    asked = [str(request.body) for request in host.server.chats]
    assert sum("The answer to one?" in text for text in asked) == len(host.rows())
    assert all(text.count("step ") >= 8 for text in asked)


def test_a_later_process_judges_what_an_earlier_one_left(host):
    """The process ended long before the session was idle."""
    first = host.start('talk("s1", "one?")')
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert host.rows() == []
    second = host.start('talk("s2", "one?"); say("talked"); sys.stdin.readline()')
    host.heard(second, "talked")
    host.wait(lambda: len(host.rows()) == 2)
    assert host.rows() == [("s1", 1), ("s2", 1)]


@pytest.mark.parametrize("when", ["before it is judged", "while it is judged", "after"])
def test_a_process_that_is_killed_leaves_exactly_one_verdict_for_each_period(host, when):
    """``kill -9`` before a session is idle, in the middle of a judgement, or just after it."""
    asked, free = threading.Event(), threading.Event()

    def answer(request):
        asked.set()
        assert free.wait(60)
        return stand_in(request)

    host.server.answer = answer
    if when != "while it is judged":
        free.set()
    code = """
for number in range(5):
    talk(f"s{number}", "one?")
llmeval.flush(20)
time.sleep(0.6)
say("talked")
time.sleep(60)
"""
    first = host.start(code)
    host.heard(first, "talked")
    if when == "while it is judged":
        assert asked.wait(30)
    elif when == "after":
        host.wait(lambda: len(host.rows()) >= 1)
    first.send_signal(signal.SIGKILL)
    first.wait(30)
    free.set()
    second = host.start('talk("other", "one?"); say("talked"); sys.stdin.readline()')
    host.heard(second, "talked")
    host.wait(lambda: len(host.rows()) >= 6 and host.due() == 0, 120)
    assert host.rows() == [("other", 1), *((f"s{number}", 1) for number in range(5))]
    second.communicate("\n", timeout=30)
    assert len(host.rows()) == 6


def test_kills_at_random_moments_lose_no_period_and_judge_none_twice(host):
    """Ten processes, each killed at some moment of its work; the last one deals with the rest."""
    code = """
import random
talk(sys.stdin.readline().strip(), "one?", "two?")
llmeval.flush(20)
time.sleep(0.6)
say("kept")
time.sleep(60)
"""
    for number in range(6):
        process = host.start(code)
        process.stdin.write(f"s{number}\n")
        process.stdin.flush()
        host.heard(process, "kept")
        threading.Event().wait(0.25 * number)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    last = host.start('talk("last", "one?"); say("talked"); sys.stdin.readline()')
    host.heard(last, "talked")
    host.wait(lambda: len(set(host.rows())) >= 7 and host.due() == 0, 120)
    assert host.rows() == [("last", 1), *((f"s{number}", 1) for number in range(6))]


def test_with_a_spool_not_even_the_last_turn_before_a_kill_is_lost(host, tmp_path):
    """The spool holds a record until its turn is on disk."""
    spool = {"LLMEVAL_SPOOL": str(tmp_path / "spool")}
    code = """
talk("s1", "one?")
llmeval.flush(20)
talk("s1", "two?")
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""
    first = host.start(code, **spool)
    first.wait(30)
    second = host.start('talk("other", "one?"); say("talked"); sys.stdin.readline()', **spool)
    host.heard(second, "talked")
    host.wait(lambda: ("s1", 1) in host.rows() and host.due() == 0, 120)
    with closing(sqlite3.connect(host.store.with_suffix(".state"))) as database:
        assert database.execute("SELECT turns FROM sessions WHERE id = 's1'").fetchone() == (2,)


def test_children_of_a_fork_share_the_sessions_of_their_parent(host):
    """As the workers of a server that forks."""
    code = """
import os
talk("parent", "one?")
llmeval.flush(20)
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        talk("shared", "from a child?")
        talk(f"child{number}", "one?")
        llmeval.flush(20)
        time.sleep(0.7)
        llmeval.shutdown(10)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
say("talked")
sys.stdin.readline()
"""
    process = host.start(code)
    host.heard(process, "talked")
    host.wait(lambda: len(host.rows()) >= 5 and host.due() == 0, 120)
    names = ["child0", "child1", "child2", "parent", "shared"]
    assert [row[0] for row in host.rows()][:5] == names
    assert {period for _, period in host.rows()} == {1}
