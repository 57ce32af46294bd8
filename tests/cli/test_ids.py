"""Commands take the plain id of a user or a session, however the store holds it."""

import json

import pytest

import llmeval_sdk as sdk
from llmeval_sdk.testing import capture


KEY = "a key that all hosts have"


@pytest.fixture
def store(tmp_path):
    """A request of before the setting, and one of after it."""
    path = tmp_path / "store.db"
    for settings in ({}, {"hash_ids": KEY}):
        with capture(exporters=["local"], store=str(path), **settings):
            with sdk.workflow("hashed" if settings else "plain", session_id="chat-7"):
                sdk.annotate(user_id="anna")
            sdk.flush(10)
    return path


@pytest.mark.parametrize("option", [("--user", "anna"), ("--session", "chat-7")])
def test_requests_are_found_by_the_plain_id(llmeval, store, option):
    """With the setting by its hash, and without it as it is."""
    for env, name in (({}, "plain"), ({"LLMEVAL_HASH_IDS": KEY}, "hashed")):
        done = llmeval("traces", "--store", store, *option, "--json", **env)
        assert [each["name"] for each in json.loads(done.stdout)] == [name], done.stderr


def test_a_user_is_forgotten_whole(llmeval, store):
    """Also what was recorded before ids were hashed."""
    done = llmeval("prune", "--store", store, "--user", "anna", LLMEVAL_HASH_IDS=KEY)
    assert "2 traces with 2 spans of that user went" in done.stdout
    assert llmeval("traces", "--store", store).returncode == 1
