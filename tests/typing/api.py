"""Never run: what a type checker has to accept and to refuse about the public surface.

Under ``mypy --strict`` an ignore that is not needed is an error, so each line marked below must
stay a mistake.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any

from typing_extensions import assert_type

import llmeval_sdk as llmeval


# -- the four shapes of a call keep their signatures -------------------------------------------


@llmeval.workflow
def plain(question: str, *, top: int = 5) -> list[str]:
    return [question] * top


@llmeval.task(name="other")
async def coroutine(question: str) -> bytes:
    return question.encode()


@llmeval.retrieval
def generator(question: str) -> Iterator[int]:
    yield len(question)


@llmeval.llm(model_name="gpt-4o", model_provider="openai")
async def async_generator(question: str) -> AsyncGenerator[str, None]:
    yield question


@llmeval.agent(evaluators=["ragas_faithfulness"], session_id="s", tags={"team": "a"})
async def streamed(question: str) -> AsyncIterator[str]:
    yield question


class Service:
    @llmeval.tool
    def method(self, number: int) -> float:
        return number / 2

    @llmeval.embedding
    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[0.0] for _ in texts]


async def shapes() -> None:
    assert_type(plain("q", top=3), list[str])
    assert_type(await coroutine("q"), bytes)
    assert_type(generator("q"), Iterator[int])
    assert_type(async_generator("q"), AsyncGenerator[str, None])
    async for token in streamed("q"):
        assert_type(token, str)
    assert_type(Service().method(3), float)
    assert_type(await Service().embed(["a"]), list[list[float]])
    one: Callable[[str], Coroutine[Any, Any, bytes]] = coroutine
    plain(3)  # type: ignore[arg-type]
    plain("q", limit=3)  # type: ignore[call-arg]
    await coroutine()  # type: ignore[call-arg]
    Service().method("3")  # type: ignore[arg-type]
    del one


# -- spans ---------------------------------------------------------------------------------------


async def spans() -> None:
    with llmeval.workflow("answer", request="q") as span:
        with llmeval.retrieval("search", request="q") as step:
            step.retrieved_context = [{"content": "c", "doc_uri": "d"}]
        span.response = "a"
        span.annotate(value="slate", confidence="HIGH")
        llmeval.annotate(
            span,
            extractions=[{"value": "slate", "chunk_number": 1}],
            retrieval={"limits": {"bm25": 20}, "total_before_filter": 60},
            prompt=llmeval.Prompt(id="p", variables={"context": "c"}),
            metadata={"a": 1},
            metrics={"n": 1.0},
            tags={"env": "test"},
        )
        ids = llmeval.export_span()
        llmeval.submit_evaluation(span=ids, label="fine", metric_type="score", value=0.85)
        llmeval.submit_feedback(label="thumbs", value=True, submitter={"id": "42"})
    async with llmeval.llm(model_name="gpt-4o", name="chat", user_id="anna") as call:
        call.response = {"choices": []}
    assert llmeval.enabled() is True
    with llmeval.workflow("answer", user_id="anna"), llmeval.tool("find", effect="read"):
        pass
    llmeval.workflow("answer", colour="red")  # type: ignore[call-overload]
    llmeval.llm("gpt-4o", user_id=7)  # type: ignore[call-overload]
    with llmeval.annotation_context(tags={"team": "a"}), llmeval.disabled():
        current = llmeval.current_span()
        if current is not None:
            current.annotate(request="q")
    llmeval.submit_evaluation(label="fine")  # type: ignore[call-arg]


# -- evaluators ----------------------------------------------------------------------------------


@llmeval.heuristic
def cites_a_page(record: llmeval.Record) -> bool:
    return "page" in (record.response or "")


@llmeval.judge
async def polite(record: llmeval.Record, llm: llmeval.LLM) -> str:
    answer: llmeval.Completion = await llm.complete(
        [llmeval.Message("user", "Polite?")], max_tokens=10
    )
    return answer.text


@llmeval.judge(per="chunk")
def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
    return llm.ask(f"On topic? {chunk.content}") == "yes"


tone = llmeval.LLMJudge("tone", "Which tone? {response}", output=["formal", "casual"])
recall: float = llmeval.ContextRecall(model="gpt-4o").score("q", "a", "e", ["c"]).value


class Gateway(llmeval.LLM):
    """A judge model of the app's own."""

    model = "gateway"

    async def complete(
        self,
        messages: Any,
        /,
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 4096,
    ) -> llmeval.Completion:
        return llmeval.Completion("yes")


class Silent:
    """An exporter of the app's own."""

    name = "silent"

    def export(self, batch: Any, /) -> Mapping[str, int] | None:
        return None

    def flush(self, timeout: float, /) -> None: ...

    def close(self, timeout: float, /) -> None: ...


exporter: llmeval.Exporter = Silent()


# -- set-up, and what comes back -----------------------------------------------------------------

when = (llmeval.below("a", 0.7) | llmeval.flagged("b", "HIT")) & ~llmeval.above("c", 0.5)
llmeval.configure(
    evaluators=[polite, on_topic, cites_a_page, tone, "groundedness"],
    escalations=[llmeval.Escalation("context_recall_llm", when=when, control_rate=0.02)],
    sampling_rules=[llmeval.SamplingRule(0.05, evaluator="polite", span_name="answer")],
    budget=llmeval.Budget(calls_per_minute=60, usd_per_day=5.0),
    llm=Gateway(),
    exporters=["local", exporter],
    prices={"gateway": (1.0, 2.0)},
)
delivered: int = llmeval.flush(timeout=1.0).delivered
complete: bool = llmeval.shutdown(1.0).complete
not_run: Mapping[str, Mapping[str, int]] = llmeval.stats().not_run

rows: list[dict[str, Any]] = [{"request": "q", "response": "a"}]
report: llmeval.Report = llmeval.evaluate(rows, evaluators=[cites_a_page, "document_recall"])
share: float = report.metrics["cites_a_page/average"]
evaluation: llmeval.Evaluation = report.rows[0].evaluations["cites_a_page"]
record: llmeval.Record = llmeval.Record(
    request="q",
    retrieved_context=(llmeval.Chunk("c", doc_uri="d"),),
    extractions=(llmeval.Extraction("slate", 1),),
)
record.response = "b"  # type: ignore[misc]

with llmeval.testing.capture(llm=llmeval.testing.FakeLLM("yes")) as seen:
    value: float | bool | str | None = seen.scores("answer")["polite"].value
problem: type[Exception] = llmeval.errors.ConfigurationError
headers: dict[str, str] = {}
llmeval.tracing.inject(headers)
