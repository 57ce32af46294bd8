"""The judge models of Anthropic and Google, each by its provider's own client."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from inspect import iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.judges.models.clients import (
    OWN,
    CallFailed,
    PerLoop,
    Role,
    asked,
    bounded_client,
    check_address,
    failed,
    http_library,
    own_client,
    request_refused,
    unobserved,
)
from llmeval_sdk.judges.models.sending import (
    Body,
    Dialect,
    Reply,
    Schema,
    Step,
    VendorLLM,
    VendorOptions,
    in_words,
    tokens_of,
)
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.plugins.providers.settings import ProviderSettings


if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from google.genai import Client
    from google.genai.client import AsyncClient
    from google.genai.types import GenerateContentResponse
    from typing_extensions import Unpack


# What the answers of Anthropic and Google say of a request that failed, in our types.

_TOO_LONG = ("prompt is too long", "exceeds the maximum number of tokens")
_WRONG_KEY = ("api_key_invalid", "api key not valid", "api key expired")
_FILTERED = ("content filtering policy",)
_NO_CREDIT = ("credit balance is too low", "billing_error")
_SPENT_FOR_TODAY = ("perday", "per day")


def refused(
    status: int, headers: Mapping[str, str], body: bytes, where: str, secrets: Collection[str]
) -> CallFailed:
    """Classify an answer that is an error.

    It says more than its status: Google answers 400 to a wrong key, Anthropic 400 to an account
    without credit, and both answer 400 to a prompt that is too long.
    """
    failure = request_refused(status, headers, body, where, secrets)
    words = body[:20_000].decode(errors="replace").lower()
    if _any(_NO_CREDIT, words):
        return _as(failure, "rate_limited")
    if status == 400 and _any(_FILTERED, words):
        return _as(failure, "refused")
    if status == 400 and _any(_WRONG_KEY, words):
        return _as(failure, "unauthorized")
    if status == 400 and _any(_TOO_LONG, words):
        return _as(failure, "too_long")
    if failure.type == "rate_limited":
        failure.retryable = failure.retryable and not _any(_SPENT_FOR_TODAY, words)
        if failure.retry_after is None:
            failure.retry_after = _retry_delay(body)
    return failure


def _any(phrases: tuple[str, ...], words: str) -> bool:
    return any(phrase in words for phrase in phrases)


def _as(failure: CallFailed, reason: str) -> CallFailed:
    return CallFailed(reason, str(failure), status=failure.status)


def _retry_delay(body: bytes) -> float | None:
    """Return the wait in seconds that Google asks for, in the ``RetryInfo`` of an error's body."""
    try:
        about: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    about = about[0] if isinstance(about, list) and about else about
    error = about.get("error") if isinstance(about, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        text = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        try:
            seconds = float(str(text).removesuffix("s"))
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


# What the models of both providers share.

THINKING_TOKENS = 4096
"""Tokens that a model may think with before it answers. They count towards its limit of tokens."""


@dataclass(slots=True)
class ProviderDialect(Dialect):
    """The options that one model of a provider is known to accept."""

    has_room: bool = True
    """Whether the model accepts a limit of tokens that includes room for its thoughts."""

    def give_way(self, error: CallFailed) -> bool:
        """Stop using the option that an error complains about; return False if it names none."""
        complaint = str(error).lower()
        if self.has_room and ("max_tokens" in complaint or "max_output_tokens" in complaint):
            self.has_room = False
            return True
        if self.temperature and "temperature" in complaint:
            self.temperature = False
            return True
        return False


_Client = TypeVar("_Client")


@dataclass(frozen=True, slots=True)
class OpenClient(Generic[_Client]):
    """A provider's client, and what closes it."""

    client: _Client
    end: Callable[[], Awaitable[None]]

    async def close(self) -> None:
        """Close its connections."""
        await self.end()


class ProviderLLM(VendorLLM[PerLoop[OpenClient[_Client]]], Generic[_Client]):
    """A judge model that is reached by its provider's own client.

    Its arguments are described by the models of each provider.
    """

    steps: ClassVar[Sequence[Step]] = ("json_schema", "text")
    manner = ProviderDialect
    role: ClassVar[Role]
    extra: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    models_path: ClassVar[str]
    """Where, below the address, ``/models`` lists the models."""
    key_header: ClassVar[tuple[str, str]]
    """The header that a key is sent in, and what stands before it."""
    further_headers: ClassVar[Mapping[str, str]] = {}
    key_refusals: ClassVar[tuple[int, ...]] = (401, 403)
    """The statuses by which a wrong key is refused where the models are listed."""

    def __init__(
        self,
        model: str,
        own: Callable[[], object] | None,
        thinking_tokens: int,
        options: VendorOptions,
    ) -> None:
        if not model.strip():
            raise ConfigurationError(f"{type(self).__name__} needs the name of a model")
        if own is None and not self.is_installed():
            raise missing_extra(f"the judge model {model!r}", self.extra, self.package)
        base_url, key = options.get("base_url"), options.get("api_key")
        if base_url is None and key is None:
            settings = from_environment(problems=[])
            settings.check_readable("anthropic_base_url")
            settings.check_readable("google_base_url")
            key, base_url = self.access(settings.of(ProviderSettings))
        base_url = (base_url or self.access(ProviderSettings())[1]).rstrip("/")
        check_address(base_url, self.role)
        if own is None and key is None:
            raise ConfigurationError(
                f"the judge model {model!r} needs a key: set {self.role.api_key}"
            )
        secret = Secret(key) if isinstance(key, str) else key
        super().__init__(model.strip(), base_url, secret, own, options)
        self.thinking_tokens = thinking_tokens
        self._clients = PerLoop(self._open)
        self._classified = partial(
            failed,
            where=base_url if own is None else OWN,
            key=secret,
            package=self.module.partition(".")[0],
            refused=refused,
        )

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the package of the provider's client is installed."""
        try:
            return find_spec(cls.module) is not None
        except ModuleNotFoundError:  # there is no `google` at all
            return False

    @classmethod
    @abstractmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address that the environment has for this provider."""

    @abstractmethod
    def _open(self) -> OpenClient[_Client]:
        """Make a client for the running loop."""

    @abstractmethod
    def _request(
        self, messages: Sequence[Message], schema: Schema | None, most: int, *, calm: bool
    ) -> Body:
        """Build a request for ``most`` tokens; ``calm`` asks for the most likely words."""

    @abstractmethod
    async def _send(self, client: _Client, body: Body, seconds: float) -> Reply:
        """Send a request and read its answer; raises whatever the client raises."""

    def _body(
        self,
        step: Step | None,
        messages: Sequence[Message],
        schema: Schema | None,
        max_tokens: int,
        known: Dialect,
    ) -> Body:
        assert isinstance(known, ProviderDialect)
        most = max_tokens + (self.thinking_tokens if known.has_room else 0)
        if schema is not None and step != "json_schema":
            messages, schema = in_words(messages, schema), None
        return self._request(messages, schema, most, calm=known.temperature)

    async def _post(self, body: Body, seconds: float) -> Reply:
        return await asked(self._answer(body, seconds), seconds, self._classified)

    async def _answer(self, body: Body, seconds: float) -> Reply:
        client = (await self._clients.client()).client
        with unobserved():
            return await self._send(client, body, seconds)


def _divided(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the text of the system messages, which providers take apart, and the other turns."""
    system = "\n\n".join(turn.content for turn in messages if turn.role == "system")
    return system, [turn for turn in messages if turn.role != "system"]


# Anthropic.

_ENDINGS = {
    "refusal": "refusal",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""What Anthropic's reasons to stop are called here; any other one is ``stop``."""
_UNTRACED = {"traces": {"enabled": False}, "propagation": False}


class AnthropicLLM(ProviderLLM["AsyncAnthropic"]):
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
            each event loop. It brings its own address and key. The function must not block.
        cache: Whether the stable part of the system message is marked for the prompt cache.

    No temperature is sent: since October 2026 Anthropic's API refuses it.

    Raises:
        ConfigurationError: There is no key, or the address cannot be used.
        MissingExtraError: The package ``anthropic`` is not installed.
    """

    role = Role("judge", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
    extra = package = module = "anthropic"
    models_path = "/v1"
    key_header = ("Authorization", "Bearer ")
    further_headers: ClassVar = {"anthropic-version": "2026-10-21"}

    def __init__(
        self,
        model: str,
        *,
        cache: bool = True,
        thinking_tokens: int = THINKING_TOKENS,
        client: Callable[[], AsyncAnthropic] | None = None,
        **options: Unpack[VendorOptions],
    ) -> None:
        super().__init__(model, client, thinking_tokens, options)
        if not isinstance(self.parameters.get("output_config", {}), Mapping):
            raise ConfigurationError("parameters['output_config'] must be a mapping")
        self.cache = cache
        self._make = self._anthropic if client is None else own_client(client, _check_anthropic)

    @classmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address of the environment."""
        return settings.anthropic_api_key, settings.anthropic_base_url

    def _open(self) -> OpenClient[AsyncAnthropic]:
        client = self._make()
        return OpenClient(client, client.close)

    def _anthropic(self) -> AsyncAnthropic:
        import anthropic
        import httpx2

        assert self._key is not None  # else there is a client of the app's
        key = self._key.reveal()
        headers = {"authorization": f"Bearer {key}", "x-api-key": None}
        client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=self.base_url,
            max_retries=0,
            http_client=bounded_client(httpx2, self.base_url, headers),
            open_telemetry=_UNTRACED,  # type: ignore[arg-type]
        )
        client._custom_headers = {}  # those of ANTHROPIC_CUSTOM_HEADERS
        return client

    def _request(
        self, messages: Sequence[Message], schema: Schema | None, most: int, *, calm: bool
    ) -> Body:
        system, turns = _divided(messages)
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": most,
            "messages": [{"role": turn.role, "content": turn.content} for turn in turns],
        }
        if system:
            body["system"] = self._system(system)
        body.update(self.parameters)
        if schema is not None:
            strict = {"type": "json_schema", "schema": _transformed(schema)}
            own = self.parameters.get("output_config")
            body["output_config"] = {**(own if isinstance(own, Mapping) else {}), "format": strict}
        return body

    def _system(self, text: str) -> list[dict[str, object]]:
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

    async def _send(self, client: AsyncAnthropic, body: Body, seconds: float) -> Reply:
        import httpx2

        # Not `messages.create`: what traces an app's calls would take those of its judges for them.
        response = await client.post(
            "/v1/messages",
            cast_to=httpx2.Response,
            body=dict(body),
            options={"max_retries": 0, "timeout": seconds},
        )
        return _read_message(json.loads(response.content))


