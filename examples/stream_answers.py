"""Streaming: an async generator is traced as it is; the joined text is the response."""

import asyncio
from collections.abc import AsyncIterator

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory


@llmeval.workflow
async def answer(question: str) -> AsyncIterator[str]:
    """Yield tokens as they come; between two of them the caller's own span is current."""
    for token in ("The ", "roof ", "is ", "slate."):
        await asyncio.sleep(0)
        yield token


async def main() -> None:
    """Read one stream to the end and break off another."""
    print("".join([token async for token in answer("What is the roof made of?")]))
    stream = answer("And the walls?")
    print(await anext(aiter(stream)))
    await stream.aclose()  # the span ends here, with what was sent


llmeval.configure(exporters=["memory"])
asyncio.run(main())
llmeval.flush(timeout=10)
for span in memory.spans():
    print(f"{span.request!r} -> {span.response!r}")
