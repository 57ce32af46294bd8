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


@pytest.mark.parametrize("exporters", ["local", "local,datadog"])
def test_user_session_and_tags_of_our_context_are_those_of_ddtraces_spans(
    agent, tmp_path, exporters
):
    """Whoever made the span; what ddtrace says itself of a span goes first."""
    done = agent.run("around.py", exporters, folder=tmp_path)
    assert done.code == 0, done.errors[-3_000:]
    stored = [tuple(json.loads(line)) for line in done.output.splitlines()]
    ann = {"user_id": "ann", "team": "roofs"}
    assert stored == [
        ("answer", "chat-7", ann),
        ("ask", "chat-7", {**ann, "step": "asking"}),
        ("of_its_own", "chat-9", {**ann, "user_id": "bob"}),
        ("ours", "chat-7", ann),
        ("late", "chat-6", {"user_id": "cy"}),
        ("ask", "chat-6", {"user_id": "cy"}),
    ]


def test_our_context_reaches_the_spans_that_datadog_gets(agent, tmp_path):
    """Spans of ddtrace's own decorators and of instrumented clients have the user there, too."""
    done = agent.run("around.py", "datadog,local", folder=tmp_path)
    assert done.code == 0, done.errors[-3_000:]
    for name in ("answer", "ours"):
        span = done.span(name)
        assert {"user_id:ann", "team:roofs"} <= set(span["tags"])
        assert span["session_id"] == "chat-7"
    assert done.span("of_its_own")["session_id"] == "chat-9"
