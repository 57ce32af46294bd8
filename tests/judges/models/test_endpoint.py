"""Model names and addresses are checked where a person is watching."""

import logging

import pytest

from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.judges.models import OpenAILLM, clients, resolve
from llmeval_sdk.judges.models.clients import OPENAI_URL, endpoint


@pytest.mark.parametrize(
    ("name", "base_url", "expected"),
    [
        ("gpt-4o", None, ("openai", "gpt-4o", OPENAI_URL)),
        ("openai/gpt-4o", None, ("openai", "gpt-4o", OPENAI_URL)),
        ("openai/gpt-4o", OPENAI_URL + "/", ("openai", "gpt-4o", OPENAI_URL)),
        ("azure/judge", "https://x.example/", ("azure", "judge", "https://x.example")),
        ("qwen2.5", "http://127.0.0.1:8000/v1", ("openai", "qwen2.5", "http://127.0.0.1:8000/v1")),
        ("org/model", "https://x.example/v1", ("openai", "org/model", "https://x.example/v1")),
        ("openai/gpt-oss", "https://x.example", ("openai", "openai/gpt-oss", "https://x.example")),
    ],
)
def test_model_names_are_read(name, base_url, expected):
    """A provider's prefix goes where it is ours to read, and to the server where it is not."""
    found = endpoint(name, base_url)
    assert (found.provider, found.model, found.base_url) == expected


@pytest.mark.parametrize(
    ("name", "base_url", "says"),
    [
        ("anthropic/claude", None, "LLMEVAL_JUDGE_BASE_URL"),
        ("azure/judge", None, "LLMEVAL_JUDGE_BASE_URL"),
        ("", None, "provider/model"),
        ("openai/", None, "provider/model"),
        ("/x", None, "provider/model"),
        ("m", "https://user:secret-word@x.example/v1", "LLMEVAL_JUDGE_API_KEY"),
        ("m", "file:///etc/passwd", "https://"),
        ("m", "x.example/v1", "https://"),
        ("m", "https://[bad/v1", "cannot be read"),
        ("m", "http://169.254.169.254/latest", "link-local"),
        ("m", "http://0xA9FEA9FE/latest", "link-local"),
        ("m", "http://2852039166/latest", "link-local"),
        ("m", "http://[fe80::1]/v1", "link-local"),
        ("m", "http://[::ffff:169.254.169.254]/v1", "link-local"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(name, base_url, says):
    """The message names what to set and never repeats credentials."""
    with pytest.raises(ConfigurationError, match=says) as caught:
        endpoint(name, base_url)
    assert "secret-word" not in str(caught.value)


def test_plain_http_off_loopback_warns_once(caplog):
    """The key would travel in clear: said once per server, and not for the loopback."""
    with caplog.at_level(logging.WARNING, logger="llmeval_sdk"):
        endpoint("m", "http://judge.internal:8000/v1")
        endpoint("m", "http://judge.internal:8000/v1")
        endpoint("m", "http://127.0.0.1:8000/v1")
        endpoint("m", "http://localhost:8000/v1")
        endpoint("m", "http://[::1]:8000/v1")
    assert [record.getMessage() for record in caplog.records] == [
        "judge requests and their key travel unencrypted to http://judge.internal:8000: use https://"
    ]


def test_the_environment_s_key_goes_to_the_environment_s_server_only(monkeypatch):
    """Address and key are taken from the environment together, or not at all."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", "https://gateway.example/v1")
    taken = OpenAILLM("m")
    assert (taken.base_url, taken._key.reveal()) == ("https://gateway.example/v1", "sk-env")
    given = OpenAILLM("m", base_url="https://other.example/v1")
    assert given._key is None


def test_openai_without_a_key_says_which_variable_to_set(monkeypatch):
    """A missing key is told at configuration, not by a 401 in production."""
    for name in ("OPENAI_API_KEY", "LLMEVAL_JUDGE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAILLM("gpt-4o")


def test_without_the_client_library_the_extra_is_named(monkeypatch):
    """The one message that every missing library gets, at construction."""
    monkeypatch.setattr(clients, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"llmeval-inprocess\[openai\]"):
        OpenAILLM("gpt-4o", api_key="k")


def test_resolve_takes_a_name_an_llm_or_a_callable(monkeypatch):
    """And says so to whoever passes something else."""
    from llmeval_sdk.config import Secret, Settings

    settings = Settings(judge_api_key=Secret("k"), judge_timeout=7.0)
    named = resolve("openai/gpt-4o-mini", settings=settings)
    assert (named.model, named.timeout) == ("gpt-4o-mini", 7.0)
    assert resolve(settings=settings).model == "gpt-4o"
    assert resolve(named) is named
    assert resolve(lambda prompt: "x", settings=settings).model == "<lambda>"
    with pytest.raises(ConfigurationError, match="async def complete"):
        resolve(3, settings=settings)
