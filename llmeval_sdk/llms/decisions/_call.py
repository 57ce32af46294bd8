"""One `HttpDecisions.decide`: its requests, what they brought back, and what they used."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.llms._call_usage import CallUsage
from llmeval_sdk.llms._failures import CallFailed
from llmeval_sdk.llms._ladder import cached, dialect, usage
from llmeval_sdk.llms._sending import Sender
from llmeval_sdk.llms.decisions._reading import failed
from llmeval_sdk.model import Answer, Question
from llmeval_sdk.protocols import answer_by, further_place


if TYPE_CHECKING:
    from llmeval_sdk.llms.decisions._client import HttpDecisions


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
        self.used = CallUsage(client.prices)
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
                batch.sort(key=size_of)
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


def size_of(question: Question) -> int:
    """Return about how many tokens a question has."""
    options = (option.value + option.description for option in question.options)
    return tokens_of(question.name + question.instructions) + sum(map(tokens_of, options)) + 16
