"""What the judge models of all providers share: retries, time limits, ways to ask, and costs."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.judges.models.clients import HasClients, PerLoop, Role, check_address
from llmeval_sdk.judges.models.failures import CallFailed, failed, request_refused
from llmeval_sdk.judges.models.sending import CallUsage, Dialect, Sender, fits, in_words
from llmeval_sdk.model import Completion, Message, Usage
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.plugins.providers.settings import ProviderSettings
from llmeval_sdk.process.threads import within


# Says in our error types what the answers of Anthropic and Google tell of a request that failed.

_TOO_LONG = ("prompt is too long", "exceeds the maximum number of tokens")
_WRONG_KEY = ("api_key_invalid", "api key not valid", "api key expired")
_FILTERED = ("content filtering policy",)
_NO_CREDIT = ("credit balance is too low", "billing_error")
_SPENT_FOR_TODAY = ("perday", "per day")


def refused(
    status: int, headers: Mapping[str, str], body: bytes, where: str, key: Secret | None
) -> CallFailed:
    """Classify an answer that is an error.

    It says more than its status: Google answers 400 to a wrong key, Anthropic 400 to an account
    without credit, and both answer 400 to a prompt that is too long.
    """
    failure = request_refused(status, headers, body, where, key)
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
    """Read Google's ``RetryInfo``: its answers have no ``Retry-After``."""
    try:
        about = json.loads(body)
    except (ValueError, RecursionError):
        return None
    about = about[0] if isinstance(about, list) and about else about
    error = about.get("error") if isinstance(about, Mapping) else None
    details: Any = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        text = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        try:
            seconds = float(str(text).removesuffix("s"))
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


THINKING_TOKENS = 4096
"""Tokens that a model may think with before it answers. They count towards its limit of tokens."""


class ProviderReply(NamedTuple):
    """What one request brought back."""

    text: str
    model: str
    usage: Usage
    cached: Mapping[str, float]
    """How many of the input tokens a cache had or keeps, by the names of `_coerce.CACHED`."""
    finish_reason: str
    """``stop``, ``length`` or ``refusal``."""


@dataclass(slots=True)
class _Manner(Dialect):
    """What has been learned about one model; ``step`` is 0 for a strict schema, 1 for words."""

    has_room: bool = True
    """Whether the model accepts a limit of tokens that includes room for its thoughts."""

    def give_way(self, error: CallFailed) -> bool:
        complaint = str(error).lower()
        if self.has_room and ("max_tokens" in complaint or "max_output_tokens" in complaint):
            self.has_room = False
            return True
        if self.temperature and "temperature" in complaint:
            self.temperature = False
            return True
        return False


class OpenClient(NamedTuple):
    """A provider's client, and what closes it."""

    client: Any
    end: Callable[[], Any]

    async def close(self) -> None:
        """Close its connections."""
        await self.end()


