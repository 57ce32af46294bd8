"""What our own work looks like to the tracer of the app that we live in: like nothing."""

import json


def test_the_store_s_statements_are_no_spans_of_the_app(agent, tmp_path):
    """Each root span of a traced database is billed: those of the store are not among them."""
    found = agent.run("own_store.py", folder=tmp_path, DD_LLMOBS_ENABLED="0")
    assert found.code == 0, found.errors[-3_000:]
    said = json.loads(found.output)
    assert said["judged"] == {"relevance_to_query": 20}
    assert said["ours"] == []
    assert "sqlite.query" in said["own"]
