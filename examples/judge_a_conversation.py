"""Judge whole conversations: once when a session has been idle, and a row that holds one."""

import time

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing.judge_server import JudgeServer


SLATE = "The roof of the town hall is made of slate."


@llmeval.workflow
def answer(question: str) -> str:
    return SLATE


@llmeval.heuristic(per="session")
def thanked(record: llmeval.Record) -> bool:
    """A free score of the app's own; the whole conversation stands in the steps."""
    return any(step.role == "user" and "thank" in step.content.lower() for step in record.steps)


with JudgeServer() as server:  # the stand-in; name your own model instead
    judge = {"judge_model": "stand-in", "judge_base_url": server.base_url}
    llmeval.configure(
        exporters=["memory"],
        evaluators=["goal_reached", "user_frustration"],
        session_idle=0.5,  # seconds; half an hour by default
        **judge,
    )
    for question in ("What is the roof made of?", "I said the OTHER roof!", "Thanks, never mind."):
        with llmeval.annotation_context(session_id="chat-7"):
            answer(question)

    deadline = time.monotonic() + 30
    while not llmeval.stats().sessions.get("evaluated") and time.monotonic() < deadline:
        time.sleep(0.1)
    llmeval.flush(timeout=20)
    for event in memory.evaluations():
        score = event.evaluation
        if score.metadata.get("scope") == "session":
            print(f"{score.metadata['session_id']} {score.name}: {score.value}")

    row = {"turns": [{"user": "Is it open?", "assistant": SLATE}, {"user": "Is it open?"}]}
    report = llmeval.evaluate([row], evaluators=["unanswered_questions"])
    print(report.rows[0].evaluations["unanswered_questions"].explanation)
