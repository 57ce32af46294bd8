"""The requests that one call of a vendor's model takes, within one deadline.

`VendorLLM` is what the judge models of all vendors share.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias, TypedDict, TypeVar

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.clients import CallFailed, ClientsT, HasClients, name_of
from llmeval_sdk.judges.models.prices import Prices, price_of
from llmeval_sdk.model import Completion, Message, Usage, total_usage
from llmeval_sdk.model.fields import CACHED, to_details
from llmeval_sdk.model.json_object import NoObjectError, only_object
from llmeval_sdk.model.protocols import LLM, further_request
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.retries import pauses


if TYPE_CHECKING:
    from tenacity import RetryCallState


# What the requests of one call used, and what of it a cache had or keeps.


@dataclass(slots=True)
class CallUsage:
    """The sum over all requests of a call that were answered."""

    prices: Prices | None = None
    """Own prices by model, as ``configure(prices=…)`` takes them."""
    host: str = ""
    """What stands in front of the models' names in the list of prices."""
    _requests: list[tuple[Usage, Mapping[str, float]]] = field(default_factory=list)

    def add(self, usage: Usage | None, cached: Mapping[str, float]) -> None:
        """Add one request; ``cached`` has its input tokens by the names of `CACHED`."""
        if usage is not None:
            self._requests.append((usage, cached))

    def usage(self, *models: str) -> Usage | None:
        """Return the sum, with its cost where a cache or the number of requests changes that.

        Else the caller knows it. The first model counts that has a price.
        """
        used = total_usage(*(usage for usage, _ in self._requests))
        is_cached = any(any(cached.values()) for _, cached in self._requests)
        if used is None or not (is_cached or len(self._requests) > 1):
            return used
        prices = (price_of(f"{self.host}{model}", own=self.prices) for model in models)
        price = next((price for price in prices if price is not None), None)
        usd = price and sum(price.cost(*request) for request in self._requests)
        return replace(used, cost_usd=usd)


# The ways to ask for structured output, and which of them a server understood.
#
# Structured output is not portable. Each way is a step of a ladder that ends with asking for
# JSON in words, which every model takes.


def in_words(messages: Sequence[Message], schema: Schema) -> list[Message]:
    """Add the schema to the system message, or put one in front."""
    instruction = (
        "Answer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It satisfies this JSON schema: {json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].content}\n\n{instruction}"), *messages[1:]]
    return [Message("system", instruction), *messages]


def fits(text: str, schema: Schema) -> bool:
    """Say whether a reply is one JSON object with the schema's required keys.

    That is all a client has to know; what the values mean is for the judge to check.
    """
    try:
        answer = only_object(text)
    except NoObjectError:
        return False
    required = schema.get("required")
    return not isinstance(required, Sequence) or all(key in answer for key in required)


Schema: TypeAlias = Mapping[str, object]
"""A JSON schema."""
Step = Literal["json_schema", "tool", "json_object", "text"]
STEPS: tuple[Step, ...] = ("json_schema", "tool", "json_object", "text")

REMEMBER_SECONDS = 600.0
"""How long a lower step is kept before the best one is tried again: one odd reply, or a server
that was upgraded since, should not cost a model its strict mode for good."""


@dataclass(slots=True)
class Dialect:
    """The options that one model of a server is known to accept; sharing it needs no lock."""

    step: int = 0
    proven: bool = False
    """Whether ``step`` has given a readable reply."""
    learned: float = field(default_factory=time.monotonic)
    limit_key: str = "max_tokens"
    """Reasoning models of OpenAI take ``max_completion_tokens`` only."""
    temperature: bool = True

    def refresh(self) -> None:
        """Start from the best step again, once what was learned is old."""
        if self.step and time.monotonic() - self.learned > REMEMBER_SECONDS:
            self.step, self.proven = 0, False

    def settle(self, step: int) -> None:
        """Remember the step that gave a readable reply."""
        if step != self.step or not self.proven:
            self.step, self.proven, self.learned = step, True, time.monotonic()

    def give_way(self, error: CallFailed) -> bool:
        """Drop a parameter that the server names in its complaint; False if there is none left."""
        complaint = str(error)
        if self.limit_key == "max_tokens" and "max_completion_tokens" in complaint:
            self.limit_key = "max_completion_tokens"
            return True
        if self.temperature and "temperature" in complaint:
            self.temperature = False
            return True
        return False


