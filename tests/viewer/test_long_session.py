"""A session of 50,000 turns: its pages and its list are bounded."""

import json

import pytest
from command_line import run_command
from raw_store import RawStore
from served import serving

from llmeval_sdk import viewer


TURNS = 50_000
SESSION = "default"
"""What an app names the session of all its users, by mistake."""
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store with the session, a verdict on each hundredth turn, and another short session."""
    store = RawStore(tmp_path_factory.mktemp("long") / "own" / "llmeval.db", seed=1)
    begin = store.now - TURNS * SECOND
    rows = (
        (
            f"{number:032x}", f"{number:016x}", "support", "workflow", begin + number * SECOND,
            begin + number * SECOND + SECOND // 2, SESSION if number else "short",
            f'"question {number} {"x" * 400}"', f'"answer {number}"', '{"user_id":"everybody"}',
        )
        for number in range(TURNS + 1)
    )  # fmt: skip
    store.connection.execute("BEGIN")
    store.connection.executemany(
        "INSERT INTO spans (trace_id, span_id, name, kind, start_ns, end_ns, session_id, request,"
        " response, tags) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    store.connection.executemany(
        "INSERT INTO evaluations (id, span_id, trace_id, name, time_ns, value) VALUES (?,?,?,?,?,?)",
        (
            (
                f"{number:016x}-r",
                f"{number:016x}",
                f"{number:032x}",
                "groundedness_risk",
                begin,
                0.9,
            )
            for number in range(0, TURNS, 100)
        ),
    )
    store.connection.execute("COMMIT")
    store.close()
    return store.path


@pytest.fixture(scope="module")
def site(path):
    app = viewer.app(store=path, open=True)
    with serving(app, "") as server:
        yield server
    app.close()


PAGES = {
    "first": ("/session", {"id": SESSION}),
    "middle": ("/session", {"id": SESSION, "turn": 25_000}),
    "last": ("/session", {"id": SESSION, "turn": TURNS}),
    "all": ("/sessions", {}),
    "traces": ("/", {"session": SESSION}),
    "oldest": ("/", {"session": SESSION, "sort": "@time"}),
    "user": ("/", {"user": "everybody"}),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_it_is_as_small_as_others(site, name):
    """Half a megabyte is far more than a page of turns needs."""
    address, query = PAGES[name]
    page = site.get(address, **query)
    assert page.status == 200
    assert len(page.text) < 500_000


def test_it_says_how_long_the_session_is(site):
    """All turns are counted, and the last page ends with the last one."""
    last = site.get("/session", id=SESSION, turn=TURNS).text
    assert "50,000" in last
    assert f"question {TURNS} " in last
    assert f"question {TURNS - 100} " not in last


def test_the_command_lists_its_newest_turns(path, tmp_path):
    """Twenty by default and a thousand at most, each text with its beginning only."""
    run = ("traces", "--store", path, "--session", SESSION, "--json")
    some = run_command(*run, folder=tmp_path)
    most = run_command(*run, "--limit", "1000", folder=tmp_path)
    newest = json.loads(some.stdout)
    assert [each["span_id"] for each in newest[:2]] == [f"{TURNS:016x}", f"{TURNS - 1:016x}"]
    assert (len(newest), len(json.loads(most.stdout))) == (20, 1_000)
    assert len(most.stdout) < 1_500_000
