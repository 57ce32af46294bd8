"""A secret that code sets is hidden like one of the environment."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config import Secret
from llmeval_sdk.config.reading import secret_pairs
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import runtime


TEXT = "sk-0123456789abcdef-secret"


def secret_rows():
    """The settings whose type says that they hold secrets."""
    return [row for row in config.rows() if row.is_secret and "Redis" not in row.doc]


@pytest.mark.plugin("datadog")
def test_there_are_secret_settings():
    """The rows that the following tests run over are there."""
    names = {row.name for row in secret_rows()}
    assert {"judge_api_key", "datadog_api_key", "otlp_headers"} <= names
    assert ("alert_token" in names) == (find_spec("llmeval_sdk.plugins.watch.settings") is not None)


@pytest.mark.parametrize("row", secret_rows(), ids=lambda row: row.name)
def test_no_repr_and_no_pickle_shows_a_secret_that_code_sets(row):
    """Plain text in ``configure()`` becomes a Secret, whichever setting it is for."""
    value = {"Api-Key": TEXT} if row.read is secret_pairs else TEXT
    settings = config.from_environment({}, **{row.name: value})
    held = config.value_of(settings, row.name)
    assert held == ({"api-key": Secret(TEXT)} if isinstance(value, dict) else Secret(TEXT))
    assert TEXT not in repr(settings)
    assert TEXT not in repr(vars(settings))
    assert TEXT.encode() not in pickle.dumps(held)


def test_headers_may_be_one_text_as_in_the_environment():
    """OpenTelemetry's ``key=value,key=value`` is read in code too."""
    settings = config.from_environment({}, otlp_headers=f"Api-Key={TEXT},x=1")
    assert settings.otlp_headers == {"api-key": Secret(TEXT), "x": Secret("1")}


@pytest.mark.plugin("datadog")
def test_configure_hides_a_datadog_key():
    """The settings in force never print a key that was given to ``configure()``."""
    with runtime.isolated():
        llmeval.configure(datadog_api_key=TEXT, exporters=["memory"], escalations=[])
        assert config.value_of(runtime.settings(), "datadog_api_key") == Secret(TEXT)
        assert TEXT not in repr(runtime.settings())


def test_a_secret_that_cannot_be_used_is_refused_without_being_shown():
    """A key that is too short raises where a person watches; the message does not hold it."""
    with pytest.raises(ConfigurationError, match="at least 16 characters") as refusal:
        config.from_environment({}, hash_ids="guessable")
    assert "guessable" not in str(refusal.value)
    problems = []
    config.from_environment({"LLMEVAL_HASH_IDS": "guessable"}, problems=problems)
    assert len(problems) == 1
    assert "guessable" not in problems[0]