def _check_anthropic(client: AsyncAnthropic) -> None:
    """Refuse what is not a client that waits without blocking, of whichever cloud."""
    post = getattr(client, "post", None)
    if post is None or not iscoroutinefunction(unwrap(post)):
        raise CallFailed(
            "bad_request",
            "client= has to make an AsyncAnthropic, or an asynchronous client of another cloud, "
            f"such as AsyncAnthropicVertex, not {type(client).__name__}",
        )


def _transformed(schema: Schema) -> Schema:
    """Put a schema into the part of JSON schema that the strict mode takes."""
    from anthropic import transform_schema

    try:
        return transform_schema(dict(schema))
    except (ValueError, TypeError, AssertionError, AttributeError):
        return schema  # the server says what is wrong with it, and it is asked in words


def _read_message(message: object) -> Reply:
    """Read a message of Anthropic's.

    Raises:
        CallFailed: ``malformed``, where it is no message at all.
    """
    blocks = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(blocks, list):
        raise CallFailed("malformed", "the server's answer is not a message")
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    counts = message.get("usage")
    had = tokens_of(counts, "cache_read_input_tokens")
    kept = tokens_of(counts, "cache_creation_input_tokens")
    given = tokens_of(counts, "input_tokens") + had + kept
    written = tokens_of(counts, "output_tokens")  # with the thoughts
    ending = _ENDINGS.get(str(message.get("stop_reason")), "stop")
    return Reply(
        "".join(text for text in texts if isinstance(text, str)),
        "refusal" if ending == "refusal" else "",
        ending,
        str(message.get("model") or ""),
        Usage(given, written, given + written),
        {"cache_read_input_tokens": had, "cache_write_input_tokens": kept},
    )


