"""Spans of ours around instrumented clients: sync, async, threads, generators, late children."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer
from llmeval_sdk.tracing import ContextExecutor


llmeval.configure(exporters=["datadog"], datadog_integrations=("openai",), heuristics="off")

import openai  # noqa: E402 - after it was instrumented


server = JudgeServer().__enter__()
client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0)
SAY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@llmeval.task
def step(name):
    client.chat.completions.create(**SAY)


@llmeval.workflow
def plain():
    with llmeval.annotation_context(
        prompt={"id": "greet", "template": "{{question}}", "variables": {"question": "hello"}},
        tags={"where": "inside"},
    ):
        step("a")


@llmeval.llm(model_name="m")
def prompted():
    llmeval.annotate(prompt={"id": "own", "template": "t", "variables": {"question": "q"}})
    client.chat.completions.create(**SAY)


async def call():
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0) as later:
        await later.chat.completions.create(**SAY)


@llmeval.task
async def async_step(number):
    await asyncio.sleep(0)
    await call()


@llmeval.workflow
async def gathered():
    await asyncio.gather(*(async_step(number) for number in range(5)))


@llmeval.workflow
def threaded():
    with ContextExecutor(3) as pool:
        list(pool.map(step, "abc"))
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(step, "d"))
    thread.start()
    thread.join()


@llmeval.task
def tokens():
    yield "a"
    client.chat.completions.create(**SAY)
    yield "b"


@llmeval.task
async def async_tokens():
    yield "a"
    await call()
    yield "b"


@llmeval.workflow
def generating():
    for _ in tokens():
        sibling()


@llmeval.workflow
async def async_generating():
    async for _ in async_tokens():
        sibling()


@llmeval.workflow
def returning():
    @llmeval.task(name="tokens")
    def returned():
        def stream():
            yield "a"
            client.chat.completions.create(**SAY)
            yield "b"

        return stream()

    tokens = returned()
    sibling()
    for _ in tokens:
        sibling()


@llmeval.tool
def sibling():
    pass


@llmeval.workflow
def starts_work(gate):
    """A child that begins after its parent ended."""
    context = contextvars.copy_context()

    def work():
        gate.wait()
        step("late")

    thread = threading.Thread(target=context.run, args=(work,))
    thread.start()
    return thread


@llmeval.workflow
def deep(levels):
    if levels:
        deep(levels - 1)
    else:
        client.chat.completions.create(**SAY)


def main():
    plain()
    prompted()
    asyncio.run(gathered())
    threaded()
    generating()
    asyncio.run(async_generating())
    returning()
    gate = threading.Event()
    thread = starts_work(gate)
    llmeval.flush(5)
    gate.set()
    thread.join()
    deep(20)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: deep(2), range(40)))
    from ddtrace import tracer
    from ddtrace.llmobs import LLMObs

    assert tracer.current_span() is None
    assert LLMObs._instance._current_span() is None
    with LLMObs.workflow("theirs"):
        step("inside theirs")
    stats = llmeval.flush(20)
    print("problems", dict(stats.problems), "complete", stats.complete)


main()
