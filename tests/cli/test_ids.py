"""Commands take the plain id of a user or a session, in whichever form the store holds it."""

import json

import pytest

import llmeval_sdk as sdk
from llmeval_sdk.testing import capture


KEY = "a key that all hosts have"
HASHING = {"LLMEVAL_HASH_IDS": KEY}
USER, SESSION = ("--user", "anna"), ("--session", "chat-7")


def record(path, name, **settings):
    """Write one request of the user and the session."""
    with capture(exporters=["local"], store=str(path), **settings):
        with sdk.workflow(name, session_id="chat-7"):
            sdk.annotate(user_id="anna")
        sdk.flush(10)


@pytest.fixture
def store(tmp_path):
    """A request of before the setting, and one of after it."""
    path = tmp_path / "store.db"
    record(path, "plain")
    record(path, "hashed", hash_ids=KEY)
    return path


@pytest.fixture
def hashed(tmp_path):
    """A store whose only request has hashed ids."""
    path = tmp_path / "hashed.db"
    record(path, "hashed", hash_ids=KEY)
    return path


def names(done):
    return [request["name"] for request in json.loads(done.stdout)]


@pytest.mark.parametrize("options", [USER, SESSION, USER + SESSION])
def test_requests_are_found_by_the_id_and_by_its_hash(llmeval, store, options):
    """Newest first, also those of before the key was set; and no more than were asked for."""
    found = llmeval("traces", "--store", store, *options, "--json", **HASHING)
    assert names(found) == ["hashed", "plain"], found.stderr
    newest = llmeval("traces", "--store", store, *options, "--limit", "1", "--json", **HASHING)
    assert names(newest) == ["hashed"]


@pytest.mark.parametrize("options", [USER, SESSION])
def test_without_the_key_a_list_says_what_it_cannot_look_into(llmeval, store, options):
    """What was found is printed; the note goes to standard error, so that JSON stays JSON."""
    found = llmeval("traces", "--store", store, *options, "--json")
    assert (found.returncode, names(found)) == (0, ["plain"])
    assert "LLMEVAL_HASH_IDS" in found.stderr


@pytest.mark.parametrize("options", [USER, SESSION])
def test_without_the_key_nothing_found_is_no_answer(llmeval, hashed, options):
    """Where all ids are hashed, nothing can be said of an id, and the command fails."""
    found = llmeval("traces", "--store", hashed, *options, "--json")
    assert (found.returncode, found.stdout) == (2, "")
    assert "LLMEVAL_HASH_IDS" in found.stderr


def test_a_hash_is_taken_as_it_is(llmeval, hashed):
    """What a list shows as the id finds the request with the key and without."""
    (request,) = json.loads(llmeval("traces", "--store", hashed, "--json").stdout)
    for env in ({}, HASHING):
        asked = ("--session", request["session_id"], "--json")
        found = llmeval("traces", "--store", hashed, *asked, **env)
        assert (names(found), found.stderr) == (["hashed"], "")


def test_a_store_without_hashed_ids_needs_no_key(llmeval, tmp_path):
    """An unknown user is then simply unknown."""
    record(tmp_path / "plain.db", "plain")
    asked = llmeval("traces", "--store", tmp_path / "plain.db", "--user", "berta")
    assert (asked.returncode, asked.stderr) == (1, "")
    assert "No request" in asked.stdout
    pruned = llmeval("prune", "--store", tmp_path / "plain.db", "--user", "berta")
    assert (pruned.returncode, pruned.stderr) == (1, "")
    assert "no span has user_id berta" in pruned.stdout


def test_a_user_is_forgotten_whole(llmeval, store):
    """Also what was recorded before ids were hashed."""
    done = llmeval("prune", "--store", store, *USER, **HASHING)
    assert "2 traces with 2 spans of that user went" in done.stdout
    assert done.returncode == 0
    assert llmeval("traces", "--store", store).returncode == 1


@pytest.mark.parametrize("more", [(), ("--json",), ("--dry-run",)])
def test_forgetting_without_the_key_is_no_success(llmeval, hashed, more):
    """Nothing that can be found is not nothing: no `0 spans went`, and nothing is deleted."""
    done = llmeval("prune", "--store", hashed, *USER, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "LLMEVAL_HASH_IDS" in done.stderr
    assert llmeval("traces", "--store", hashed).returncode == 0


def test_what_can_be_found_without_the_key_goes(llmeval, store):
    """The exit code and a sentence say that more of the user may be there under hashes."""
    done = llmeval("prune", "--store", store, *USER)
    assert done.returncode == 1
    assert "1 trace with 1 span of that user went" in done.stdout
    assert "LLMEVAL_HASH_IDS" in done.stderr
    left = llmeval("traces", "--store", store, "--json")
    assert names(left) == ["hashed"]
