"""ddtrace, which wraps the clients of vendors and of HTTP for everybody, sees the app's calls only."""

import os
import subprocess
import sys

import pytest


pytest.importorskip("ddtrace", reason="needs the extra datadog")

APP = """
import asyncio
import ddtrace
from ddtrace.trace import TraceFilter, tracer

ddtrace.patch(openai=True, httpx2=True)
names = []

class Kept(TraceFilter):
    def process_trace(self, trace):
        names.extend(span.name for span in trace)

tracer.configure(trace_processors=[Kept()])

import openai
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.testing.judge_server import JudgeServer

with JudgeServer() as server:
    make = lambda: openai.AsyncOpenAI(base_url=server.base_url, api_key="k")
    assert OpenAILLM("m", base_url=server.base_url).ask("?")
    assert OpenAILLM("m", client=make).ask("?")
    assert names == [], names
    headers = [name for chat in server.chats for name in chat.headers]
    assert not any("datadog" in name or "trace" in name for name in headers), headers

    async def app():
        async with make() as client:
            messages = [{"role": "user", "content": "?"}]
            await client.chat.completions.create(model="m", messages=messages)

    asyncio.run(app())
    assert names == ["openai.request", "http.request"], names
"""


def test_a_judge_s_calls_make_no_spans_of_ddtrace():
    """Neither by the client that we make nor by one of the app's; and no header of it is sent."""
    quiet = {"DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0", "DD_REMOTE_CONFIGURATION_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", APP],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
