"""Puts texts, names and secrets wherever it can; with ``own``, redacts by a function of its own."""

import sys

import llmeval_sdk as llmeval
from llmeval_sdk import Chunk, Extraction, Prompt
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing.judge_server import JudgeServer


KEY = "sk-" + "abcdefghij0123456789xyz"


class Text(str):
    """A text of a class of the app's."""

    __slots__ = ()


@llmeval.heuristic
def own_score(record):
    return llmeval.Evaluation(
        "own_score", 0.25, label="label-name", explanation=f"own-text {record.response}"
    )


def hide(text):
    return text.replace("own-secret", "***")


llmeval.configure(
    exporters=["datadog"],
    datadog_integrations=("openai",),
    evaluators=[own_score],
    redact=hide if "own" in sys.argv else None,
)

import openai  # noqa: E402 - after it was instrumented


server = JudgeServer().__enter__()
client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0)
PROMPT = Prompt("p", "1", "prompt-text {q}", variables={"q": Text(f"q-text {KEY} own-secret")})
SAY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@llmeval.workflow
def outer():
    with llmeval.annotation_context(
        prompt=PROMPT, tags={"k": f"tag-name {KEY}"}, name=f"call-name {KEY}"
    ):
        client.chat.completions.create(**SAY)


def run(name):
    session = f"session-name {KEY}"
    with llmeval.workflow(name, tags={"k": "tag-name"}, session_id=session) as span:
        with llmeval.retrieval("span-name search") as step:
            step.retrieved_context = [
                Chunk("chunk-text", "doc-name", "chunk-name", 0.5, 1, "bm25", {"m": "meta-text"})
            ]
        with llmeval.llm(name=f"{name} ask", request="q-text", model_name="gpt-4o") as step:
            step.annotate(prompt=PROMPT, tags={"session_id": session})
            client.chat.completions.create(**SAY)
            step.response = f"a-text {KEY} own-secret"
        span.annotate(
            request="q-text", response="a-text", value="value-text",
            extractions=[Extraction("value-text", 1, "HIGH", "proof-text")],
            metadata={"note": "meta-text"}, metrics={"metric-name": 7.0},
        )  # fmt: skip
        llmeval.submit_evaluation(
            label="submitted", value=0.5, reasoning="why-text", assessment="label-name",
            metadata={"m": "meta-text"}, tags={"t": "tag-name"},
        )  # fmt: skip
        raise ValueError("error-text")


for span_name in ("span-name", f"span-name late {KEY}"):
    try:
        run(span_name)
        outer()
    except ValueError:
        outer()
    stats = llmeval.flush(20)
    print("problems", dict(stats.problems), "dropped", dict(stats.dropped))
    runtime.in_force.shutdown(
        5.0
    )  # what comes now is dropped; ddtrace sends its spans all the same

from ddtrace.llmobs import LLMObs  # noqa: E402


LLMObs.flush()
