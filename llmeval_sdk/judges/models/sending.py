"""The requests that one call of a model takes, within one deadline."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.failures import CallFailed, retrying
from llmeval_sdk.judges.models.prices import Prices, cost
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.model.fields import CACHED, to_details
from llmeval_sdk.model.json_object import NoObjectError, only_object
from llmeval_sdk.model.protocols import further_request


# What the requests of one call used, and what of it a cache had or keeps.


@dataclass(slots=True)
class CallUsage:
    """The sum over all requests of a call that were answered."""

    prices: Prices | None = None
    """Own prices by model, as ``configure(prices=…)`` takes them."""
    _usage: Usage | None = None
    _cached: dict[str, float] = field(default_factory=dict)

    def add(self, usage: Usage | None, cached: Mapping[str, float]) -> None:
        """Add one request; ``cached`` has its input tokens by the names of `_coerce.CACHED`."""
        if usage is None:
            return
        self._usage = usage if self._usage is None else self._usage + usage
        for name, tokens in cached.items():
            self._cached[name] = self._cached.get(name, 0) + tokens

    def usage(self, *models: str) -> Usage | None:
        """Return the sum, with its cost where a cache changed it. Else the caller knows it.

        The first model counts that has a price.
        """
        if self._usage is None or not any(self._cached.values()):
            return self._usage
        costs = (cost(model, self._usage, self._cached, own=self.prices) for model in models)
        return replace(self._usage, cost_usd=next((usd for usd in costs if usd is not None), None))


# The ways to ask for structured output, and which of them a server understood.
#
# Structured output is not portable. Each way is a step of a ladder that ends with asking for
# JSON in words, which every model takes.


def in_words(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Add the schema to the system message, or put one in front."""
    instruction = (
        "Answer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It satisfies this JSON schema: {json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].content}\n\n{instruction}"), *messages[1:]]
    return [Message("system", instruction), *messages]


def fits(text: str, schema: Mapping[str, Any]) -> bool:
    """Say whether a reply is one JSON object with the schema's required keys.

    That is all a client has to know; what the values mean is for the judge to check.
    """
    try:
        answer = only_object(text)
    except NoObjectError:
        return False
    return all(key in answer for key in schema.get("required", ()))


Step = Literal["json_schema", "tool", "json_object", "text"]
STEPS: tuple[Step, ...] = ("json_schema", "tool", "json_object", "text")

REMEMBER_SECONDS = 600.0
"""How long a lower step is kept before the best one is tried again: one odd reply, or a server
that was upgraded since, should not cost a model its strict mode for good."""


@dataclass(slots=True)
class Dialect:
    """What has been learned about one model of one server; sharing it needs no lock."""

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


_dialects: dict[tuple[str, str], Dialect] = {}


def dialect(base_url: str, model: str) -> Dialect:
    """Return what this process has learned about a model of a server."""
    return _dialects.setdefault((base_url, model), Dialect())


def forget() -> None:
    """Forget what was learned, for tests."""
    _dialects.clear()


