"""Asks a decision model over HTTP, whatever its wire: places, batches, retries, sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmeval_sdk._prices import Prices
from llmeval_sdk.config import Secret, Settings, from_environment
from llmeval_sdk.config.decisions import DecisionSettings
from llmeval_sdk.errors import ConfigurationError, JudgeError, nearest
from llmeval_sdk.llms._clients import OPENAI_URL, Clients, HasClients, Role, endpoint
from llmeval_sdk.llms.decisions._call import DecisionCall, size_of, tokens_of
from llmeval_sdk.llms.decisions._reading import decoded, failed, unfit
from llmeval_sdk.llms.decisions._wire import Limits, Wire
from llmeval_sdk.llms.decisions.data import neutral_texts
from llmeval_sdk.llms.decisions.logprobs import LogprobsWire
from llmeval_sdk.llms.decisions.openai import OpenAIWire
from llmeval_sdk.llms.decisions.systemone import SystemOneWire
from llmeval_sdk.model import Decision, Question
from llmeval_sdk.protocols import DecisionModel


WIRES: Mapping[str, Wire] = {
    wire.name: wire for wire in (OpenAIWire(), SystemOneWire(), LogprobsWire())
}
"""By the prefix of a model's name. The wire is what is named, never what a path looks like."""

DECISION = Role("decision", "LLMEVAL_DECISION_BASE_URL", "LLMEVAL_DECISION_API_KEY")


