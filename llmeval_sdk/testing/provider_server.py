"""Judge models in the wires of Anthropic and Google, over real HTTP on the loopback interface.

    with AnthropicServer() as server:
        llm = AnthropicLLM("stand-in", base_url=server.base_url, api_key="none")

They answer as `judge_server.JudgeServer` does, by the rules of the stand-in, and behave in the same
ways; a script may also hold a `ServedAnswer` to be sent as it is.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from llmeval_sdk.testing.judge_server import (
    MODEL,
    Answer,
    Behaviour,
    JudgeServer,
    ReceivedRequest,
    ServedAnswer,
    behave,
    completion,
    stand_in,
)


__all__ = ["AnthropicServer", "GoogleServer", "ServedAnswer"]

_BY_TRANSPORT = ("slow", "drip", "hang", "reset")
"""Behaviours that are about how an answer is sent."""


class _ProviderServer(JudgeServer):
    """What both wires share; takes the arguments of `JudgeServer`."""

    key_headers: ClassVar[Mapping[str, str]]
    """The headers that a key may come in, each with what stands before it."""
    failures: ClassVar[Mapping[str, tuple[int, str, str]]]
    """The status, the type and the message of an error, by behaviour."""

    def __init__(
        self,
        answer: Answer = stand_in,
        *,
        script: Iterable[Behaviour | Answer | ServedAnswer] = (),
        **options: Any,
    ) -> None:
        super().__init__(answer, **options)
        self.scripted: deque[Behaviour | Answer | ServedAnswer] = deque(script)

    @property
    def base_url(self) -> str:
        """Address for a client, ``http://127.0.0.1:<port>``."""
        return super().base_url.removesuffix("/v1")

    @property
    def chats(self) -> list[ReceivedRequest]:
        """The requests for an answer, in the order in which they came."""
        return [request for request in list(self.requests) if self._is_chat(request.path)]

    def reply(self, request: ReceivedRequest) -> ServedAnswer:
        """Decide what one request gets."""
        sent = {
            request.headers.get(header, "").removeprefix(before)
            for header, before in self.key_headers.items()
        }
        if self.key is not None and self.key not in sent:
            return self.error("unauthorized")
        if request.path.endswith("/models"):
            return ServedAnswer(200, json.dumps(self._models()).encode())
        if not self._is_chat(request.path):
            return self.error("not_found")
        entry = self.scripted.popleft() if self.scripted else self.default
        if isinstance(entry, ServedAnswer):
            return entry
        if callable(entry):
            return self._answered("good", request.body, entry)
        return self._answered(entry, request.body, self.answer)

    def error(self, behaviour: str) -> ServedAnswer:
        """Build an error as the provider spells it."""
        status, kind, message = self.failures[behaviour]
        headers = {"Retry-After": f"{self.retry_after:g}"} if status == 429 else {}
        return ServedAnswer(
            status, json.dumps(self._error(status, kind, message)).encode(), headers
        )

    def _answered(self, behaviour: str, body: Mapping[str, object], answer: Answer) -> ServedAnswer:
        chat = self._chat(body)
        is_strict = "response_format" in chat
        if behaviour in self.failures:
            return self.error(behaviour)
        if behaviour in ("redirect", "html"):
            return behave(behaviour, chat, answer, self.retry_after)
        if behaviour == "text_only" and is_strict:
            return self.error("no_schema")
        replied = completion(chat, answer)
        text = str(replied["choices"][0]["message"]["content"])
        if behaviour == "malformed":
            text = "I would say that this looks fine."
        if behaviour == "truncated":
            text = text[:12]
        message = self._message(text, behaviour, replied["usage"])
        manner: Any = behaviour if behaviour in _BY_TRANSPORT else "at once"
        return ServedAnswer(200, json.dumps(message).encode(), manner=manner)

    @abstractmethod
    def _is_chat(self, path: str) -> bool: ...

    @abstractmethod
    def _models(self) -> dict[str, object]: ...

    @abstractmethod
    def _error(self, status: int, kind: str, message: str) -> dict[str, object]: ...

    @abstractmethod
    def _chat(self, body: Mapping[str, object]) -> dict[str, object]:
        """Return the request as a chat completion request, which answers are decided by."""

    @abstractmethod
    def _message(
        self, text: str, behaviour: str, usage: Mapping[str, int]
    ) -> dict[str, object]: ...