# Google.

_BLOCKED = frozenset((
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
    "ESCALATION", "PUP_LIMITED_DISABLED",
))  # fmt: skip
"""Reasons to stop that mean that a filter took the answer away."""
_CUT = frozenset(("MAX_TOKENS", "CONTINUATION"))
_CALM = re.compile(r"(models/)?gemini-[12]\b")
"""Models that are asked at temperature 0. From Gemini 3 on, Google advises to leave it alone."""


class GoogleLLM(ProviderLLM["AsyncClient"]):
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
            event loop. It brings its own address and credentials. The function must not block.

    Raises:
        ConfigurationError: There is no key, or the address cannot be used.
        MissingExtraError: The package ``google-genai`` is not installed.
    """

    role = Role("judge", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY or GEMINI_API_KEY")
    extra = "google"
    package = "google-genai"
    module = "google.genai"
    models_path = "/v1beta"
    key_header = ("x-goog-api-key", "")
    key_refusals = (400, 401, 403)

    def __init__(
        self,
        model: str,
        *,
        thinking_tokens: int = THINKING_TOKENS,
        client: Callable[[], Client] | None = None,
        **options: Unpack[VendorOptions],
    ) -> None:
        super().__init__(model, client, thinking_tokens, options)
        self._make = None if client is None else own_client(client, _check_google, _http_of)

    @classmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address of the environment."""
        return settings.google_api_key, settings.google_base_url

    def _open(self) -> OpenClient[AsyncClient]:
        from google import genai

        if self._make is not None:
            own = self._make().aio
            return OpenClient(own, own.aclose)
        http = bounded_client(http_library(genai), self.base_url)
        client = genai.Client(
            vertexai=False,
            api_key=self._key.reveal() if self._key is not None else None,
            http_options=genai.types.HttpOptions(base_url=self.base_url, httpx_async_client=http),
        )
        return OpenClient(client.aio, http.aclose)

    def _request(
        self, messages: Sequence[Message], schema: Schema | None, most: int, *, calm: bool
    ) -> Body:
        config: dict[str, object] = {"max_output_tokens": most}
        system, turns = _divided(messages)
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
        return {"contents": contents, "config": config}

    async def _send(self, client: AsyncClient, body: Body, seconds: float) -> Reply:
        from google.genai import types

        try:
            config = types.GenerateContentConfig.model_validate(body["config"])
        except ValueError as error:
            why = " ".join(str(error).split())[:300]
            raise CallFailed("bad_request", f"GoogleLLM(parameters=…): {why}") from None
        # As Google wrote it: tools that trace the app's calls have wrapped it.
        generate = unwrap(type(client.models).generate_content)
        answer: GenerateContentResponse = await generate(
            client.models, model=self.model, contents=body["contents"], config=config
        )
        return _read_content(answer)