_Dialect = TypeVar("_Dialect", bound=Dialect)
_dialects: dict[tuple[type[Dialect], str, str], Dialect] = {}


def dialect(base_url: str, model: str) -> Dialect:
    """Return what this process has learned about a model of a server."""
    return _dialect_of(Dialect, base_url, model)


def _dialect_of(kind: type[_Dialect], base_url: str, model: str) -> _Dialect:
    """Return what was learned about a model by those who speak to it in one way."""
    known = _dialects.setdefault((kind, base_url, model), kind())
    assert isinstance(known, kind)
    return known


def forget() -> None:
    """Forget what was learned, for tests."""
    _dialects.clear()


def asking(
    step: Step | None, messages: Sequence[Message], schema: Schema | None
) -> dict[str, object]:
    """Build the part of a request that differs from step to step."""
    more: dict[str, object] = {}
    if step == "json_schema":
        more["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema},
        }
    elif step == "tool":
        more["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": "submit",
                    "description": "Hand in the answer.",
                    "parameters": schema,
                },
            }
        ]
        more["tool_choice"] = {"type": "function", "function": {"name": "submit"}}
    elif step is not None and schema is not None:
        messages = in_words(messages, schema)
        if step == "json_object":
            more["response_format"] = {"type": "json_object"}
    more["messages"] = [{"role": turn.role, "content": turn.content} for turn in messages]
    return more


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    text: str
    refusal: str
    """How the model declined to answer; empty where it did not."""
    finish_reason: str | None
    model: str
    usage: Usage | None
    cached: Mapping[str, float]
    """How many of the input tokens a cache had or keeps, by the names of `CACHED`."""


def read(completion: object) -> Reply:
    """Read a chat completion; servers leave out what they like.

    Raises:
        CallFailed: ``malformed``, where it is not a chat completion at all.
    """
    choice = _first(_of(completion, "choices"))
    message = _of(choice, "message")
    if message is None:
        raise CallFailed("malformed", "the server's answer is not a chat completion")
    calls = _of(message, "tool_calls")
    text = _of(message, "content")
    if isinstance(calls, list) and len(calls) == 1:
        text = _of(_of(calls[0], "function"), "arguments") or text
    finish_reason = _of(choice, "finish_reason")
    refusal = str(_of(message, "refusal") or "")
    return Reply(
        text if isinstance(text, str) else "",
        refusal or ("filtered" if finish_reason == "content_filter" else ""),
        finish_reason if isinstance(finish_reason, str) else None,
        str(_of(completion, "model") or ""),
        usage(_of(completion, "usage")),
        cached(_of(completion, "usage")),
    )


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
"""What chat completions call the tokens, and what other endpoints do."""


def usage(counts: object) -> Usage | None:
    """Read token counts, where the server sent whole numbers."""
    if counts is None:
        return None

    def number(*names: str) -> int:
        return next(filter(None, (tokens_of(counts, name) for name in names)), 0)

    read, written = (number(*names) for names in _COUNTS)
    return Usage(read, written, number("total_tokens") or read + written)


def tokens_of(counts: object, name: str) -> int:
    """Read one count of tokens, of a mapping or an object; 0 where it is no whole number."""
    number = _of(counts, name)
    return number if type(number) is int and number >= 0 else 0


def cached(counts: object) -> dict[str, float]:
    """Read how many input tokens a cache had, and how many it keeps."""
    return {name: number for name, number in to_details(counts).items() if name in CACHED}


def _of(part: object, name: str) -> object:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def _first(items: object) -> object:
    return items[0] if isinstance(items, list) and items else None


Body: TypeAlias = Mapping[str, object]
_Answer = TypeVar("_Answer")
MAX_PAUSE_SECONDS = 8.0
"""The longest wait between two attempts, unless the server asks for a longer one."""


