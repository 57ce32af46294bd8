"""What is asked for and cannot be done is a clear error, or a line in the log where nobody looks on."""

import json
import subprocess
import sys

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import errors
from llmeval_sdk.plugins.instrument import calls, libraries
from llmeval_sdk.process import shield
from llmeval_sdk.testing import capture


def test_an_unknown_name_is_an_error_with_the_nearest_one():
    """Nothing is patched then, not even the other names."""
    with pytest.raises(errors.ConfigurationError, match="did you mean 'openai'"):
        llmeval.instrument("anthropic", "opnai")
    with pytest.raises(errors.ConfigurationError, match="needs the names"):
        llmeval.instrument()


def test_a_missing_package_says_what_to_install():
    """The extra, and for a client that the extra does not know its own package."""
    with pytest.raises(errors.MissingExtraError, match=r"llmeval-inprocess\[instrument\].*-groq"):
        llmeval.instrument("groq")


def test_a_client_of_an_unsupported_version_is_an_error(monkeypatch):
    """It names both versions and what to do."""
    real = libraries.version
    monkeypatch.setattr(
        libraries, "version", lambda name: "1.3.0" if name == "openai" else real(name)
    )
    with pytest.raises(errors.ConfigurationError, match=r"openai>=.*1\.3\.0 is installed"):
        llmeval.instrument("openai")
    with pytest.raises(errors.ConfigurationError, match="pip install -U openai"):
        llmeval.wrap_openai(object())


def test_only_a_client_of_openai_can_be_wrapped():
    """Anything else is a mistake of whoever calls it."""
    with pytest.raises(TypeError, match="not dict"):
        llmeval.wrap_openai({})


def test_a_setting_instruments_when_the_sdk_is_set_up(ask, provider):
    """`configure` and the environment take the same names."""
    with capture(instrument=("openai",)) as seen:
        ask()
        seen.drain()
    assert len(seen.spans) == 1


def test_calls_are_seen_where_the_app_has_turned_its_opentelemetry_off(ask, provider, monkeypatch):
    """The variable of OpenTelemetry ends what the app sends, and nothing of ours."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    calls._provider.cache_clear()
    with capture(instrument=("openai",)) as seen:
        ask()
        seen.drain()
    assert [span.kind for span in seen.spans] == ["llm"]


def test_a_setting_that_cannot_be_followed_is_a_line_in_the_log(monkeypatch):
    """The app runs on."""
    with capture(raise_again=False, instrument=("groq",)):
        pass
    monkeypatch.setenv("LLMEVAL_INSTRUMENT", "opnai")
    with pytest.raises(errors.ConfigurationError, match="opnai"):
        from llmeval_sdk import config

        config.from_environment()
    assert [n for n in shield.notices if "groq" in n.site] or "instrument groq" in shield._last_told


APP = """
import json, sys
from provider_server import running_provider
from openai import OpenAI

with running_provider() as provider:
    client = OpenAI(base_url=provider.base_url, api_key="none", max_retries=0)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
"""


def test_an_app_that_never_mentions_us_is_traced(tmp_path, request):
    """`llmeval run` with one variable; the store has the call."""
    import os
    import sqlite3

    (tmp_path / "app.py").write_text(APP)
    support = request.config.rootpath / "tests" / "support"
    store = tmp_path / "s.db"
    environment = {
        **os.environ, "LLMEVAL_INSTRUMENT": "openai", "LLMEVAL_STORE": str(store),
        "PYTHONPATH": str(support),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "run", sys.executable, str(tmp_path / "app.py")],
        env=environment, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = sqlite3.connect(store).execute("SELECT name FROM spans").fetchall()
    assert rows == [("ChatCompletion",)]


IMPORTS = """
import json, sys
import llmeval_sdk as llmeval
llmeval.instrument("openai", "anthropic")
before = sorted({name.partition(".")[0] for name in sys.modules} & {"openai", "anthropic", "openinference"})
import openai
print(json.dumps([before, hasattr(openai.OpenAI.request, "__wrapped__")]))
"""


def test_a_client_is_instrumented_when_the_app_imports_it():
    """Until then neither the client nor what instruments it is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], True]
