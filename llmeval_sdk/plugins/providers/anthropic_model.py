"""The judge model that asks Anthropic's API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models.clients import Role, bounded_client, unobserved
from llmeval_sdk.judges.models.failures import CallFailed
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.plugins.providers.model import (
    OpenClient,
    ProviderLLM,
    ProviderReply,
    divided,
    tokens_of,
)
from llmeval_sdk.plugins.providers.settings import ProviderSettings


_FINISHED = {
    "refusal": "refusal",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""What Anthropic's reasons to stop are called here; any other one is ``stop``."""
_UNTRACED = {"traces": {"enabled": False}, "propagation": False}


class AnthropicLLM(ProviderLLM):
    """A judge model of Anthropic, by the package ``anthropic`` (extra ``anthropic``).

    A verdict is asked for by a strict schema (``output_config.format``), and in words where a model
    does not take one. The stable part of the system message, such as a judge's rubric and examples,
    is marked for Anthropic's prompt cache.

    Args:
        model: The model as Anthropic names it, such as ``claude-haiku-4-5``.
        base_url: Another server that speaks the same API.
        api_key: The key; it is never shown. Without address and key, both come from the environment
            (``ANTHROPIC_BASE_URL``, ``ANTHROPIC_API_KEY``).
        timeout: Seconds that one `complete` may take, all its attempts and waits together.
        attempts: How often one request is tried when it fails for a passing reason: no connection,
            no answer in time, 429, 5xx. The client's own retries are off.
        request_timeout: Seconds that one attempt may take; by default the rest of ``timeout``.
        backoff: The upper bound in seconds of the first random wait between attempts; it doubles
            with each attempt.
        parameters: Further fields of each request, such as
            ``{"output_config": {"effort": "low"}}``.
        thinking_tokens: Room for what the model thinks, on top of the tokens of its answer.
        prices: Own prices by model, as ``configure(prices=…)`` takes them; by default those of
            ``LLMEVAL_PRICES``.
        client: Makes an ``AsyncAnthropic`` of your own, such as ``AsyncAnthropicVertex``, one for
            each event loop. It brings its own address and key.
        cache: Whether the stable part of the system message is marked for the prompt cache.

    No temperature is sent: since October 2026 Anthropic's API refuses it.

    Raises:
        ConfigurationError: There is no key, or the address cannot be used.
        MissingExtraError: The package ``anthropic`` is not installed.
    """

    role = Role("judge", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
    extra = "anthropic"
    package = "anthropic"
    models_path = "/v1"
    key_header = ("Authorization", "Bearer ")
    further_headers: ClassVar = {"anthropic-version": "2026-10-21"}

    def __init__(self, model: str, *, cache: bool = True, **options: Any) -> None:
        super().__init__(model, **options)
        if not isinstance(self.parameters.get("output_config", {}), Mapping):
            raise ConfigurationError("parameters['output_config'] must be a mapping")
        self.cache = cache

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the package ``anthropic`` is installed."""
        return find_spec("anthropic") is not None

    @classmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address of the environment."""
        return settings.anthropic_api_key, settings.anthropic_base_url

    def _open(self) -> OpenClient:
        import anthropic

        if self._own_client is not None:
            client = self._own_client()
            return OpenClient(client, client.close)
        import httpx2

        client = anthropic.AsyncAnthropic(
            api_key=self._key.reveal() if self._key is not None else None,
            base_url=self.base_url,
            max_retries=0,
            http_client=bounded_client(httpx2, self.base_url),
            open_telemetry=_UNTRACED,  # type: ignore[arg-type]
        )
        return OpenClient(client, client.close)

    def _body(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        most: int,
        *,
        calm: bool,
    ) -> dict[str, Any]:
        system, turns = divided(messages)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": most,
            "messages": [{"role": turn.role, "content": turn.content} for turn in turns],
        }
        if system:
            body["system"] = self._system(system)
        body.update(self.parameters)
        if schema is not None:
            strict = {"type": "json_schema", "schema": _transformed(schema)}
            body["output_config"] = {**body.get("output_config", {}), "format": strict}
        return body

    def _system(self, text: str) -> list[dict[str, Any]]:
        """Split a system message for the cache.

        The last paragraph of our prompts holds the random boundary of the call; what stands before
        it is the same in each call of a judge.
        """
        stable, _, rest = text.rpartition("\n\n")
        if not (self.cache and stable.strip() and rest.strip()):
            return [{"type": "text", "text": text}]
        return [
            {"type": "text", "text": stable, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": rest},
        ]

    async def _send(self, client: Any, body: Mapping[str, Any], seconds: float) -> ProviderReply:
        import httpx2

        # Not `messages.create`: what traces an app's calls would take those of its judges for them.
        with unobserved():
            response = await client.post(
                "/v1/messages",
                cast_to=httpx2.Response,
                body=dict(body),
                options={"max_retries": 0, "timeout": seconds},
            )
        return _read(json.loads(response.content))


def _transformed(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a schema into the part of JSON schema that the strict mode takes."""
    from anthropic import transform_schema

    try:
        return transform_schema(dict(schema))
    except (ValueError, TypeError, AssertionError, AttributeError):
        return schema  # the server says what is wrong with it, and it is asked in words


def _read(message: Any) -> ProviderReply:
    """Read a message.

    Raises:
        CallFailed: ``malformed``, where it is no message at all.
    """
    blocks = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(blocks, list):
        raise CallFailed("malformed", "the server's answer is not a message")
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    counts = message.get("usage")
    had = tokens_of(counts, "cache_read_input_tokens")
    kept = tokens_of(counts, "cache_creation_input_tokens")
    given = tokens_of(counts, "input_tokens") + had + kept
    written = tokens_of(counts, "output_tokens")  # with the thoughts
    return ProviderReply(
        "".join(text for text in texts if isinstance(text, str)),
        str(message.get("model") or ""),
        Usage(given, written, given + written),
        {"cache_read_input_tokens": had, "cache_write_input_tokens": kept},
        _FINISHED.get(str(message.get("stop_reason")), "stop"),
    )