async def retrying(
    send: Callable[[], Awaitable[_Answer]],
    *,
    attempts: int,
    backoff: float,
    deadline: float,
    worth_it: Callable[[CallFailed], bool] = lambda _: True,
) -> _Answer:
    """Call ``send`` up to ``attempts`` times, as long as the wait ends before ``deadline``.

    The wait is random up to ``backoff`` · 2ⁿ seconds, or what the server asked for
    (``Retry-After``) and up to a tenth more. ``deadline`` is a time of the running loop.

    Raises:
        CallFailed: The last one, as it came.
    """

    def again(error: BaseException) -> bool:
        return isinstance(error, CallFailed) and error.retryable and worth_it(error)

    try:
        return await send()
    except CallFailed as error:
        if not again(error):
            raise
        failed = [error]  # the first attempt, as the retrying below sees it

    with loading:
        from tenacity import AsyncRetrying, retry_if_exception

    waits = pauses(backoff, MAX_PAUSE_SECONDS, spread=(0.0, 1.0))

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, CallFailed) else None
        pause = next(waits)
        return pause if asked is None else next(pauses(asked, asked, spread=(1.0, 1.1)))

    def stop(state: RetryCallState) -> bool:
        late = asyncio.get_running_loop().time() + state.upcoming_sleep >= deadline
        return late or state.attempt_number >= attempts

    async def attempt() -> _Answer:
        if failed:
            raise failed.pop()
        return await send()

    retry = AsyncRetrying(wait=wait, stop=stop, retry=retry_if_exception(again), reraise=True)
    return await retry(attempt)


@dataclass(slots=True, kw_only=True)
class Sender(Generic[_Answer]):
    """Sends the requests of one call; each but the first has to be permitted, as it costs as well.

    Args:
        post: Sends one body and waits so many seconds for its answer; raises `CallFailed`.
        deadline: When all requests and the waits between them end, by the time of the running loop.
        attempts: How often one request is tried where its failure may pass.
        backoff: The upper bound in seconds of the first random wait between attempts.
        request_timeout: Seconds that one attempt may take; by default the rest of the time.
    """

    post: Callable[[Body, float], Awaitable[_Answer]]
    deadline: float
    attempts: int
    backoff: float
    request_timeout: float | None = None
    sent: int = 0
    """How many requests were sent."""
    trouble: CallFailed | None = None
    """Of the request before."""

    async def send(
        self,
        body: Callable[[], Body],
        *,
        give_way: Callable[[CallFailed], bool] = lambda _: False,
        worth_it: Callable[[CallFailed], bool] = lambda _: True,
    ) -> _Answer:
        """Return the answer to a request, which is tried again where its failure may pass.

        Args:
            body: Makes the body anew for every attempt.
            give_way: Changes what ``body`` makes, where a server named what it does not take;
                returns whether it is worth another attempt.
            worth_it: Whether a failure that may pass is waited for.

        Raises:
            CallFailed: The last one.
        """

        async def once() -> _Answer:
            while True:
                sent = body()
                try:
                    return await self._post(sent)
                except CallFailed as error:
                    self.trouble = error
                    # Another call may have given way meanwhile, so that the body is another now.
                    if error.type != "bad_request" or not (give_way(error) or body() != sent):
                        raise

        return await retrying(
            once,
            attempts=self.attempts,
            backoff=self.backoff,
            deadline=self.deadline,
            worth_it=worth_it,
        )

    async def _post(self, body: Body) -> _Answer:
        seconds = self.deadline - asyncio.get_running_loop().time()
        if seconds <= 0:
            raise CallFailed("timeout", "no time is left for another request", retryable=True)
        await self._ask_for_another()
        if self.request_timeout is not None:
            seconds = min(seconds, self.request_timeout)
        return await self.post(body, seconds)

    async def _ask_for_another(self) -> None:
        if self.sent and (ask := further_request.get()) is not None:
            trouble, self.trouble = self.trouble, None
            try:
                await ask(trouble)
            except JudgeError as error:
                raise CallFailed(error.type, str(error), retry_after=error.retry_after) from None
        self.sent += 1


# One ``complete``: down the ladder, with retries, until a reply can be read.


