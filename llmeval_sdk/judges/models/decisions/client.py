"""Asks a decision model: over HTTP, whatever its wire, or by a callable of the app."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from llmeval_sdk.config import Secret, Settings, from_environment
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError, JudgeError, nearest
from llmeval_sdk.judges.models.callable_llm import called
from llmeval_sdk.judges.models.clients import (
    OPENAI_URL,
    CallFailed,
    Clients,
    HasClients,
    Role,
    endpoint,
    name_of,
)
from llmeval_sdk.judges.models.decisions.wires import (
    Limits,
    LogprobsWire,
    OpenAIWire,
    SystemOneWire,
    Wire,
    decoded,
    distribution,
    failed,
    malformed,
    unfit,
    yes_no,
)
from llmeval_sdk.judges.models.prices import Prices
from llmeval_sdk.judges.models.sending import CallUsage, Sender, cached, dialect, usage
from llmeval_sdk.model import Answer, Decision, Question
from llmeval_sdk.model.protocols import DecisionModel, answer_by, further_place
from llmeval_sdk.model.sanitizing import sanitized
from llmeval_sdk.process.threads import HelperThreads


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.budget import Budget


# The data part of a request: the texts that questions are about, by their titles.


class NeutralTexts(dict[str, str]):
    """Texts in which nothing can act on a model without being read."""


def neutral_texts(texts: Mapping[str, str]) -> NeutralTexts:
    """Return the texts as neutral ones; texts that are neutral already are not read again.

    That reading is a tenth of what a decision takes beside its request.
    """
    if isinstance(texts, NeutralTexts):
        return texts
    return NeutralTexts((title, sanitized(text)) for title, text in texts.items())


# Asks a decision model over HTTP, whatever its wire: places, batches, retries, sums.


# One `HttpDecisions.decide`: its requests, what they brought back, and what they used.

CHARACTERS_A_TOKEN = 3
MOST_AT_A_TIME = 16
_OF_ONE_REQUEST = ("too_long", "malformed", "refused")
"""Failures that say nothing of the next request, once a server has answered one."""
_NAME_CHARACTERS = 200
"""How much of the model's name in a reply is kept."""


class DecisionCall:
    """What is known and was spent so far."""

    def __init__(self, client: HttpDecisions, data: Mapping[str, str]) -> None:
        self.answers: dict[str, Answer] = {}
        self.model = ""
        self.used = CallUsage(client.prices, host=client.price_host)
        self.sender = Sender(
            post=client.post,
            deadline=min(asyncio.get_running_loop().time() + client.timeout, answer_by.get()),
            attempts=client.attempts,
            backoff=client.backoff,
            request_timeout=client.request_timeout,
        )
        self._client = client
        self._data = data
        self._known = dialect(client.base_url, client.model)
        self._waiting: deque[list[Question]] = deque()
        self._failure: JudgeError | None = None
        """Why nothing was answered."""
        self._is_answered = False
        """Whether a server has answered any request."""
        self._is_slowed = False
        """Whether the server said that it is asked too often."""

    async def ask(self, batches: Iterator[list[Question]]) -> JudgeError | None:
        """Send all batches; return what went wrong where none of them was answered.

        The first goes alone: what is wrong with it is mostly wrong with the others as well.
        """
        self._waiting.extend(batches)
        while self._waiting and not self._is_answered and self._failure is None:
            await self._take(self._waiting.popleft())
        if self._waiting and self._failure is None:
            others = range(min(len(self._waiting), MOST_AT_A_TIME) - 1)
            work = self._work(), *(self._help() for _ in others)
            for outcome in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        return self._failure

    async def _work(self) -> None:
        while self._waiting:
            await self._take(self._waiting.popleft())

    async def _help(self) -> None:
        """Work as well, if there is a place for one more request, until the server is too busy."""
        place = further_place.get()
        room: AbstractAsyncContextManager[bool] = nullcontext(True) if place is None else place()
        async with room as is_free:
            while is_free and self._waiting and not self._is_slowed:
                await self._take(self._waiting.popleft())

    async def _take(self, batch: list[Question]) -> None:
        """Send a batch and keep the answers.

        One that is too long for the server is divided, the shorter questions first: where not even
        the shortest fits alone, the data is what is too long.
        """
        try:
            answers = await self._request(batch)
        except CallFailed as error:
            if error.type == "too_long" and len(batch) > 1:
                batch.sort(key=_size_of)
                middle = len(batch) // 2
                self._waiting.extendleft([batch[middle:], batch[:middle]])
                return
            failure = self._client.wire.explained(error, self._client.model)
            if not self._is_answered:
                self._failure = failure.of_call(self.used.usage(self._client.model))
                return
            lost = [batch]
            if failure.type not in _OF_ONE_REQUEST:
                lost += self._waiting
                self._waiting.clear()
            answers = {
                question.name: failed(failure.type, str(failure))
                for unanswered in lost
                for question in unanswered
            }
        self.answers.update(answers)

    async def _request(self, batch: Sequence[Question]) -> dict[str, Answer]:
        client, known = self._client, self._known
        reply = await self.sender.send(
            lambda: {
                **client.wire.body(client.model, self._data, batch, known),
                **client.parameters,
            },
            give_way=lambda error: client.wire.give_way(error, known),
            worth_it=self._is_worth_it,
        )
        reply = client.wire.opened(reply)
        about = reply if isinstance(reply, dict) else {}
        counts = about.get("usage")
        self.used.add(usage(counts), cached(counts))
        answers = client.wire.read(reply, batch)
        name = about.get("model")
        self.model = name[:_NAME_CHARACTERS] if isinstance(name, str) else self.model
        self._is_answered = True
        return answers

    def _is_worth_it(self, error: CallFailed) -> bool:
        """Note that the server wants fewer requests at a time; say that it is asked again."""
        self._is_slowed |= error.type == "rate_limited"
        return True


