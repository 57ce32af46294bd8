"""The recipes of `docs/how-to/judge-models.md` reach their servers as these want to be asked."""

import asyncio
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from model_servers import started

from llmeval_sdk.config import from_environment
from llmeval_sdk.judges.models import OpenAILLM, resolve
from llmeval_sdk.model import Message
from llmeval_sdk.plugins.providers import names
from llmeval_sdk.testing.judge_server import JudgeServer


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "judge-models.md"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
VARIABLES = ("LLMEVAL_JUDGE_BASE_URL", "LLMEVAL_JUDGE_API_KEY", "LLMEVAL_JUDGE_MODEL",
             "OPENAI_API_KEY", "OPENAI_BASE_URL")  # fmt: skip


def recipes(heading):
    """Return what each shell block below a heading exports."""
    section = re.search(
        rf"^### {heading}$(.*?)(?=^##)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )[1]
    blocks = re.findall(r"^```sh$(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [dict(re.findall(r"^export (\w+)=(\S+)", block, re.MULTILINE)) for block in blocks]


@pytest.fixture
def ask(monkeypatch):
    """Follow a recipe, with a loopback server in the place of its host; return what it got."""
    with started() as start:

        def following(recipe, **behaviour):
            for name in VARIABLES:
                monkeypatch.delenv(name, raising=False)
            server = start(JudgeServer(lambda chat: {"a": "b"}, **behaviour))
            host = server.base_url.removesuffix("/v1")
            for name, value in recipe.items():
                parts = urlsplit(value)
                monkeypatch.setenv(name, f"{host}{parts.path}" if parts.netloc else value)
            assert from_environment(problems=(problems := [])).judge_model
            assert problems == []
            llm = resolve()
            reply = asyncio.run(llm.complete([Message("user", "q")], schema=SCHEMA))
            assert reply.text == '{"a": "b"}'
            return server.chats

        yield following


@pytest.mark.parametrize(
    ("heading", "place", "path", "model", "key"),
    [
        ("Azure OpenAI", 0, "/openai/v1/chat/completions", "my-deployment",
         ("authorization", "Bearer the-key-of-the-resource")),
        ("Azure OpenAI", 1, "/openai/deployments/my-deployment/chat/completions", "my-deployment",
         ("api-key", "the-key-of-the-resource")),
        ("Amazon Bedrock", 0, "/openai/v1/chat/completions", "openai.gpt-oss-120b-1:0",
         ("authorization", "Bearer the-bedrock-api-key")),
        ("Ollama", 0, "/v1/chat/completions", "llama3.2", None),
        ("vLLM", 0, "/v1/chat/completions", "Qwen/Qwen3-8B",
         ("authorization", "Bearer what-vllm-serve-was-given")),
        ("llama.cpp", 0, "/v1/chat/completions", "any-name", None),
    ],
)  # fmt: skip
def test_a_recipe_works_at_the_wire(ask, heading, place, path, model, key):
    """Path, key, model and the strict schema are what the server documents."""
    (request,) = ask(recipes(heading)[place])
    assert request.path == path
    assert request.body["model"] == model
    assert request.body["response_format"]["json_schema"]["strict"] is True
    if key is not None:
        assert request.headers[key[0]] == key[1]


@pytest.mark.parametrize("behaviour", ["schema_500", "json_object_only", "text_only", "tool_only"])
def test_a_server_without_strict_schemas_is_asked_in_another_way(ask, behaviour):
    """As releases of llama.cpp and Ollama differ in what they take."""
    assert 2 <= len(ask(recipes("llama.cpp")[0], default=behaviour)) <= 4


def test_azure_s_older_way_names_its_version(monkeypatch):
    """In the query, which the page says how to change."""
    llm = OpenAILLM("azure/d", base_url="https://r.openai.azure.com", api_key="k")
    assert llm._clients._api_version == "2024-10-21"


def test_ollama_of_this_host_needs_one_line(monkeypatch):
    """Its name alone leads to the address that Ollama listens at."""
    with started() as start:
        server = start(JudgeServer(lambda chat: {"a": "b"}))
        monkeypatch.setattr(names, "OLLAMA_URL", server.base_url)
        monkeypatch.delenv("LLMEVAL_JUDGE_BASE_URL", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
        asyncio.run(resolve("ollama/llama3.2").complete([Message("user", "q")]))
        assert server.chats[0].body["model"] == "llama3.2"
        assert "sk-openai" not in str(server.chats[0].headers)