@dataclass(slots=True, kw_only=True)
class Call:
    """What one call knows and has spent so far.

    Args:
        sender: Sends the requests.
        body: Builds the request of one step of the ladder; ``None`` asks for any text.
        steps: The ways to ask for structured output, the strictest first.
        is_told_by_500: Whether a 500 may say that a server does not know a way to ask.
        schema: What the reply has to satisfy, if it has to be JSON.
        max_tokens: How long the reply may be.
        known: What was learned about the server.
        used: What the requests used.
    """

    sender: Sender[Reply]
    body: Callable[[Step | None], Body]
    steps: Sequence[Step]
    is_told_by_500: bool
    schema: Schema | None
    max_tokens: int
    known: Dialect
    used: CallUsage
    model: str = ""
    """The model that answered, as it calls itself."""

    async def run(self) -> Reply:
        """Return the first readable reply; raises `CallFailed`."""
        if self.schema is None:
            return await self._ask(None)
        last = len(self.steps) - 1
        for number in range(self.known.step, len(self.steps)):
            is_proven = self.known.proven and number == self.known.step
            trying = self.is_told_by_500 and number < last and not is_proven
            try:
                reply = await self._ask(self.steps[number], trying=trying)
            except CallFailed as error:
                is_answer = error.type == "bad_request" and error.status is not None
                if number < last and (is_answer or (trying and error.status == 500)):
                    continue
                raise
            if fits(reply.text, self.schema):
                self.known.settle(number)
                return reply
            if reply.finish_reason == "length":
                raise CallFailed("truncated", f"the reply was cut at {self.max_tokens} tokens")
        raise CallFailed("malformed", "the reply is not the JSON object that was asked for")

    async def _ask(self, step: Step | None, *, trying: bool = False) -> Reply:
        reply = await self.sender.send(
            lambda: self.body(step),
            give_way=self.known.give_way,
            worth_it=lambda error: not (trying and error.status == 500),
        )
        self.used.add(reply.usage, reply.cached)
        self.model = reply.model or self.model
        if reply.refusal:
            raise CallFailed("refused", "the model declined to answer")
        return reply


class VendorOptions(TypedDict, total=False):
    """What the judge models of all vendors take; their docstrings say what it means."""

    base_url: str | None
    api_key: Secret | str | None
    timeout: float
    attempts: int
    request_timeout: float | None
    backoff: float
    parameters: Mapping[str, object] | None
    prices: Prices | None


class VendorLLM(HasClients[ClientsT], LLM):
    """A judge model that is reached by its vendor's own client.

    Args:
        model: The model as its server names it.
        base_url: Its server. With a client of the app's it is not known.
        key: What the server knows us by.
        own_client: The function of the app that makes its own client.
        options: Options of `VendorOptions`; address and key among them are not read.
    """

    steps: ClassVar[Sequence[Step]] = STEPS
    is_told_by_500: ClassVar[bool] = False
    manner: ClassVar[type[Dialect]] = Dialect
    """The kind of what is learned about its servers."""

    def __init__(
        self,
        model: str,
        base_url: str,
        key: Secret | None,
        own_client: Callable[[], object] | None,
        options: VendorOptions,
    ) -> None:
        given = options.get("prices")
        self._prices = from_environment(problems=[]).prices if given is None else given
        self._key = key
        self._own_client = own_client
        self._own_manner = None if own_client is None else self.manner()
        self.model = model
        self.base_url = base_url
        self.timeout = options.get("timeout", 60.0)
        self.attempts = options.get("attempts", 3)
        self.request_timeout = options.get("request_timeout")
        self.backoff = options.get("backoff", 0.5)
        self.parameters = dict(options.get("parameters") or {})

    def __repr__(self) -> str:
        where = f"base_url={self.base_url!r}"
        if self._own_client is not None:
            where = f"client={name_of(self._own_client)}"
        return f"{type(self).__name__}({self.model!r}, {where})"

    @abstractmethod
    def _body(
        self,
        step: Step | None,
        messages: Sequence[Message],
        schema: Schema | None,
        max_tokens: int,
        known: Dialect,
    ) -> Body:
        """Build the request of one step; ``known`` is one of `manner`."""

    @abstractmethod
    async def _post(self, body: Body, seconds: float) -> Reply:
        """Send a request and read its answer; raises `CallFailed`."""

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Schema | None = None,
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
        # Servers of the app's own clients are not told apart: each model learns for itself.
        known = self._own_manner or _dialect_of(self.manner, self.base_url, self.model)
        known.refresh()
        call = Call(
            sender=Sender(
                post=self._post,
                deadline=asyncio.get_running_loop().time() + self.timeout,
                attempts=self.attempts,
                backoff=self.backoff,
                request_timeout=self.request_timeout,
            ),
            body=lambda step: self._body(step, messages, schema, max_tokens, known),
            steps=self.steps,
            is_told_by_500=self.is_told_by_500,
            schema=schema,
            max_tokens=max_tokens,
            known=known,
            used=CallUsage(self._prices),
        )
        try:
            reply = await call.run()
        except CallFailed as error:
            failure = error.of_call(call.used.usage(call.model or self.model, self.model))
        else:
            name = reply.model or self.model
            used = call.used.usage(name, self.model)
            return Completion(reply.text, name, used, reply.finish_reason)
        raise failure  # not in the handler: the context would hold the request and its key