def tokens_of(text: str) -> int:
    """Return about how many tokens a text has."""
    return len(text) // CHARACTERS_A_TOKEN + 1


def _size_of(question: Question) -> int:
    """Return about how many tokens a question has."""
    options = (option.value + option.description for option in question.options)
    return tokens_of(question.name + question.instructions) + sum(map(tokens_of, options)) + 16


WIRES: Mapping[str, Wire] = {
    wire.name: wire for wire in (OpenAIWire(), SystemOneWire(), LogprobsWire())
}
"""By the prefix of a model's name. The wire is what is named, never what a path looks like."""

DECISION = Role("decision", "LLMEVAL_DECISION_BASE_URL", "LLMEVAL_DECISION_API_KEY")


class HttpDecisions(HasClients[Clients], DecisionModel):
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
        thresholds: By the name of the judge, the probability from which on a decision is `yes`:
            ``{"groundedness": 0.4}``. Default: 0.5. ``llmeval judges`` proposes one.
        budget: What decisions may use, beside the budget of the judges. Default: USD 1 a day and a
            million tokens a minute, over all processes of the host.

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
        parameters: Mapping[str, object] | None = None,
        prices: Prices | None = None,
        thresholds: Mapping[str, float] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.wire, model = wire_of(name)
        if base_url is None and api_key is None:
            base_url, api_key = place(self.wire, from_environment(problems=[]))
        if base_url is None and self.wire.address_needed:
            raise ConfigurationError(
                f"{name!r} needs the address of its server: set {DECISION.base_url} or base_url= "
                f"to it, such as {self.wire.address_needed}"
            )
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._endpoint = endpoint(model, base_url, role=DECISION)
        self._clients = Clients(self._endpoint, key, role=DECISION, of_openai=self.wire.of_openai)
        self.model = self._endpoint.model
        self.price_host = self.wire.price_host
        self.path = "/" + (path or self.wire.path).lstrip("/")
        self.limits = limits or self.wire.limits
        self.timeout = timeout
        self.attempts = attempts
        self.request_timeout = request_timeout
        self.backoff = backoff
        self.parameters = dict(parameters or {})
        self.prices = from_environment(problems=[]).prices if prices is None else prices
        self.thresholds = thresholds
        self.budget = budget

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
            size = 0 if room is None else _size_of(question)
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

    async def post(self, body: Mapping[str, object], seconds: float) -> object:
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


def place(wire: Wire, settings: Settings) -> tuple[str | None, Secret | None]:
    """Return the address and the key that are configured.

    Where neither address nor key is, chat models are those of the judges' server, and OpenAI's key
    is the judges', if theirs is OpenAI. No key goes to a server that it was not given for.
    """
    settings.check_readable("decision_base_url")
    own = settings.of(DecisionSettings)
    base_url, key = own.decision_base_url, own.decision_api_key
    if base_url is None and key is None:
        settings.check_readable("judge_base_url")
        judges = settings.judge_base_url
        if wire.name == "logprobs":
            base_url, key = judges, settings.judge_api_key
        elif wire.name == "openai" and (judges or OPENAI_URL).rstrip("/") == OPENAI_URL:
            key = settings.judge_api_key
    return base_url, key


# A decision model that is a function of the app: its own client, a classifier, a rule.


Decided = Decision | Mapping[str, object]
"""Answers by the name of the question. Each is an `Answer`, the probability of each option by its
value, or, of a yes/no question, the probability of yes."""


class CallableDecisions(DecisionModel):
    """Wraps a function, sync or async, that takes data and questions and returns the answers.

    The function returns a mapping from the name of each question to the probabilities of its
    options, or to that of yes; or a `Decision`, which may report tokens. What it returns is
    checked as strictly as what a server answers. A sync function runs on a daemon thread.
    ``thresholds`` and ``budget`` are those of `HttpDecisions`.
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, str], Sequence[Question]], Decided | Awaitable[Decided]],
        *,
        model: str | None = None,
        thresholds: Mapping[str, float] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._function = function
        self.thresholds = thresholds
        self.budget = budget
        self.model = model or name_of(function)
        self._aside = HelperThreads(f"decision model {self.model}"[:100])

    def __repr__(self) -> str:
        return f"CallableDecisions({self.model!r})"

    async def decide(self, data: Mapping[str, str], questions: Sequence[Question], /) -> Decision:
        """Call the function; raises `JudgeError` if it returns anything but answers."""
        decided = await called(self._function, self._aside, data, questions)
        if isinstance(decided, Decision):
            answers = {question.name: _read(question, decided.answers) for question in questions}
            return Decision(answers, decided.model or self.model, decided.usage, decided.requests)
        if not isinstance(decided, Mapping):
            raise JudgeError(
                "malformed", f"{self.model} returned {type(decided).__name__}, no answers"
            )
        return Decision(
            {question.name: _read(question, decided) for question in questions}, self.model
        )


def _read(question: Question, answers: Mapping[str, Any]) -> Answer:
    answer = answers.get(question.name)
    if isinstance(answer, Answer):
        if answer.error is not None:
            return answer
        answer = answer.probabilities
    if isinstance(answer, Mapping):
        return distribution(question, answer.items())
    if question.type == "yes_no" and answer is not None:
        return yes_no(answer)
    return malformed("no answer has the name of this question")
