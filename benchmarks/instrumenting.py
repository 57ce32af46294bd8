"""What `llmeval.instrument` adds to a call, beside the bare instrumentation in the same run.

Two clients of OpenAI get their answers from memory, without a network. One is traced by
OpenInference's instrumentation into a provider without processors, the other by `wrap_openai`,
which takes the way of `instrument`. Their calls alternate, and the medians are compared. Times are the
CPU time of the calling thread: what other processes do to the machine is no part of them, and the bars scale with a bare span of
OpenTelemetry in the same run. Prints one row per figure with its bar, and exits 1 if one is missed.

    python -m benchmarks.instrumenting [--calls 2000]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time

import httpx2
import openai
from openinference.instrumentation import OITracer, TraceConfig
from openinference.instrumentation.openai import _request
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from benchmarks.measures import QUIET_OTEL_US, Table
from llmeval_sdk.plugins.instrument.patching import _wrap


BAR_US = 60.0
FIRST_TOKEN_BAR_US = 30.0
"""Nothing that can be seen: a hundredth of what the client itself takes for a call."""
TEXT = "The mill at the river was built in 1786 and its wheel is made of oak. " * 7
MESSAGES = [
    {"role": "system", "content": "Answer from the passages."},
    {"role": "user", "content": f"{TEXT}\n\nWhen was the mill built?"},
]
USAGE = {"prompt_tokens": 120, "completion_tokens": 9, "total_tokens": 129}
ABOUT = {"id": "c", "created": 1, "model": "gpt-4o"}
PLAIN = {
    **ABOUT,
    "object": "chat.completion",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}
    ],
    "usage": USAGE,
}
PART = {**ABOUT, "object": "chat.completion.chunk"}
PARTS = [{**PART, "choices": [{"index": 0, "delta": {"content": "mill "}}]}] * 20


def answer(request):
    """Answer from memory, as the server of a model does."""
    if json.loads(request.content).get("stream"):
        text = "".join(f"data: {json.dumps(part)}\n\n" for part in PARTS) + "data: [DONE]\n\n"
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    return httpx2.Response(200, json=PLAIN)


def client():
    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(base_url="http://model/v1", api_key="none", http_client=transport)


def bare():
    """A client that OpenInference traces into a provider that keeps nothing."""
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = OITracer(provider.get_tracer("bare"), config=TraceConfig())
    traced = client()
    _wrap(traced, _request._Request(tracer=tracer, openai=openai))
    return traced


def whole(traced):
    traced.chat.completions.create(model="gpt-4o", messages=MESSAGES)


def in_a_workflow(traced):
    with llmeval.workflow("answer", request="When?"):
        whole(traced)


def to_first_token(traced):
    """Return how long a stream keeps its reader waiting; the rest is read untimed."""
    begun = time.thread_time_ns()
    stream = traced.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
    next(stream)
    waited = time.thread_time_ns() - begun
    for _ in stream:
        pass
    return waited


def timed(call, traced):
    begun = time.thread_time_ns()
    waited = call(traced)
    return (waited or time.thread_time_ns() - begun) / 1_000


def difference(call, clients, calls):
    """Return the median of the bare call, and of what ours takes more, in microseconds."""
    theirs, ours = [], []
    for number in range(calls):
        order = (0, 1) if number % 2 else (1, 0)
        for place in order:
            (theirs, ours)[place].append(timed(call, clients[place]))
        if number % 100 == 99:
            llmeval.flush(30)
    more = [mine - its for its, mine in zip(theirs, ours, strict=True)]
    return statistics.median(theirs), statistics.median(more)


def slower(calls=3_000):
    """Return how much slower than the machine of the bars this one is, by a bare span."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("bare")
    times = []
    for _ in range(calls):
        begun = time.thread_time_ns()
        with tracer.start_as_current_span("bare"):
            pass
        times.append((time.thread_time_ns() - begun) / 1_000)
    return max(1.0, statistics.median(times) / QUIET_OTEL_US)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=2_000)
    calls = parser.parse_args().calls
    llmeval.configure(exporters=["memory"])
    clients = (bare(), llmeval.wrap_openai(client()))
    table = Table()
    gc.disable()
    for figure, call, bar in (
        ("a call, beside the bare instrumentation", whole, BAR_US),
        ("a call inside a workflow, beside the bare one", in_a_workflow, BAR_US),
        ("time to the first token of a stream", to_first_token, FIRST_TOKEN_BAR_US),
    ):
        difference(call, clients, 50)
        base, more = difference(call, clients, calls)
        gc.collect()
        most = bar * slower()
        table.row(figure, f"{base:.0f} + {more:.1f} µs", f"+ < {most:.0f} µs", ok=more < most)
    llmeval.shutdown(10)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
