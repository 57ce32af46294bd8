"""What Datadog gets of agent runs and of their session."""


def test_a_session_of_agent_runs_arrives_with_its_scope(agent, tmp_path):
    """Kinds of spans, the session on each, and scores by what they are about."""
    arrived = agent.run("sessions.py", folder=tmp_path)
    assert arrived.code == 0, arrived.errors[-3_000:]
    _, last = sorted(arrived.roots("support"), key=lambda span: span["start_ns"])
    (tool,) = arrived.children(last)
    kinds = [span["meta"]["span"]["kind"] for span in (last, tool)]
    assert kinds == ["agent", "tool"]
    for span in (last, tool):
        assert span.get("session_id") == "chat-7" or "session_id:chat-7" in span["tags"]
    verdict = arrived.evaluation("fine", on=last)
    assert (verdict["eval_scope"], verdict["categorical_value"]) == ("session", "yes")
    assert verdict["metadata"]["session_id"] == "chat-7"
    assert arrived.evaluation("turn_count", on=last)["score_value"] == 2.0
    of_run = arrived.evaluation("run_faults", on=last)
    assert of_run["eval_scope"] == "span"
