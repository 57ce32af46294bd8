"""When Datadog is turned on, and what is said where it cannot be."""

import pytest

from llmeval_sdk import config
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.pipeline.intake import default_exporters
from llmeval_sdk.plugins.datadog import library


@pytest.fixture
def chosen(monkeypatch):
    def choose(**environment):
        for name in config.variables("DD_"):
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return default_exporters(config.from_environment(problems=[]))

    return choose


def test_datadog_is_on_where_it_was_asked_for(chosen):
    """By its own switch, or by an address or key beside any LLM Observability variable."""
    assert chosen(DD_LLMOBS_ENABLED="1") == ("datadog",)
    assert chosen(DD_API_KEY="k", DD_LLMOBS_ML_APP="app") == ("datadog",)
    assert chosen(DD_AGENT_HOST="h", DD_LLMOBS_EVALUATORS="ragas_faithfulness") == ("datadog",)
    assert chosen(DD_TRACE_AGENT_URL="http://h", DD_LLMOBS_SAMPLE_RATE="1") == ("datadog",)


def test_datadog_is_off_otherwise(chosen):
    """Neither a key alone, nor a variable alone, nor where it was switched off."""
    assert chosen() == ("local",)
    assert chosen(DD_API_KEY="k", DD_AGENT_HOST="h") == ("local",)
    assert chosen(DD_LLMOBS_EVALUATORS="ragas_faithfulness") == ("local",)
    assert chosen(DD_LLMOBS_ENABLED="0", DD_API_KEY="k", DD_LLMOBS_ML_APP="a") == ("local",)


def test_otlp_and_datadog_can_both_be_on(chosen):
    """Each by what configures it."""
    both = chosen(DD_LLMOBS_ENABLED="1", OTEL_EXPORTER_OTLP_ENDPOINT="http://h:4318")
    assert both == ("otlp", "datadog")


@pytest.mark.parametrize("version", ["4.7.2", "3.19.9", "2.16.0", "4.7.0rc1"])
def test_an_old_ddtrace_is_refused_in_one_clear_line(version):
    """With what to install instead."""
    with pytest.raises(ConfigurationError, match=r"pip install 'ddtrace>=4\.8'") as refusal:
        library.check(version)
    assert version in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_ddtrace_names_the_extra():
    """Which is not part of `all`."""
    with pytest.raises(MissingExtraError, match=r"llmeval-inprocess\[datadog\]"):
        library.check(None)


@pytest.mark.parametrize("version", ["4.8.0", "4.16.0", "5.0.0", "4.10.0rc2"])
def test_a_newer_ddtrace_is_taken(version):
    """From 4.8 on, where it no longer reads DD_LLMOBS_EVALUATORS."""
    library.check(version)


def settings(**environment):
    return config.from_environment(environment)


def test_the_mode_is_decided_without_asking_the_agent():
    """What was said counts; without a key there is only the agent."""
    assert library.agentless(settings(DD_LLMOBS_AGENTLESS_ENABLED="1")) is True
    assert library.agentless(settings(DD_LLMOBS_AGENTLESS_ENABLED="0", DD_API_KEY="k")) is False
    assert library.agentless(settings()) is False
    assert library.agentless(settings(DD_API_KEY="k", DD_TRACE_AGENT_URL="http://h")) is False


def test_a_hidden_variable_comes_back(monkeypatch):
    """Even where the import in between fails."""
    monkeypatch.setenv("DD_X", "1")
    with pytest.raises(KeyError), config.hidden("DD_X"):
        assert config.variables("DD_X") == ()
        raise KeyError
    assert config.variables("DD_X") == ("DD_X",)


def test_no_key_is_ever_shown():
    """Not in the repr of the settings either."""
    assert "secret-key" not in repr(settings(DD_API_KEY="secret-key"))
