"""The service under load: FastAPI, three decorated spans a request, a retriever in plain Python.

    LOAD_VARIANT=ours LOAD_FOLDER=… python -m uvicorn benchmarks.load.service:app --workers 2

``LOAD_VARIANT`` is ``without`` (no SDK is imported), ``otel`` (OpenTelemetry's own spans with the
same texts as attributes, sent in batches) or ``ours``, whose settings are those of the environment.
Each worker opens ``<its process id>.sock`` in the folder: it answers ``account`` and ``flush`` by
what was dropped so far, by reason.
"""

import asyncio
import heapq
import json
import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.load.corpus import PASSAGES, Texts, prompt


VARIANT = os.environ.get("LOAD_VARIANT", "without")  # noqa: TID251 - this app's own
FOLDER = Path(os.environ.get("LOAD_FOLDER", "."))  # noqa: TID251
SEED = 51
SECONDS = ContextVar("SECONDS", default=0.3)
"""How long the model takes, which the client says, so that it can subtract it."""


EVERYWHERE = 0.98
"""Share of the passages from which on a word says nothing."""


class Index:
    """Finds the passages that share most with a question, rare words first.

    It makes the bare service take about 8 ms of processor time a request.
    """

    def __init__(self, passages):
        self.passages = passages
        counts = [Counter(passage.lower().split()) for passage in passages]
        seen = Counter(word for each in counts for word in each)
        self._places = defaultdict(list)
        for place, count in enumerate(counts):
            for word, times in count.items():
                if seen[word] < EVERYWHERE * len(passages):
                    weight = math.log(len(passages) / seen[word]) * times / (times + 1)
                    self._places[word].append((place, weight))

    def search(self, question, number):
        scores = defaultdict(float)
        for word in question.lower().split():
            for place, weight in self._places.get(word, ()):
                scores[place] += weight
        best = heapq.nlargest(number, scores.items(), key=lambda pair: pair[1])
        return [
            {"content": self.passages[place], "chunk_id": str(place), "score": score}
            for place, score in best
        ]


class Tracing(NamedTuple):
    """How the functions of the service are traced, and how that is ended."""

    workflow: Callable = lambda function: function
    retrieval: Callable = lambda function: function
    llm: Callable = lambda function: function
    account: Callable = lambda **_: {}
    """Says how many records were dropped, by reason; with ``flush=True`` once all is delivered."""
    shutdown: Callable = lambda: None


def ours():
    import llmeval_sdk as llmeval
    from benchmarks.load import judge  # noqa: F401 - it is named in the settings

    def account(*, flush):
        stats = llmeval.flush(120) if flush else llmeval.stats()
        dropped = Counter()
        for exporter in stats.exporters.values():
            dropped.update(exporter.dropped)
        return dropped

    return Tracing(llmeval.workflow, llmeval.retrieval, llmeval.llm, account, llmeval.shutdown)


def otel():
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    decorate = otel_decorator(provider.get_tracer("service"))

    def account(*, flush):
        if flush:
            provider.force_flush()
        return {}

    return Tracing(decorate, decorate, decorate, account, provider.shutdown)


def otel_decorator(tracer):
    """Return what puts a function's text and answer into a span of OpenTelemetry."""

    def note(span, name, value):
        if isinstance(value, str):
            span.set_attribute(f"{name}.value", value)
        else:
            for place, chunk in enumerate(value):
                for key, part in chunk.items():
                    span.set_attribute(f"retrieval.documents.{place}.document.{key}", part)

    def decorate(function):
        if iscoroutinefunction(function):

            @wraps(function)
            async def call(text):
                with tracer.start_as_current_span(function.__name__) as span:
                    note(span, "input", text)
                    answered = await function(text)
                    note(span, "output", answered)
                    return answered

        else:

            @wraps(function)
            def call(text):
                with tracer.start_as_current_span(function.__name__) as span:
                    note(span, "input", text)
                    answered = function(text)
                    note(span, "output", answered)
                    return answered

        return call

    return decorate


index = Index(Texts(SEED).passages(PASSAGES, 200, 300))
tracing = {"without": Tracing, "otel": otel, "ours": ours}[VARIANT]()


@tracing.retrieval
def retrieve(question):
    return index.search(question, 5 + len(question) % 6)


@tracing.llm
async def generate(text):
    await asyncio.sleep(SECONDS.get())
    dice = random.Random(len(text))
    found, wanted, words = text.split(". "), dice.randint(80, 150), []
    while len(words) < wanted:
        words += dice.choice(found).split()
    return " ".join(words[:wanted])


@tracing.workflow
async def answer(question):
    chunks = retrieve(question)
    return await generate(prompt(question, [chunk["content"] for chunk in chunks]))


class Asked(BaseModel):
    """The body of a request."""

    question: str
    seconds: float


@asynccontextmanager
async def lifespan(app):
    async def control(reader, writer):
        flush = (await reader.readline()).strip() == b"flush"
        said = await asyncio.to_thread(tracing.account, flush=flush)
        writer.write(json.dumps(said).encode())
        writer.close()

    server = await asyncio.start_unix_server(control, FOLDER / f"{os.getpid()}.sock")
    yield
    server.close()
    await asyncio.to_thread(tracing.shutdown)


app = FastAPI(lifespan=lifespan)


@app.post("/answer")
async def asked(body: Asked) -> dict[str, str]:
    SECONDS.set(body.seconds)
    return {"answer": await answer(body.question)}
