"""Every way to turn Datadog on, and bad input: never an exception that the app did not ask for."""

import subprocess
import sys
from pathlib import Path

import pytest


APP = "set_up.py"


def test_the_environment_alone_is_enough(agent, tmp_path):
    """No configure(), no ddtrace in the app's code."""
    arrived = agent.run(APP, "one_call", folder=tmp_path)
    assert "exporters ['datadog'] complete True" in arrived.output
    assert arrived.span("call")["meta"]["span"]["kind"] == "workflow"
    assert arrived.evaluation("own", on=arrived.span("call"))


def test_under_ddtrace_run_its_settings_stay(agent, tmp_path):
    """It enabled LLM Observability before us."""
    run = str(Path(sys.executable).with_name("ddtrace-run"))
    arrived = agent.run(APP, "one_call", folder=tmp_path, command=(run,), DD_SERVICE="shop")
    span = arrived.span("call")
    assert {"service:shop", "ml_app:roofs"} <= set(span["tags"])
    assert arrived.evaluation("own", on=span)["ml_app"] == "roofs"


def test_what_the_app_enabled_stays(agent, tmp_path):
    """Its name for the app is on spans and on scores."""
    arrived = agent.run(APP, "own_enable", folder=tmp_path)
    span = arrived.span("call")
    assert "ml_app:theirs" in span["tags"]
    assert arrived.evaluation("own", on=span)["ml_app"] == "theirs"


def test_an_app_that_enables_after_us_is_heeded(agent, tmp_path):
    """By itself, ddtrace ignores the second call: no name, no instrumented libraries."""
    arrived = agent.run(APP, "late_enable", folder=tmp_path)
    assert "patched True" in arrived.output
    assert "ml_app:theirs" in arrived.span("second")["tags"]
    assert arrived.evaluation("own", on=arrived.span("second"))["ml_app"] == "theirs"


RULES = ['[{"sample_rate": null}]', "[1]", '["x"]', "{", '{"sample_rate": 1}']


@pytest.mark.parametrize("rules", RULES)
def test_sampling_rules_that_crash_ddtrace_do_not_crash_us(agent, tmp_path, rules):
    """The spans arrive all the same, and the log says what is wrong with the rules."""
    arrived = agent.run(APP, "one_call", folder=tmp_path, DD_LLMOBS_EVALUATOR_SAMPLING_RULES=rules)
    assert arrived.code == 0, arrived.errors[-2_000:]
    assert arrived.span("call")
    assert "sampling" in arrived.errors.lower()


def test_ddtraces_own_import_does_crash_on_such_rules(agent, tmp_path):
    """Which is why they are hidden from it."""
    arrived = agent.run(
        APP, "own_enable", folder=tmp_path,
        DD_LLMOBS_EVALUATOR_SAMPLING_RULES='[{"sample_rate": null}]',
    )  # fmt: skip
    assert arrived.code != 0
    assert "TypeError" in arrived.errors


def test_without_an_agent_a_key_is_asked_for(agent, tmp_path):
    """By name, at configure(); from the environment it is a line in the log and the local store."""
    bad = {"DD_LLMOBS_AGENTLESS_ENABLED": "1", "DD_API_KEY": None}
    arrived = agent.run(APP, "configure", folder=tmp_path, **bad)
    assert "refused: Datadog without an agent needs DD_API_KEY" in arrived.output
    arrived = agent.run(APP, "one_call", folder=tmp_path, **bad)
    assert "exporters ['local'] complete True" in arrived.output
    assert "DD_API_KEY" in arrived.errors


def test_switched_off_by_the_environment_is_said(agent, tmp_path):
    """Where code asks for it all the same: ddtrace would silently do nothing."""
    arrived = agent.run(APP, "configure", folder=tmp_path, DD_LLMOBS_ENABLED="0")
    assert "refused: DD_LLMOBS_ENABLED is false" in arrived.output


def test_evaluators_that_ddtrace_never_knew_are_ours(agent, tmp_path):
    """The variable that crashed old releases names evaluators here."""
    arrived = agent.run(
        "answer.py", folder=tmp_path, DD_LLMOBS_EVALUATORS="latency_seconds,no_such_thing"
    )
    assert arrived.evaluation("latency_seconds", on=arrived.span("answer"))["score_value"] >= 0
    assert "no_such_thing" in arrived.errors


def test_importing_us_does_not_import_ddtrace(tmp_path):
    """Nor does an app that does not ask for Datadog pay for it."""
    code = "import sys, llmeval_sdk.pipeline.runtime; print('ddtrace' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
