"""The app's ``LLMObs.flush()`` waits for judges that were asked for by name, whatever the exporters."""

import json

import pytest


def said(agent, tmp_path, way, exporters):
    done = agent.run("flushes.py", way, exporters, folder=tmp_path)
    assert done.code == 0, done.errors[-2_000:]
    return json.loads(done.output.splitlines()[-1])


@pytest.mark.parametrize("exporters", ["local", "memory", "datadog", "otlp,local"])
def test_a_flush_waits_for_a_judge_that_was_configured(agent, tmp_path, exporters):
    """A script of Datadog's guide ends at once, and its verdicts are there."""
    assert said(agent, tmp_path, "configured", exporters) == [{"slow": 1}, True]


@pytest.mark.parametrize("exporters", ["local", "datadog"])
def test_a_flush_waits_for_a_judge_that_a_span_names(agent, tmp_path, exporters):
    """A block's own ``evaluators=`` names judges, too."""
    assert said(agent, tmp_path, "span", exporters) == [{"slow": 1}, True]


@pytest.mark.parametrize("way", ["loop", "escalated"])
@pytest.mark.parametrize("exporters", ["local", "datadog"])
def test_a_flush_for_each_request_holds_nothing_up(agent, tmp_path, way, exporters):
    """On an event loop, and where judges are only escalated to, the records are sent sooner."""
    assert said(agent, tmp_path, way, exporters) == [{}, True]
