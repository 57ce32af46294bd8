"""From a trace to a test: mark live requests, write down what is expected, evaluate by name."""

import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.offline import GoldenSet


folder = Path(tempfile.mkdtemp())
store = folder / "llmeval.db"
llmeval.configure(exporters=["local"], store=store)


@llmeval.retrieval
def search(question: str) -> list[dict]:
    return [{"content": "The roof is of slate.", "doc_uri": "survey.pdf"}]


@llmeval.workflow
def answer(question: str) -> str:
    search(question)
    return "Slate." if "roof" in question else "I do not know."


ids = []
for question in ("What is the roof made of?", "And the walls?"):
    with llmeval.workflow("request", request=question) as span:
        span.response = answer(question)
        ids.append(span.span_id)
llmeval.flush()

# `llmeval dataset add roofs ID` and the button of the viewer do the same
roofs = GoldenSet("roofs", folder=folder / "evals")
roofs.add(*ids, store=store)
roofs.edit(ids[0], expected_response="Slate.")
roofs.edit(ids[1], expected_response="The walls are of brick.")
print("versions:", roofs.versions, "in", roofs.path.name)

report = llmeval.evaluate(roofs, evaluators=["exact_match", "token_f1"], progress=False)
print("exact:", report.metrics["exact_match/average"])

# a public data set has columns of its own
public = [{"question": "What is the roof made of?", "answer": "Slate", "target": "slate"}]
mapped = {"question": "request", "answer": "response", "target": "expected_response"}
report = llmeval.evaluate(public, evaluators=["exact_match"], map_columns=mapped, progress=False)
print("exact:", report.metrics["exact_match/average"])