class AnthropicServer(_ProviderServer):
    """Serves ``/v1/messages`` and ``/v1/models`` while it is entered."""

    stands_in_for = "Anthropic's API"
    key_headers: ClassVar = {"authorization": "Bearer ", "x-api-key": ""}
    failures: ClassVar = {
        "rate_limited": (429, "rate_limit_error", "This request would exceed your rate limit."),
        "error": (500, "api_error", "Internal server error"),
        "unavailable": (529, "overloaded_error", "Overloaded"),
        "unauthorized": (401, "authentication_error", "invalid x-api-key"),
        "not_found": (404, "not_found_error", "model: no-such-model"),
        "bad_request": (
            400,
            "invalid_request_error",
            "prompt is too long: 210009 tokens > 200000 maximum",
        ),
        "no_schema": (
            400,
            "invalid_request_error",
            "This model does not support output_config.format.",
        ),
    }

    def _is_chat(self, path: str) -> bool:
        return path == "/v1/messages"

    def _models(self) -> dict[str, object]:
        return {"data": [{"type": "model", "id": MODEL}], "has_more": False}

    def _error(self, status: int, kind: str, message: str) -> dict[str, object]:
        error = {"type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": "req_stand_in"}

    def _chat(self, body: Mapping[str, Any]) -> dict[str, object]:
        system = "".join(f"{block['text']}\n\n" for block in body.get("system", ()))
        turns = [{"role": "system", "content": system}, *body["messages"]]
        wanted = (body.get("output_config") or {}).get("format")
        return _as_chat(turns, wanted["schema"] if wanted else None)

    def _message(self, text: str, behaviour: str, usage: Mapping[str, int]) -> dict[str, object]:
        stopped = {"refusal": "refusal", "filtered": "refusal", "truncated": "max_tokens"}
        reason = stopped.get(behaviour, "end_turn")
        content = [] if reason == "refusal" else [{"type": "text", "text": text}]
        return {
            "id": "msg_stand_in",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }


class GoogleServer(_ProviderServer):
    """Serves ``/v1beta/models/<model>:generateContent`` and ``/v1beta/models``."""

    stands_in_for = "Google's API"
    key_headers: ClassVar = {"x-goog-api-key": ""}
    failures: ClassVar = {
        "rate_limited": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."),
        "error": (500, "INTERNAL", "An internal error has occurred."),
        "unavailable": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "unauthorized": (
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
        ),
        "not_found": (
            404,
            "NOT_FOUND",
            "models/no-such-model is not found for API version v1beta.",
        ),
        "bad_request": (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed.",
        ),
        "no_schema": (400, "INVALID_ARGUMENT", "JSON mode is not enabled for this model."),
    }

    def _is_chat(self, path: str) -> bool:
        return path.endswith(":generateContent")

    def _models(self) -> dict[str, object]:
        return {"models": [{"name": f"models/{MODEL}"}]}

    def _error(self, status: int, kind: str, message: str) -> dict[str, object]:
        return {"error": {"code": status, "message": message, "status": kind}}

    def _chat(self, body: Mapping[str, Any]) -> dict[str, object]:
        instruction = (body.get("systemInstruction") or {}).get("parts", ())
        turns = [{"role": "system", "content": _text_of(instruction)}]
        turns += [
            {"role": turn.get("role", "user"), "content": _text_of(turn["parts"])}
            for turn in body["contents"]
        ]
        return _as_chat(turns, body.get("generationConfig", {}).get("responseJsonSchema"))

    def _message(self, text: str, behaviour: str, usage: Mapping[str, int]) -> dict[str, object]:
        counts = {
            "promptTokenCount": usage["prompt_tokens"],
            "candidatesTokenCount": usage["completion_tokens"],
            "totalTokenCount": usage["total_tokens"],
        }
        about = {"usageMetadata": counts, "modelVersion": MODEL, "responseId": "stand-in"}
        if behaviour == "filtered":
            return {"promptFeedback": {"blockReason": "SAFETY"}, **about}
        stopped = {"refusal": "SAFETY", "truncated": "MAX_TOKENS"}
        candidate: dict[str, object] = {"finishReason": stopped.get(behaviour, "STOP"), "index": 0}
        if behaviour != "refusal":
            candidate["content"] = {"role": "model", "parts": [{"text": text}]}
        return {"candidates": [candidate], **about}


def _as_chat(turns: Sequence[Mapping[str, object]], schema: object) -> dict[str, object]:
    chat: dict[str, object] = {"messages": turns}
    if schema is not None:
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return chat


def _text_of(parts: Iterable[Mapping[str, object]]) -> str:
    return "\n".join(str(part.get("text") or "") for part in parts)
