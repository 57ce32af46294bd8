"""The judge model that asks Google's API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from llmeval_sdk.config import Secret
from llmeval_sdk.judges.models.clients import Role, bounded_client, http_library, unobserved
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


_BLOCKED = frozenset((
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
    "ESCALATION", "PUP_LIMITED_DISABLED",
))  # fmt: skip
"""Reasons to stop that mean that a filter took the answer away."""
_CUT = frozenset(("MAX_TOKENS", "CONTINUATION"))
_CALM = re.compile(r"(models/)?gemini-[12]\b")
"""Models that are asked at temperature 0. From Gemini 3 on, Google advises to leave it alone."""


class GoogleLLM(ProviderLLM):
    """A judge model of Google, by the package ``google-genai`` (extra ``google``).

    A verdict is asked for by a strict schema (``response_json_schema``), and in words where a model
    does not take one. Google caches repeated prompts by itself; what its cache had costs less.

    Args:
        model: The model as Google names it, such as ``gemini-2.5-flash``.
        base_url: Another server that speaks the same API.
        api_key: The key; it is never shown. Without address and key, both come from the environment
            (``GOOGLE_GEMINI_BASE_URL``, ``GOOGLE_API_KEY`` or ``GEMINI_API_KEY``).
        timeout: Seconds that one `complete` may take, all its attempts and waits together.
        attempts: How often one request is tried when it fails for a passing reason: no connection,
            no answer in time, 429, 5xx. The client's own retries are off.
        request_timeout: Seconds that one attempt may take; by default the rest of ``timeout``.
        backoff: The upper bound in seconds of the first random wait between attempts; it doubles
            with each attempt.
        parameters: Further fields of the ``GenerateContentConfig`` of each request, such as
            ``{"thinking_config": {"thinking_level": "low"}}``.
        thinking_tokens: Room for what the model thinks, on top of the tokens of its answer.
        prices: Own prices by model, as ``configure(prices=…)`` takes them; by default those of
            ``LLMEVAL_PRICES``.
        client: Makes a ``google.genai.Client`` of your own, such as one of Vertex AI, one for each
            event loop. It brings its own address and credentials.

    Raises:
        ConfigurationError: There is no key, or the address cannot be used.
        MissingExtraError: The package ``google-genai`` is not installed.
    """

    role = Role("judge", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY or GEMINI_API_KEY")
    extra = "google"
    package = "google-genai"
    models_path = "/v1beta"
    key_header = ("x-goog-api-key", "")
    further_headers: ClassVar = {}
    key_refusals = (400, 401, 403)

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the package ``google-genai`` is installed."""
        return find_spec("google") is not None and find_spec("google.genai") is not None

    @classmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address of the environment."""
        return settings.google_api_key, settings.google_base_url

    def _open(self) -> OpenClient:
        from google import genai

        if self._own_client is not None:
            client = self._own_client()
            return OpenClient(client.aio, client.aio.aclose)
        http = bounded_client(http_library(genai), self.base_url)
        client = genai.Client(
            vertexai=False,
            api_key=self._key.reveal() if self._key is not None else None,
            http_options=genai.types.HttpOptions(base_url=self.base_url, httpx_async_client=http),
        )
        return OpenClient(client.aio, http.aclose)

    def _body(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        most: int,
        *,
        calm: bool,
    ) -> dict[str, Any]:
        config: dict[str, Any] = {"max_output_tokens": most}
        system, turns = divided(messages)
        if system:
            config["system_instruction"] = system
        if calm and _CALM.match(self.model):
            config["temperature"] = 0
        config.update(self.parameters)
        if schema is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = dict(schema)
        contents = [
            {
                "role": "model" if turn.role == "assistant" else "user",
                "parts": [{"text": turn.content}],
            }
            for turn in turns
        ]
        return {"model": self.model, "contents": contents, "config": config}

    async def _send(self, client: Any, body: Mapping[str, Any], seconds: float) -> ProviderReply:
        from google.genai import types

        try:
            config = types.GenerateContentConfig.model_validate(body["config"])
        except ValueError as error:
            why = " ".join(str(error).split())[:300]
            raise CallFailed("bad_request", f"GoogleLLM(parameters=…): {why}") from None
        with unobserved():
            answer = await client.models.generate_content(
                model=body["model"], contents=body["contents"], config=config
            )
        return _read(answer)


def _read(answer: Any) -> ProviderReply:
    """Read an answer. Without a candidate it has no text; a blocked prompt makes it a refusal."""
    counts = getattr(answer, "usage_metadata", None)
    given = tokens_of(counts, "prompt_token_count") + tokens_of(
        counts, "tool_use_prompt_token_count"
    )
    written = tokens_of(counts, "candidates_token_count") + tokens_of(
        counts, "thoughts_token_count"
    )
    reply = ProviderReply(
        "",
        str(getattr(answer, "model_version", None) or ""),
        Usage(given, written, max(given + written, tokens_of(counts, "total_token_count"))),
        {"cache_read_input_tokens": tokens_of(counts, "cached_content_token_count")},
        "stop",
    )
    candidates = getattr(answer, "candidates", None)
    if not candidates:
        feedback = getattr(answer, "prompt_feedback", None)
        is_blocked = bool(_name(getattr(feedback, "block_reason", None)))
        return reply._replace(finish_reason="refusal") if is_blocked else reply
    ended = _name(getattr(candidates[0], "finish_reason", None))
    parts = getattr(getattr(candidates[0], "content", None), "parts", None) or ()
    texts = (part.text for part in parts if not getattr(part, "thought", None))
    finish_reason = "refusal" if ended in _BLOCKED else "length" if ended in _CUT else "stop"
    text = "".join(text for text in texts if isinstance(text, str))
    return reply._replace(text=text, finish_reason=finish_reason)


def _name(reason: Any) -> str:
    return str(getattr(reason, "value", reason) or "")