def asking(
    step: Step | None, messages: Sequence[Message], schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Build the part of a request that differs from step to step."""
    more: dict[str, Any] = {}
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
    """What one request brought back."""

    text: str
    refusal: str
    finish_reason: str | None
    model: str
    usage: Usage | None
    cached: Mapping[str, float]


def read(completion: Any) -> Reply:
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
    return Reply(
        text if isinstance(text, str) else "",
        str(_of(message, "refusal") or ""),
        _of(choice, "finish_reason"),
        str(_of(completion, "model") or ""),
        usage(_of(completion, "usage")),
        cached(_of(completion, "usage")),
    )


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
"""What chat completions call the tokens, and what other endpoints do."""


def usage(counts: Any) -> Usage | None:
    """Read token counts, where the server sent whole numbers."""
    if counts is None:
        return None

    def number(*names: str) -> int:
        values = (_of(counts, name) for name in names)
        return next((value for value in values if type(value) is int and value >= 0), 0)

    read, written = (number(*names) for names in _COUNTS)
    return Usage(read, written, number("total_tokens") or read + written)


def cached(counts: Any) -> dict[str, float]:
    """Read how many input tokens a cache had, and how many it keeps."""
    return {name: number for name, number in to_details(counts).items() if name in CACHED}


def _of(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)


def _first(items: Any) -> Any:
    return items[0] if isinstance(items, list) and items else None


Body = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Sender:
    """Sends the requests of one call; each but the first has to be permitted, as it costs as well.

    Args:
        post: Sends one body and waits so many seconds for its answer; raises `CallFailed`.
        deadline: When all requests and the waits between them end, by the time of the running loop.
        attempts: How often one request is tried where its failure may pass.
        backoff: The upper bound in seconds of the first random wait between attempts.
        request_timeout: Seconds that one attempt may take; by default the rest of the time.
    """

    post: Callable[[Body, float], Awaitable[Any]]
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
    ) -> Any:
        """Return the answer to a request, which is tried again where its failure may pass.

        Args:
            body: Makes the body anew for every attempt.
            give_way: Changes what ``body`` makes, where a server named what it does not take;
                returns whether it is worth another attempt.
            worth_it: Whether a failure that may pass is waited for.

        Raises:
            CallFailed: The last one.
        """

        async def once() -> Any:
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

    async def _post(self, body: Body) -> Any:
        seconds = self.deadline - asyncio.get_running_loop().time()
        if seconds <= 0:
            raise CallFailed("timeout", "no time is left for another request", retryable=True)
        self._ask_for_another()
        if self.request_timeout is not None:
            seconds = min(seconds, self.request_timeout)
        return await self.post(body, seconds)

    def _ask_for_another(self) -> None:
        if self.sent and (ask := further_request.get()) is not None:
            try:
                ask(self.trouble)
            except JudgeError as error:
                raise CallFailed(error.type, str(error), retry_after=error.retry_after) from None
        self.sent += 1
        self.trouble = None


# One ``complete``: down the ladder, with retries, until a reply can be read.


@dataclass(slots=True, kw_only=True)
class Call:
    """What one call knows and has spent so far."""

    sender: Sender
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None
    max_tokens: int
    known: Dialect
    used: CallUsage

    async def run(self) -> Reply:
        """Return the first readable reply; raises `CallFailed`."""
        if self.schema is None:
            return self._accept(await self._send(asking(None, self.messages, None)))
        last = len(STEPS) - 1
        for step in range(self.known.step, len(STEPS)):
            # A 500 may mean "I do not know this way to ask", until that way has worked once.
            trying = step < last and not (self.known.proven and step == self.known.step)
            request = asking(STEPS[step], self.messages, self.schema)
            try:
                reply = self._accept(await self._send(request, trying=trying))
            except CallFailed as error:
                if step < last and (
                    error.type == "bad_request" or (trying and error.status == 500)
                ):
                    continue
                raise
            if fits(reply.text, self.schema):
                self.known.settle(step)
                return reply
            if reply.finish_reason == "length":
                raise CallFailed("truncated", f"the reply was cut at {self.max_tokens} tokens")
        raise CallFailed("malformed", "the reply is not the JSON object that was asked for")

    def _accept(self, reply: Reply) -> Reply:
        self.used.add(reply.usage, reply.cached)
        if reply.refusal or reply.finish_reason == "content_filter":
            raise CallFailed("refused", "the model declined to answer")
        return reply

    async def _send(self, part: Mapping[str, Any], *, trying: bool = False) -> Reply:
        def request() -> dict[str, Any]:
            settled = {"temperature": 0} if self.known.temperature else {}
            return {self.known.limit_key: self.max_tokens, **settled, **part}

        return read(
            await self.sender.send(
                request,
                give_way=self.known.give_way,
                worth_it=lambda error: not (trying and error.status == 500),
            )
        )
