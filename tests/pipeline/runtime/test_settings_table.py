"""The settings stand in one table by area, say what they take, and go with what they belong to."""

import pytest

from llmeval_sdk import config
from llmeval_sdk.config import reading
from llmeval_sdk.config.__main__ import table as settings_table


def test_every_setting_names_the_values_it_takes():
    """README shows for each setting the words or numbers that are allowed; only texts are free."""
    for row in config.rows():
        words = reading.allowed(row.read)
        free = row.read is reading.text
        assert free == (words == "text"), row.name
    assert (
        "| `LLMEVAL_HEURISTICS` | `inline`, `background` or `off` | `inline` | the default |"
        in settings_table()
    )


def test_a_form_of_a_setting_stands_in_the_row_of_that_setting():
    """Timeouts and headers of spans or scores alone are no settings of their own for a reader."""
    (line,) = [each for each in settings_table().splitlines() if "_OTLP_TIMEOUT`" in each]
    assert "`OTEL_EXPORTER_OTLP_TRACES_TIMEOUT`, `OTEL_EXPORTER_OTLP_LOGS_TIMEOUT`" in line
    assert "spans" in line
    assert "scores" in line


def test_no_setting_stands_in_two_areas():
    """Names and variables are unique, so that a table never overrides another one's."""
    names = [row.name for row in config.rows()]
    variables = [variable for row in config.rows() for variable in row.variables]
    assert len(set(names)) == len(names)
    assert len(set(variables)) == len(variables)


def test_tables_do_not_inherit_from_each_other():
    """An area is read by itself."""
    for table in config.areas().values():
        assert table.__bases__ == (config.Table,)


@pytest.mark.plugin("phoenix")
def test_an_extension_has_its_settings_from_the_environment_or_by_name():
    """They are no fields of `Settings`; those that nothing sets have their defaults."""
    from llmeval_sdk.plugins.phoenix import PhoenixSettings

    settings = config.from_environment({"PHOENIX_API_KEY": "k"}, phoenix_endpoint="http://here")
    assert settings.of(PhoenixSettings).phoenix_endpoint == "http://here"
    assert settings.of(PhoenixSettings).phoenix_api_key == config.Secret("k")
    assert not hasattr(settings, "phoenix_endpoint")
    assert config.Settings().of(PhoenixSettings) == PhoenixSettings()
    assert config.value_of(settings, "phoenix_endpoint") == "http://here"
