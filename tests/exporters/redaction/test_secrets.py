"""Keys never show: not in reprs, copies, logs, the doctor's words, exceptions, exports or files."""

import copy
import logging
import pickle
import subprocess
import sys
import traceback
from dataclasses import fields, is_dataclass

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import capture


KEY = "sk-" + "never0show0this0key0anywhere"


@pytest.fixture
def key(monkeypatch):
    for name in ("OPENAI_API_KEY", "LLMEVAL_JUDGE_API_KEY", "DD_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "local")
    return KEY


def inside(value, depth=0, seen=None):
    """Yield the repr of an object and of everything its attributes lead to."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth > 6:
        return
    seen.add(id(value))
    yield repr(value)
    if isinstance(value, dict):
        children = list(value.items())
        children = [each for pair in children for each in pair]
    elif isinstance(value, (list, tuple, set, frozenset)):
        children = list(value)
    elif is_dataclass(value):
        children = [getattr(value, field.name) for field in fields(value)]
    else:
        children = list(getattr(value, "__dict__", {}).values())
    for child in children:
        yield from inside(child, depth + 1, seen)


def test_a_secret_shows_in_no_form():
    """repr, str, format, vars, copies and pickle hold no key; ``reveal`` does."""
    secret = Secret(KEY)
    shown = [
        repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", repr([secret]),
        repr(copy.copy(secret)), repr(copy.deepcopy(secret)), pickle.dumps(secret).decode("latin1"),
        repr(vars(config.Settings(judge_api_key=secret))), repr(getattr(secret, "__dict__", "")),
    ]  # fmt: skip
    assert not [each for each in shown if KEY in each]
    assert secret.reveal() == KEY


def test_nothing_the_runtime_holds_prints_a_key(key, tmp_path):
    """Settings, plan and pipeline are looked through, six levels deep."""
    llmeval.configure(llm="gpt-4o", evaluators=["safety"], spool=str(tmp_path / "spool"))
    shown = [*inside(runtime.settings()), *inside(runtime.pipeline()), *inside(llmeval.stats())]
    assert len(shown) > 50
    assert not [each for each in shown if key in each]


def test_no_log_line_and_no_export_has_a_key(key, caplog, tmp_path):
    """Even at DEBUG, with a judge that cannot be reached and a prompt that quotes the key."""
    caplog.set_level(logging.DEBUG)
    options = {"judge_base_url": "http://127.0.0.1:9/v1", "store": str(tmp_path / "s.db")}
    with capture(llm="gpt-4o", evaluators=["safety"], raise_again=False, **options) as seen:
        with llmeval.workflow("w", request=f"my key is {key}") as span:
            span.response = key
        llmeval.flush(10)
        llmeval.shutdown(2)
    assert seen.span("w").request == "my key is <redacted:api_key>"
    assert key not in caplog.text
    assert key not in repr((seen.spans, seen.evaluations, seen.not_run))


def test_an_exception_about_settings_has_no_key(key, monkeypatch):
    """A bad value in a variable that holds a key is not quoted."""
    row = next(row for row in config.rows() if row.name == "judge_api_key")
    with pytest.raises(ConfigurationError) as raised:
        config.from_environment(judge_key=key)
    assert key not in "".join(traceback.format_exception(raised.value))
    assert "OPENAI_API_KEY" in row.variables
    problems = []
    config.from_environment(problems=problems)
    assert key not in repr(problems)


def test_the_doctor_shows_no_key(key):
    """It says that one is set."""
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "doctor", "--all", "--offline"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "judge_api_key" in done.stdout or "OPENAI_API_KEY" in done.stdout
    assert key not in done.stdout + done.stderr
