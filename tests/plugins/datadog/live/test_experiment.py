"""An offline run in Datadog: under its own name, each row a trace with its scores."""


def test_an_offline_run_stands_apart_and_is_whole(agent, tmp_path):
    """The app's spans lie below the row's, scores are joined on it, the ML app is the run's."""
    arrived = agent.run("experiment.py", folder=tmp_path, settle=2.0)
    assert arrived.code == 0, arrived.errors
    rows = arrived.roots("golden-roofs")
    assert len(rows) == 3
    assert [arrived.tree(row) for row in rows] == [("golden-roofs", ("answer", "find"))] * 3
    assert len({row["trace_id"] for row in rows}) == 3
    for row in rows:
        assert "experiment:golden-roofs" in row["tags"]
        assert any(tag == "ml_app:golden-roofs" for tag in row["tags"])
        score = arrived.evaluation("document_recall", on=row)
        assert score["score_value"] == 1.0
        assert score["ml_app"] == "golden-roofs"
