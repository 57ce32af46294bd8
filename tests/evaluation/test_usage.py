"""What a judgement used is what its calls used, each counted once, wherever they were made."""

from __future__ import annotations

from llmeval_sdk import testing, workflow
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Completion, Evaluation, Message, ModelCall, Usage
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.pipeline import runtime


class Priceless(LLM):
    """Answers with three tokens."""

    model = "m"

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        return Completion("yes", usage=Usage(2, 1, 3))


class Both(BaseJudge):
    """Asks its model here, and then makes calls of its own elsewhere."""

    name, version, per = "both", "1", "answer"
    needs = ("request",)

    async def evaluate(self, record, llm, /):
        await llm.complete([Message("user", "?")])
        async with llm.lease(calls=2, most=Usage(50, 50, 100)) as lease:
            lease.calls = [ModelCall("step", 1, 2, "m", Usage(10, 0, 10)) for _ in range(2)]
        await llm.complete([Message("user", "?")])
        return Evaluation(self.name, 1.0)


def test_calls_here_and_leased_calls_add_up():
    """Two calls of three tokens here and two of ten elsewhere: 26 tokens, and four calls."""
    with testing.capture(evaluators=[Both()], escalations=[], llm=Priceless()) as seen:
        with workflow("answer", request="roof?") as span:
            span.response = "slate"
        stats = seen.drain()
        books = runtime.pipeline().plan.limiter.used()
    assert seen.scores("answer")["both"].usage.total_tokens == 26
    assert stats.judge_usage.total_tokens == 26
    assert (books.calls, books.tokens) == (4, 26)


def test_the_books_stand_beside_a_store_in_the_home_folder(monkeypatch, tmp_path):
    """``~`` in the store's path means the same for the budget as for the store."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    with testing.capture(
        evaluators=[Both()], escalations=[], llm=Priceless(), store="~/llmeval.db"
    ) as seen:
        with workflow("answer", request="roof?") as span:
            span.response = "slate"
        seen.drain()
    assert (home / "llmeval.ledger").exists()
    assert not (tmp_path / "~").exists()
