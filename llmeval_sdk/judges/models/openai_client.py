"""Judge models behind the OpenAI API: OpenAI, Azure, and every server that speaks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models.clients import (
    OPENAI_URL,
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
)
from llmeval_sdk.model import Message


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
            provider. It is called once for each event loop, and again after a fork. The client
            brings its own address and credentials, and the model is named as its server does.

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