class ProviderLLM(HasClients[PerLoop[OpenClient]], LLM):
    """A judge model that is reached by its provider's own client.

    Its arguments are described by the models of each provider.
    """

    role: ClassVar[Role]
    extra: ClassVar[str]
    package: ClassVar[str]
    models_path: ClassVar[str]
    """Where, below the address, ``/models`` lists the models."""
    key_header: ClassVar[tuple[str, str]]
    """The header that a key is sent in, and what stands before it."""
    further_headers: ClassVar[Mapping[str, str]]
    key_refusals: ClassVar[tuple[int, ...]] = (401, 403)
    """The statuses by which a wrong key is refused where the models are listed."""

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
        thinking_tokens: int = THINKING_TOKENS,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        client: Callable[[], Any] | None = None,
    ) -> None:
        if not model.strip():
            raise ConfigurationError(f"{type(self).__name__} needs the name of a model")
        if client is None and not self.is_installed():
            feature = f"the judge model {model!r}"
            raise missing_extra(feature, self.extra, self.package)
        if prices is None or (base_url is None and api_key is None):
            settings = from_environment(problems=[])
            prices = settings.prices if prices is None else prices
            own_key, own_url = self.access(settings.of(ProviderSettings))
            if base_url is None and api_key is None:
                base_url, api_key = own_url, own_key
        self._key = Secret(api_key) if isinstance(api_key, str) else api_key
        self.base_url = (base_url or self.access(ProviderSettings())[1]).rstrip("/")
        check_address(self.base_url, self.role)
        if client is None and self._key is None:
            raise ConfigurationError(
                f"the judge model {model!r} needs a key: set {self.role.api_key}"
            )
        self.model = model.strip()
        self.timeout = timeout
        self.attempts = attempts
        self.request_timeout = request_timeout
        self.backoff = backoff
        self.parameters = dict(parameters or {})
        self.thinking_tokens = thinking_tokens
        self._prices = prices
        self._own_client = client
        self._clients = PerLoop(self._open)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Return whether the package of the provider's client is installed."""

    @classmethod
    @abstractmethod
    def access(cls, settings: ProviderSettings) -> tuple[Secret | None, str]:
        """Return the key and the address that the environment has for this provider."""

    @abstractmethod
    def _open(self) -> OpenClient:
        """Make a client for the running loop."""

    @abstractmethod
    def _body(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        most: int,
        *,
        calm: bool,
    ) -> dict[str, Any]:
        """Build a request for ``most`` tokens; ``calm`` asks for the most likely words."""

    @abstractmethod
    async def _send(self, client: Any, body: Mapping[str, Any], seconds: float) -> ProviderReply:
        """Send a request and read its answer; raises whatever the client raises."""

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer a chat, as one JSON object where a schema is given.

        Usage is the sum over all requests that this took, with the price of input that a cache had.

        Raises:
            JudgeError: ``timeout``, ``rate_limited``, ``unavailable``, ``unauthorized``,
                ``not_found``, ``too_long``, ``bad_request``, ``refused``, ``truncated`` or
                ``malformed``.
        """
        replies: list[ProviderReply] = []
        try:
            reply = await self._ask(messages, schema, max_tokens, replies)
        except CallFailed as error:
            failure = error.of_call(self._used(replies))
        else:
            name = reply.model or self.model
            return Completion(reply.text, name, self._used(replies), reply.finish_reason)
        raise failure  # not in the handler: the context would hold the request and its key

    async def _ask(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        replies: list[ProviderReply],
    ) -> ProviderReply:
        known = _manner(self.base_url, self.model)
        known.refresh()
        sender = Sender(
            post=self._post,
            deadline=asyncio.get_running_loop().time() + self.timeout,
            attempts=self.attempts,
            backoff=self.backoff,
            request_timeout=self.request_timeout,
        )
        for step in (0,) if schema is None else range(known.step, 2):
            strict = schema if step == 0 else None
            turns = messages if schema is None or strict else in_words(messages, schema)

            def body(turns: Any = turns, strict: Any = strict) -> dict[str, Any]:
                most = max_tokens + (self.thinking_tokens if known.has_room else 0)
                return self._body(turns, strict, most, calm=known.temperature)

            try:
                reply: ProviderReply = await sender.send(body, give_way=known.give_way)
            except CallFailed as error:
                if strict is not None and error.type == "bad_request":
                    continue  # a model that knows no strict schema, or not this one
                raise
            replies.append(reply)
            if reply.finish_reason == "refusal":
                raise CallFailed("refused", "the model declined to answer")
            if schema is None:
                return reply
            if fits(reply.text, schema):
                known.settle(step)
                return reply
            if reply.finish_reason == "length":
                raise CallFailed("truncated", f"the reply was cut at {max_tokens} tokens")
        raise CallFailed("malformed", "the reply is not the JSON object that was asked for")

    async def _post(self, body: Mapping[str, Any], seconds: float) -> ProviderReply:
        try:
            return await within(seconds, self._answer(body, seconds))
        except asyncio.TimeoutError:
            failure = CallFailed("timeout", f"no answer within {seconds:.1f} s", retryable=True)
        except Exception as error:
            package = self.package.partition("-")[0]
            failure = failed(error, self.base_url, self._key, package=package, refused=refused)
        raise failure  # not in the handler: the context would hold the request and its key

    async def _answer(self, body: Mapping[str, Any], seconds: float) -> ProviderReply:
        return await self._send((await self._clients.client()).client, body, seconds)

    def _used(self, replies: Sequence[ProviderReply]) -> Usage | None:
        used = CallUsage(self._prices)
        for reply in replies:
            used.add(reply.usage, reply.cached)
        return used.usage(*(reply.model for reply in replies[-1:]), self.model)


def divided(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the text of the system messages, which providers take apart, and the other turns."""
    system = "\n\n".join(turn.content for turn in messages if turn.role == "system")
    return system, [turn for turn in messages if turn.role != "system"]


def tokens_of(counts: Any, name: str) -> int:
    """Read one count of tokens, of a mapping or an object; 0 where it is no whole number."""
    number = counts.get(name) if isinstance(counts, Mapping) else getattr(counts, name, None)
    return number if type(number) is int and number >= 0 else 0


_manners: dict[tuple[str, str], _Manner] = {}


def _manner(base_url: str, model: str) -> _Manner:
    """Return what this process has learned about a model of a server."""
    return _manners.setdefault((base_url, model), _Manner())
