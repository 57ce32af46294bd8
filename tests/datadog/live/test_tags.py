"""Whose requests are is what ddtrace's own annotations say."""

import json

import pytest


@pytest.mark.parametrize("mode", ["agent", "agentless"])
@pytest.mark.parametrize("apm", ["false", None])
def test_user_session_and_tags_of_ddtrace_are_those_of_the_request(agent, tmp_path, mode, apm):
    """And nothing of what ddtrace itself writes among the tags, by either of its spellings."""
    env = {"DD_ENV": "test", "DD_SERVICE": "estate", "DD_APM_TRACING_ENABLED": apm}
    done = agent.run("tagged.py", mode=mode, folder=tmp_path, **env)
    assert done.code == 0, done.errors[-3_000:]
    stored = {row[0]: row[1:] for row in map(json.loads, done.output.splitlines())}
    assert stored["ask"] == ["chat-7", {"user_id": "ann"}]
    assert stored["answer"] == ["chat-7", {"team": "roofs", "user_id": "ann"}]
    session, tags = stored["named_otherwise"]
    assert (session, tags["user_id"]) == ("chat-8", "bob")
    assert tags.keys() <= {"user_id", "user.id"}
