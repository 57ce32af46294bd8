"""`llmeval doctor` and estimates of costs know the models of Anthropic and Google."""

import os

import pytest
from command_line import run_command

from llmeval_sdk.cli import doctor as _judge_provider
from llmeval_sdk.cli.doctor import _judge
from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.offline import estimate_cost
from llmeval_sdk.plugins.providers import AnthropicLLM


KEY = "key-of-provider-0123456789"
CLEAN = ("ANTHROPIC_", "GOOGLE_", "GEMINI_")


def doctor(tmp_path, *arguments, **environment):
    env = {"LLMEVAL_STORE": str(tmp_path / "s.db"), "COLUMNS": "200", **environment}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(CLEAN)]:
            patch.delenv(name)
        done = run_command("doctor", "--all", *arguments, folder=tmp_path, env=env)
    assert KEY not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("provider", "name", "key", "url"),
    [
        ("anthropic", "anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("google", "google/gemini-2.5-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_the_doctor_asks_the_provider(serve, tmp_path, provider, name, key, url):
    """The server is reached with its own key, a wrong one is told, and the price is known."""
    server = serve(provider, key=KEY)
    known = {"LLMEVAL_JUDGE_MODEL": name, url: server.base_url}
    done = doctor(tmp_path, **known, **{key: KEY})
    assert done.returncode == 0, done.stdout
    assert f"{server.base_url}/v1" in done.stdout
    assert "HTTP 200" in done.stdout
    assert "asked with a key" in done.stdout
    assert "out per million tokens" in done.stdout
    wrong = doctor(tmp_path, **known, **{key: "wrong"})
    assert wrong.returncode == 1
    assert "the key is refused" in wrong.stdout


def test_the_doctor_says_what_is_missing(tmp_path, monkeypatch):
    """A key, a client, or the whole way; with the line that helps."""
    done = doctor(tmp_path, "--offline", LLMEVAL_JUDGE_MODEL="anthropic/m", OPENAI_API_KEY="sk-x")
    assert "set ANTHROPIC_API_KEY" in done.stdout
    done = doctor(tmp_path, "--offline", LLMEVAL_JUDGE_MODEL="bedrock/m")
    assert done.returncode == 1
    assert "bedrock-runtime" in done.stdout
    monkeypatch.setattr(AnthropicLLM, "is_installed", classmethod(lambda cls: False))
    settings = Settings(judge_model="anthropic/m", judge_api_key=Secret(KEY))
    words = [finding.words for finding in _judge(settings, offline=True)]
    assert "not installed: pip install 'llmeval-inprocess[anthropic]'" in words
    assert _judge_provider.judge_provider("gpt-4o", settings) is None


def test_costs_are_estimated_without_a_key(monkeypatch):
    """Nothing is asked, so that nothing is needed but the name."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "LLMEVAL_JUDGE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    rows = [{"request": "What?", "response": "That."}]
    estimated = estimate_cost(rows, evaluators=["safety"], llm="anthropic/claude-haiku-4-5")
    assert estimated.cost_usd is not None
    assert estimated.cost_usd > 0