class HttpDecisions(HasClients, DecisionModel):
    """A decision model that is reached over HTTP.

    Args:
        name: The wire and the model: ``openai/gpt-6-luna``, ``systemone/<model>`` or
            ``logprobs/<chat model>``.
        base_url: The server. OpenAI's by default for ``openai/…``.
        api_key: The key that is sent to that server; it is never shown. A local server needs none.
            Without address and key, both come from the environment.
        path: Where requests go below the base URL, if not where the wire has it.
        timeout: Seconds that one `decide` may take, all its requests and waits together.
        attempts: How often one request is tried when it fails for a passing reason: no connection,
            no answer in time, 429, 5xx.
        request_timeout: Seconds that one attempt may take; by default the rest of ``timeout``.
        backoff: The upper bound in seconds of the first random wait between attempts; it doubles
            with each attempt.
        limits: What the server takes in one request, if that is less than the wire does.
        parameters: Further fields of each request.
        prices: Own prices by model, as ``configure(prices=…)`` takes them; by default those of
            the environment.

    Raises:
        ConfigurationError: The wire is unknown, or the address cannot be used; the message says
            what to set.
        MissingExtraError: The ``openai`` package, whose client is used for every wire, is not
            installed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: Secret | str | None = None,
        path: str | None = None,
        timeout: float = 60.0,
        attempts: int = 3,
        request_timeout: float | None = None,
        backoff: float = 0.5,
        limits: Limits | None = None,
        parameters: Mapping[str, Any] | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.wire, model = wire_of(name)
        if base_url is None and api_key is None:
            base_url, api_key, configured = place(self.wire, from_environment(problems=[]))
            path = path or configured
        if base_url is None and self.wire.address_needed:
            raise ConfigurationError(
                f"{name!r} needs the address of its server: set {DECISION.base_url} or base_url= "
                f"to it, such as {self.wire.address_needed}"
            )
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._endpoint = endpoint(model, base_url, role=DECISION)
        self._clients = Clients(self._endpoint, key, role=DECISION, of_openai=self.wire.of_openai)
        self.model = self._endpoint.model
        self.path = "/" + (path or self.wire.path).lstrip("/")
        self.limits = limits or self.wire.limits
        self.timeout = timeout
        self.attempts = attempts
        self.request_timeout = request_timeout
        self.backoff = backoff
        self.parameters = dict(parameters or {})
        self.prices = from_environment(problems=[]).prices if prices is None else prices

    def __repr__(self) -> str:
        return f"HttpDecisions('{self.wire.name}/{self.model}', base_url={self.base_url!r})"

    @property
    def base_url(self) -> str:
        """Where requests go, without the path."""
        return self._endpoint.base_url

    def refuses(self, question: Question) -> str | None:
        """Say why a question cannot be asked here; ``None`` where it can."""
        return unfit(question, f"the wire {self.wire.name!r}", self.limits)

    async def decide(self, data: Mapping[str, str], questions: Sequence[Question], /) -> Decision:
        """Answer all questions, in as few requests as their limits and the server's allow.

        A question that the wire does not take, and one that was answered badly, is an error of its
        own. So are those whose request failed after others were answered: an answer that was paid
        for is never thrown away. Requests after the first are made at the same time, as far as
        there is room for them.

        Raises:
            JudgeError: Nothing was answered: ``timeout``, ``rate_limited``, ``unavailable``,
                ``unauthorized``, ``not_found``, ``too_long``, ``bad_request``, ``refused`` or
                ``malformed``.
        """
        if len({question.name for question in questions}) < len(questions):
            raise JudgeError("bad_request", "two questions have the same name")
        texts = neutral_texts(data)
        call = DecisionCall(self, texts)
        why_not = {question.name: self.refuses(question) for question in questions}
        for name, why in why_not.items():
            if why is not None:
                call.answers[name] = failed("bad_request", why)
        asked = [question for question in questions if why_not[question.name] is None]
        failure = await call.ask(self._batches(texts, asked))
        if failure is not None:
            raise failure  # not in a handler: the context would hold the request and its key
        in_turn = {question.name: call.answers[question.name] for question in questions}
        name = call.model or self.model
        return Decision(in_turn, name, call.used.usage(name, self.model), call.sender.sent)

    def _batches(
        self, data: Mapping[str, str], questions: Sequence[Question]
    ) -> Iterator[list[Question]]:
        """Divide questions among requests by the limits that are known beforehand.

        Data that is too long by itself is not made shorter by more requests: then all questions go
        in one, and the server has the last word.
        """
        room = self._room(data)
        batch: list[Question] = []
        used = 0
        for question in questions:
            size = 0 if room is None else size_of(question)
            is_full = len(batch) == self.limits.questions
            if batch and (is_full or (room is not None and 0 < room < used + size)):
                yield batch
                batch, used = [], 0
            batch.append(question)
            used += size
        if batch:
            yield batch

    def _room(self, data: Mapping[str, str]) -> int | None:
        """Return how many tokens the data leaves to questions; ``None`` for any number of them."""
        if self.limits.tokens is None:
            return None
        return self.limits.tokens - sum(map(tokens_of, data)) - sum(map(tokens_of, data.values()))

    async def post(self, body: Mapping[str, Any], seconds: float) -> Any:
        """Send one request as it is; raises `CallFailed`."""
        return await self._clients.post(self.path, body, seconds, decoded)


def wire_of(name: str) -> tuple[Wire, str]:
    """Read the name of a decision model; return its wire and what is left.

    Raises:
        ConfigurationError: It begins with no known wire.
    """
    prefix, _, model = name.strip().partition("/")
    wire = WIRES.get(prefix.lower())
    if wire is None or not model:
        known = ", ".join(f"`{wire}/<model>`" for wire in WIRES)
        close = f" ({nearest(prefix.lower(), WIRES)})" if wire is None and model else ""
        raise ConfigurationError(
            f"{name!r} is not a decision model: expected one of {known}{close}. The part before "
            "the slash is the wire that its server speaks"
        )
    return wire, model


def place(wire: Wire, settings: Settings) -> tuple[str | None, Secret | None, str | None]:
    """Return the address, the key and the path that are configured.

    Where neither address nor key is, chat models are those of the judges' server, and OpenAI's key
    is the judges', if theirs is OpenAI. No key goes to a server that it was not given for.
    """
    own = settings.of(DecisionSettings)
    base_url, key = own.decision_base_url, own.decision_api_key
    if base_url is None and key is None:
        judges = settings.judge_base_url
        if wire.name == "logprobs":
            base_url, key = judges, settings.judge_api_key
        elif wire.name == "openai" and (judges or OPENAI_URL).rstrip("/") == OPENAI_URL:
            key = settings.judge_api_key
    return base_url, key, own.decision_path
