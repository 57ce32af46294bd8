"""Judge models behind the OpenAI API: OpenAI, Azure, and every server that speaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.judges.models.clients import Clients, HasClients, access, endpoint
from llmeval_sdk.judges.models.failures import CallFailed
from llmeval_sdk.judges.models.prices import Prices
from llmeval_sdk.judges.models.sending import Call, CallUsage, Sender, dialect
from llmeval_sdk.model import Completion, Message
from llmeval_sdk.model.protocols import LLM


class OpenAILLM(HasClients[Clients], LLM):
    """A judge model that is reached by chat completions.

    Args:
        model: ``model`` or ``provider/model`` (``openai/…``, ``azure/<deployment>``); with a base
            URL of another server, the name as that server knows it.
        base_url: Any OpenAI-compatible server, or the Azure resource.
        api_key: The key that is sent to that server; it is never shown. Without address and key,
            both come from the environment (``LLMEVAL_JUDGE_BASE_URL``, ``OPENAI_API_KEY`` …).
        timeout: Seconds that one `complete` may take, all its attempts and waits together.
        attempts: How often one request is tried when it fails for a passing reason: no connection,
            no answer in time, 429, 5xx.
        request_timeout: Seconds that one attempt may take; by default the rest of ``timeout``.
        backoff: The upper bound in seconds of the first random wait between attempts; it doubles
            with each attempt.
        parameters: Further fields of each request, such as ``{"reasoning_effort": "low"}``.
        prices: Own prices by model, as ``configure(prices=…)`` takes them; by default those of
            the environment.
        api_version: The version of Azure's API.

    Raises:
        ConfigurationError: The model or the address cannot be used; the message says what to set.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Secret | str | None = None,
        timeout: float = 60.0,
        attempts: int = 3,
        request_timeout: float | None = None,
        backoff: float = 0.5,
        parameters: Mapping[str, Any] | None = None,
        prices: Prices | None = None,
        api_version: str | None = None,
    ) -> None:
        base_url, self._key = access(base_url, api_key)
        self._endpoint = endpoint(model, base_url)
        self._name = model
        self.model = self._endpoint.model
        self.timeout = timeout
        self.attempts = attempts
        self.request_timeout = request_timeout
        self.backoff = backoff
        self.parameters = dict(parameters or {})
        self._prices = from_environment(problems=[]).prices if prices is None else prices
        self._api_version = api_version
        self._clients = Clients(self._endpoint, self._key, api_version=api_version)

    def __repr__(self) -> str:
        return f"OpenAILLM({self.model!r}, base_url={self._endpoint.base_url!r})"

    @property
    def base_url(self) -> str:
        """Where requests go."""
        return self._endpoint.base_url

    def address(self) -> dict[str, Any]:
        """Return the arguments that make the same client in another process, its key in clear."""
        return {
            "model": self._name,
            "base_url": self.base_url,
            "api_key": self._key.reveal() if self._key is not None else None,
            "parameters": self.parameters,
            "prices": self._prices,
            "api_version": self._api_version,
        }

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer a chat, as one JSON object where a schema is given.

        Usage is the sum over all requests that this took, with the price of input that a cache
        had or keeps.

        Raises:
            JudgeError: ``timeout``, ``rate_limited``, ``unavailable``, ``unauthorized``,
                ``not_found``, ``too_long``, ``bad_request``, ``refused``, ``truncated`` or
                ``malformed``.
        """
        known = dialect(self.base_url, self.model)
        known.refresh()
        call = Call(
            sender=Sender(
                post=self._post,
                deadline=asyncio.get_running_loop().time() + self.timeout,
                attempts=self.attempts,
                backoff=self.backoff,
                request_timeout=self.request_timeout,
            ),
            messages=messages,
            schema=schema,
            max_tokens=max_tokens,
            known=known,
            used=CallUsage(self._prices),
        )
        try:
            reply = await call.run()
        except CallFailed as error:
            failure = error.of_call(call.used.usage(self.model))
        else:
            name = reply.model or self.model
            used = call.used.usage(name, self.model)
            return Completion(reply.text, name, used, reply.finish_reason)
        raise failure  # not in the handler: the context would hold the request and its key

    async def _post(self, request: Mapping[str, Any], seconds: float) -> Any:
        body = {"model": self.model, **request, **self.parameters}
        return await self._clients.post("/chat/completions", body, seconds)
