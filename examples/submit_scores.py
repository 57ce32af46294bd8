"""Scores of your own: evaluations and human feedback on a span, also after it ended."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory


@llmeval.workflow
def answer(question: str) -> dict[str, str] | None:
    """Answer, score it while the span is active, and remember where to send feedback."""
    llmeval.submit_evaluation(label="answer_length", metric_type="score", value=0.4)
    return llmeval.export_span()


llmeval.configure(exporters=["memory"])
span = answer("What is the roof made of?")
llmeval.submit_feedback(span=span, label="thumbs", value=True, submitter={"id": "user-7"})
llmeval.flush(timeout=10)
for event in memory.evaluations():
    print(
        event.target.span_id == (span or {})["span_id"],
        event.evaluation.evaluator_kind,
        event.evaluation.name,
    )
