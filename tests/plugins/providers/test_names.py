"""Names of judge models: what is reached from the environment alone, and what is refused how."""

import subprocess
import sys

import pytest

import llmeval_sdk
from llmeval_sdk.config import Secret, Settings, from_environment
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.evaluation.models import configured_model
from llmeval_sdk.judges.models import OpenAILLM, resolve
from llmeval_sdk.plugins.providers import AnthropicLLM, GoogleLLM
from llmeval_sdk.testing import capture


KEYS = ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY",
        "LLMEVAL_JUDGE_API_KEY", "OPENAI_BASE_URL", "LLMEVAL_JUDGE_BASE_URL", "LLMEVAL_JUDGE_MODEL",
        "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "variable", "kind", "model"),
    [
        ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY", AnthropicLLM, "claude-haiku-4-5"),
        ("google/gemini-2.5-flash", "GEMINI_API_KEY", GoogleLLM, "gemini-2.5-flash"),
        ("gemini/gemini-2.5-flash", "GOOGLE_API_KEY", GoogleLLM, "gemini-2.5-flash"),
    ],
)
def test_a_name_and_the_provider_s_own_key_are_enough(monkeypatch, name, variable, kind, model):
    """The environment alone reaches the model."""
    monkeypatch.setenv(variable, "key-of-provider")
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", name)
    llm = resolve()
    assert type(llm) is kind
    assert (llm.model, llm._key.reveal()) == (model, "key-of-provider")
    assert llm.base_url.startswith("https://")


def test_a_key_for_judges_that_was_given_in_code_is_used_beside_the_one_for_openai(monkeypatch):
    """Also before the provider's own."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-app")
    settings = from_environment(
        judge_model="anthropic/claude-haiku-4-5", judge_api_key="for-judges"
    )
    assert configured_model(None, settings)._key.reveal() == "for-judges"


def test_the_key_for_openai_goes_to_openai_only(monkeypatch):
    """Neither Anthropic nor Google is ever sent it; a key for judges is, and comes first."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        resolve("anthropic/claude-haiku-4-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-anthropic")
    assert resolve("anthropic/claude-haiku-4-5")._key.reveal() == "of-anthropic"
    monkeypatch.setenv("LLMEVAL_JUDGE_API_KEY", "of-judges")
    assert resolve("anthropic/claude-haiku-4-5")._key.reveal() == "of-judges"


def test_a_key_alone_starts_nothing(monkeypatch):
    """P7: without a name no judge is asked, whatever keys are there."""
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "k")
    with capture(evaluators=["safety"]) as seen:
        with llmeval_sdk.workflow("answer", request="q") as span:
            span.response = "a"
        seen.drain()
        assert seen.reasons()["safety"] == "no_judge_model"
    assert from_environment(problems=[]).judge_model is None


def test_a_base_url_wins(monkeypatch):
    """A gateway knows the names that it is sent, and gets them as they are."""
    settings = Settings(judge_base_url="https://gateway.example/v1", judge_api_key=Secret("k"))
    for name in ("anthropic/claude-haiku-4-5", "bedrock/x", "openrouter/auto"):
        llm = resolve(name, settings=settings)
        assert type(llm) is OpenAILLM
        assert (llm.model, llm.base_url) == (name, "https://gateway.example/v1")


def test_ollama_is_asked_where_it_listens():
    """It needs neither an address nor a key."""
    llm = resolve("ollama/llama3.2")
    assert (llm.model, llm.base_url) == ("llama3.2", "http://127.0.0.1:11434/v1")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bedrock/openai.gpt-oss-120b-1:0",
         r"bedrock-runtime\.<region>\.amazonaws\.com/openai/v1.*'openai\.gpt-oss-120b-1:0'"),
        ("vertex_ai/gemini-2.5-pro", "vertexai=True.*google/gemini-2.5-pro"),
        ("openrouter/anthropic/claude-haiku-4-5",
         "https://openrouter.ai/api/v1.*'anthropic/claude-haiku-4-5'"),
        ("openrouter/auto", "'openrouter/auto'$"),
        ("together/m", "https://api.together.xyz/v1.*'m'"),
        ("perplexity/sonar", "https://api.perplexity.ai,"),
        ("bedrock_converse/us.anthropic.claude-haiku-4-5-v1:0", "AsyncAnthropicBedrock"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "AsyncAnthropicVertex"),
        ("groq/llama-3.3-70b-versatile", "https://api.groq.com/openai/v1.*'llama-3.3-70b-versatile'"),
        ("mistral/mistral-large-latest", "https://api.mistral.ai/v1"),
        ("litellm/anything", "LITELLM|LiteLLM proxy"),
        ("hosted_vllm/Qwen/Qwen3", "http://<host>:8000/v1.*'Qwen/Qwen3'"),
        ("llama_cpp/m", "http://<host>:8080/v1"),
        ("azure/judge", "https://<resource>.openai.azure.com"),
        ("nobody/knows", "LLMEVAL_JUDGE_BASE_URL"),
        ("anthropic/", "provider/model"),
    ],
)  # fmt: skip
def test_other_names_are_refused_with_the_way_that_works(monkeypatch, name, says):
    """Where a person is watching: at `configure()`; from the environment it is a problem told."""
    with pytest.raises(ConfigurationError, match=says):
        llmeval_sdk.configure(llm=name, exporters=["memory"])
    with pytest.raises(ConfigurationError, match=says):
        resolve(name, settings=Settings(judge_api_key=Secret("k")))


def test_a_name_of_the_environment_is_reported_not_raised(monkeypatch, caplog):
    """An app starts whatever stands in its environment."""
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "bedrock/x")
    with capture(evaluators=["safety"]) as seen:
        with llmeval_sdk.workflow("answer", request="q") as span:
            span.response = "a"
        seen.drain()
        assert seen.reasons()["safety"] == "no_judge_model"
    assert "LLMEVAL_JUDGE_MODEL: the judge model 'bedrock/x'" in caplog.text


@pytest.mark.parametrize(
    ("name", "kind", "extra"),
    [("anthropic/m", AnthropicLLM, "anthropic"), ("google/m", GoogleLLM, "google")],
)
def test_without_the_client_the_extra_is_named(monkeypatch, name, kind, extra):
    """And no other model is asked in its place."""
    monkeypatch.setattr(kind, "is_installed", classmethod(lambda cls: False))
    settings = Settings(judge_model=name, judge_api_key=Secret("k"))
    with pytest.raises(MissingExtraError, match=rf"llmeval-inprocess\[{extra}\]") as caught:
        configured_model(None, settings)
    assert caught.value.extra == extra


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "https://u:secret-word@x.example"])
def test_addresses_are_checked(url):
    """As those of OpenAI-compatible servers are; no credentials are repeated."""
    with pytest.raises(ConfigurationError, match=r"ANTHROPIC_API_KEY|link-local") as caught:
        AnthropicLLM("m", base_url=url, api_key="k")
    assert "secret-word" not in str(caught.value)


def test_no_client_is_imported_before_a_model_is_asked():
    """Neither by the package nor by a model that was only made."""
    code = (
        "import sys, llmeval_sdk\n"
        "assert 'llmeval_sdk.plugins.providers' not in sys.modules\n"
        "from llmeval_sdk.plugins.providers import AnthropicLLM, GoogleLLM\n"
        "AnthropicLLM('m', api_key='k'); GoogleLLM('m', api_key='k')\n"
        "assert not {'anthropic', 'google.genai', 'httpx2'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
