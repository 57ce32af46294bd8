"""Writes the store and the spool folder that every later release has to read.

``make release ARGS=--freeze`` runs it once for each release, with the public API alone. What it wrote
is committed and never written again, as a store in production is as old as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


DAYS_AGO = 60
"""How old the records are, so that no test sees them as the traffic of the last day or month."""


def set_clock_back() -> None:
    """Have this process believe that it is some weeks ago."""
    for name, unit in (("time", 1), ("time_ns", 1_000_000_000)):
        clock, late = getattr(time, name), DAYS_AGO * 86_400 * unit
        setattr(time, name, lambda clock=clock, late=late: clock() - late)


if sys.argv[1].startswith("--"):  # before others take the clock as it is
    set_clock_back()
import llmeval_sdk as llmeval  # noqa: E402


CHUNKS = [
    {"content": "The roof is of slate, laid in 1998.", "doc_uri": "survey.txt", "chunk_id": "1",
     "score": 0.91, "page": 3, "retrieval_method": "bm25"},
    {"content": "The door is red.", "doc_uri": "house.txt", "chunk_id": "2", "score": 0.4,
     "retrieval_method": "knn"},
    {"content": "Slate costs 40 euro a metre.", "doc_uri": "prices.txt", "chunk_id": "3"},
]  # fmt: skip


@llmeval.heuristic
def cites_a_page(record: llmeval.Record) -> bool:
    """Return a bool: pass or fail."""
    return "page" in str(record.response)


@llmeval.heuristic
def length_class(record: llmeval.Record) -> str:
    """Return a category."""
    return "long" if len(str(record.response)) > 20 else "short"


@llmeval.heuristic
def always_fails(record: llmeval.Record) -> float:
    """Fail, so that an error is kept."""
    raise LookupError(f"no table for {record.request}")


@llmeval.judge(per="chunk")
def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
    """Judge one chunk."""
    return llm.ask(f"CHUNK {chunk.content}") == "yes"


@llmeval.judge
def breaks(record: llmeval.Record, llm: llmeval.LLM) -> float:
    """Fail, as a judge."""
    raise ValueError("the judge broke")


polite = llmeval.LLMJudge("polite", "Is the answer polite?\n\n{response}")
never = llmeval.LLMJudge("never_sampled", "Is it short?\n\n{response}")


def answers(messages: list[llmeval.Message]) -> str:
    """Stand for a judge model."""
    asked = messages[-1].content
    if asked.startswith("CHUNK "):
        return "yes" if "slate" in asked.lower() else "no"
    bad = "go away" in asked.lower() or "roof age" in asked.lower()
    verdict = {"rationale": "bad" if bad else "fine", "rating": "no" if bad else "yes"}
    whole = " ".join(message.content for message in messages)
    if "right_value" in whole:
        verdict |= {"problem": "wrong_value" if bad else "none", "right_value": "slate"}
    elif '"score"' in whole:
        verdict = {"rationale": "some are missing", "score": 0.25}
    return json.dumps(verdict)


def ask(question: str, response: str, **options: object) -> dict[str, str]:
    """Run one request with a retrieval, a task with a tool, and a call of a model."""
    with llmeval.workflow("answer", request=question, session_id="session-1", **options) as span:
        with llmeval.retrieval("search", request=question) as step:
            step.retrieved_context = CHUNKS
        with llmeval.task("prepare", request=question):
            with llmeval.tool("lookup", request={"id": 7}) as step:
                step.response = {"rows": 2}
            with llmeval.embedding(
                name="embed", model_name="small", model_provider="local"
            ) as step:
                step.annotate(request=question, metrics={"input_tokens": 3})
        with llmeval.llm(name="ask", model_name="gpt-4o-mini", model_provider="openai") as step:
            step.annotate(
                request={"messages": [{"role": "user", "content": question}]},
                response={"role": "assistant", "content": response},
                prompt=llmeval.Prompt("p-1", "3", "{q}?", variables={"q": question}),
                metrics={"input_tokens": 50, "output_tokens": 20, "total_tokens": 70},
            )
        span.annotate(
            retrieved_context=CHUNKS,
            response=response,
            tags={"team": "roofs"},
            metadata={"attempt": 1, "deep": {"list": [1, 2.5, None, True]}},
            metrics={"seconds": 0.25},
            expected_facts=["the roof is of slate"],
        )
        return llmeval.export_span() or {}


def extract(name: str, value: str | None, contributing: int, **options: object) -> dict[str, str]:
    """Extract one field from the chunks."""
    with llmeval.workflow("extract_field", request=name, **options) as span:
        with llmeval.retrieval("hybrid_search", request=name) as step:
            step.retrieved_context = CHUNKS
        span.annotate(
            retrieved_context=CHUNKS,
            extractions=[
                {
                    "value": value,
                    "chunk_number": n + 1,
                    "confidence": "HIGH",
                    "evidence": "of slate",
                }
                for n in range(contributing)
            ],
            value=value,
            confidence="HIGH",
            field_config={"name": name, "description": "what the roof is made of"},
            retrieval={"limits": {"bm25": 2, "knn": 1}, "total_before_filter": 9},
            response=value,
        )
        return llmeval.export_span() or {}


def requests() -> None:
    """Make a request of every kind that is kept in a different way."""
    good = ask("What is the roof made of?", "It is of slate, as page 3 says.",
               evaluators=[on_topic, polite, never])  # fmt: skip
    rude = ask("What does slate cost?", "Go away.", evaluators=[on_topic, polite, breaks])
    extract("roof type", "slate", 3)
    wrong = extract("roof age", "12", 1, evaluators=["extraction_correctness"])
    extract("roof owner", None, 1)
    try:
        with llmeval.agent("plan", request="Plan the repair") as span:
            span.annotate(response="first measure")
            raise TimeoutError("the tool did not answer")
    except TimeoutError:
        pass
    llmeval.submit_evaluation(span=good, label="checked", value=0.75, reasoning="by hand",
                              assessment="pass", tags={"by": "nightly"})  # fmt: skip
    llmeval.submit_evaluation(span=rude, label="helpful", value=False)
    llmeval.submit_evaluation(label="without_a_span", value="amber")
    llmeval.submit_feedback(span=good, label="thumbs", value="up", submitter={"id": "42"})
    llmeval.submit_feedback(span=rude, label="thumbs", value="down", reasoning="impolite")
    llmeval.submit_feedback(span=wrong, label="extraction_correctness", value="no")


def foreign() -> None:
    """Let an instrumentation of OpenTelemetry make the spans."""
    from opentelemetry.sdk.trace import TracerProvider

    from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(EvaluationSpanProcessor())
    tracer = provider.get_tracer("some-instrumentation")

    def message(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    with tracer.start_as_current_span("invoke_agent surveyor") as agent:
        agent.set_attribute("gen_ai.operation.name", "invoke_agent")
        agent.set_attribute("gen_ai.input.messages", message("user", "Which roof is it?"))
        with tracer.start_as_current_span("retrieval survey") as retrieval:
            retrieval.set_attribute("gen_ai.operation.name", "retrieval")
            found = [{"id": "1", "content": "The roof is of slate.", "score": 0.9}]
            retrieval.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
        with tracer.start_as_current_span("chat gpt-4o") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            chat.set_attribute("gen_ai.request.model", "gpt-4o")
            chat.set_attribute("gen_ai.usage.input_tokens", 11)
            chat.set_attribute("gen_ai.usage.output_tokens", 4)
        agent.set_attribute("gen_ai.output.messages", message("assistant", "Slate, of 1998."))


@llmeval.workflow(evaluators=[never])
def answered_briefly() -> None:
    """Name the judge that a sampling rule is about, which rules have to know."""


RULES = [
    llmeval.SamplingRule(0.0, evaluator="never_sampled"),
    llmeval.SamplingRule(1.0),
]
ESCALATIONS = [
    llmeval.Escalation(
        "context_recall_llm", when=llmeval.below("context_recall_heuristic", 0.7), control_rate=0.0
    ),
    llmeval.Escalation("groundedness", when=llmeval.below("cites_a_page", 0.5), control_rate=0.0),
]


def write_store(path: str) -> None:
    """Write every record with judges, then one more whose judge the budget refuses."""
    from llmeval_sdk.testing import FakeLLM

    given = {
        "exporters": ["local"],
        "evaluators": [cites_a_page, length_class, always_fails],
        "sampling_rules": RULES,
        "escalations": ESCALATIONS,
        "store": path,
    }
    llmeval.configure(**given, llm=FakeLLM(answers))
    requests()
    foreign()
    assert llmeval.flush(timeout=30).complete
    llmeval.configure(**given, llm=FakeLLM(answers), budget=llmeval.Budget(calls_per_minute=0))
    ask("Is it refused?", "By the budget, on page 1.", evaluators=[polite])
    assert llmeval.flush(timeout=30).complete
    llmeval.configure(**given)
    ask("Is there a model?", "No model is configured, as page 2 says.", evaluators=[polite])
    llmeval.shutdown(timeout=30)


def write_spool(folder: str) -> None:
    """Leave every record in the spool, as a process that is killed does."""
    llmeval.configure(
        exporters=["local"], spool=folder, worker="off", store=f"{folder}.db",
        evaluators=[cites_a_page, length_class, always_fails],
    )  # fmt: skip
    requests()
    foreign()
    os._exit(0)


def main(to: Path) -> None:
    """Write both, each in a process and a folder of its own."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        names = ("PATH", "HOME", "PYTHONPATH")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        environment["XDG_STATE_HOME"] = f"{folder}/state"
        for what, target in (("store", f"{folder}/own/store.db"), ("spool", f"{folder}/spool")):
            command = [sys.executable, __file__, f"--{what}", target]
            subprocess.run(command, env=environment, check=True)
        shutil.copy(f"{folder}/own/store.db", to / "store.db")
        shutil.copytree(f"{folder}/spool", to / "spool")


if __name__ == "__main__":
    if sys.argv[1] == "--store":
        write_store(sys.argv[2])
    elif sys.argv[1] == "--spool":
        write_spool(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
