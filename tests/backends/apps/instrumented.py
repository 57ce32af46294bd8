"""A small app whose model calls one library instruments; prints what became of them.

python instrumented.py LIBRARY WAY   # LIBRARY: a function of this file; WAY: plain, stream or async

It only ever adds our processor to the provider of the app, as an app that is instrumented already
does. The model is the stand-in server, which answers "Slate.".
"""

import asyncio
import json
import os
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.testing import capture
from llmeval_sdk.testing.judge_server import JudgeServer


RECORDS = []


@llmeval.heuristic
def what_was_seen(record):
    RECORDS.append(record)
    return 1.0


def opentelemetry(processor):
    """OpenTelemetry's own: on spans the content is opt-in, and new."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    opentelemetry_without_content(processor)


def opentelemetry_without_content(processor):
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=_provider(processor))


def traceloop(processor):
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=_provider(processor))


def openinference(processor):
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=_provider(processor))


def logfire(processor):
    import logfire

    logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[processor])
    logfire.instrument_openai()


def mlflow(processor):
    """Has a provider of its own unless it is told to use the app's."""
    os.environ["MLFLOW_USE_DEFAULT_TRACER_PROVIDER"] = "false"
    _mlflow()
    trace.set_tracer_provider(_provider(processor))


def mlflow_own_provider(processor):
    """Nothing of MLflow reaches the app's provider: its spans are its own affair."""
    _mlflow()
    trace.set_tracer_provider(_provider(processor))


def _mlflow():
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow

    mlflow.set_tracking_uri("http://127.0.0.1:9")  # nobody there: traces go nowhere
    mlflow.openai.autolog()


def _provider(processor):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


def ask(base_url, way):
    """Call the model as apps do."""
    from openai import AsyncOpenAI, OpenAI

    client = {"base_url": base_url, "api_key": "none", "max_retries": 0}
    asked = {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which roof?"},
        ],
    }
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    if way == "plain":
        OpenAI(**client).chat.completions.create(**asked)
    elif way == "stream":
        for _ in OpenAI(**client).chat.completions.create(**asked, **streamed):
            pass
    else:

        async def call():
            async for _ in await AsyncOpenAI(**client).chat.completions.create(**asked, **streamed):
                pass

        asyncio.run(call())


def main(library, way):
    globals()[library](EvaluationSpanProcessor(evaluators=[what_was_seen]))
    with JudgeServer(lambda request: "Slate.") as server, capture() as seen:
        ask(server.base_url, way)
        seen.drain()
    found = [
        {
            "request": record.request,
            "response": record.response,
            "tokens": record.usage and [record.usage.input_tokens, record.usage.output_tokens],
            "about": dict(record.attributes),
            "kind": record.span_kind,
        }
        for record in RECORDS
    ]
    print(json.dumps(found), flush=True)
    os._exit(0)  # MLflow would try for minutes to deliver


if __name__ == "__main__":
    main(*sys.argv[1:])