def _check_google(client: Client) -> None:
    """Refuse what is not a client, and what has no asynchronous side."""
    if getattr(client, "aio", None) is None:
        raise CallFailed(
            "bad_request",
            f"client= has to make a google.genai.Client, not {type(client).__name__}",
        )


def _http_of(client: Client) -> object:
    """Return the HTTP client of a client."""
    return getattr(getattr(client.aio, "_api_client", None), "_async_httpx_client", None)


def _read_content(answer: GenerateContentResponse) -> Reply:
    """Read an answer of Google's; a blocked prompt, and an answer taken away, is a refusal."""
    counts = answer.usage_metadata
    given = tokens_of(counts, "prompt_token_count") + tokens_of(
        counts, "tool_use_prompt_token_count"
    )
    written = tokens_of(counts, "candidates_token_count") + tokens_of(
        counts, "thoughts_token_count"
    )
    usage = Usage(given, written, max(given + written, tokens_of(counts, "total_token_count")))
    cached = {"cache_read_input_tokens": tokens_of(counts, "cached_content_token_count")}
    model = answer.model_version or ""
    if not answer.candidates:
        feedback = answer.prompt_feedback
        refusal = _name(feedback.block_reason) if feedback is not None else ""
        return Reply("", refusal, "refusal" if refusal else "stop", model, usage, cached)
    ending = _name(answer.candidates[0].finish_reason)
    content = answer.candidates[0].content
    parts = (content.parts if content is not None else None) or ()
    text = "".join(part.text for part in parts if part.text and not part.thought)
    refusal = ending if ending in _BLOCKED else ""
    finish_reason = "refusal" if refusal else "length" if ending in _CUT else "stop"
    return Reply(text, refusal, finish_reason, model, usage, cached)


def _name(reason: object) -> str:
    return str(getattr(reason, "value", reason) or "")
