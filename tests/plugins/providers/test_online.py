"""Online judges of Anthropic and Google, from the environment alone, within the budget."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.providers import AnthropicLLM
from llmeval_sdk.testing import capture


KEY = "key-marker-9f2c71"
VERDICT = {"rationale": "stand-in: because", "rating": "no"}


def one_request(seen):
    with llmeval.workflow("answer", request="What?") as span:
        span.response = "That."
    seen.drain()


@pytest.mark.parametrize(
    ("provider", "name", "key", "url"),
    [
        ("anthropic", "anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("google", "google/gemini-2.5-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_the_environment_alone_judges(serve, monkeypatch, provider, name, key, url):
    """A name and a key; the verdict, its cost and the model that gave it are kept."""
    server = serve(provider, key=KEY, answer=lambda chat: VERDICT)
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "LLMEVAL_JUDGE_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", name)
    monkeypatch.setenv(key, KEY)
    monkeypatch.setenv(url, server.base_url)
    with capture(evaluators=["safety"]) as seen:
        one_request(seen)
        verdict = seen.scores()["safety"]
    assert verdict.error is None
    assert verdict.usage.cost_usd > 0
    assert server.calls == 1


def test_thoughts_are_reserved_from_the_budget(serve):
    """What a model may think is paid for, so that it has to fit before it is asked."""
    server = serve("anthropic", answer=lambda chat: VERDICT)

    def reasons(thinking_tokens):
        llm = AnthropicLLM(
            "m", base_url=server.base_url, api_key=KEY, thinking_tokens=thinking_tokens
        )
        budget = llmeval.Budget(tokens_per_minute=20_000)
        with capture(llm=llm, evaluators=["safety"], budget=budget) as seen:
            one_request(seen)
            return seen.reasons().get("safety")

    assert reasons(50_000) == "over_budget"
    assert server.calls == 0
    assert reasons(0) is None
    assert server.calls == 1
