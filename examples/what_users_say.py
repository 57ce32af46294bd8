"""Feedback is a score: thumbs in reports and alerts, and a correction that becomes a test.

An alert on few clicks says little: `report` names the share of the traffic that gave any.
"""

import sys
import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.offline import GoldenSet


folder = Path(tempfile.mkdtemp())
store = str(folder / "llmeval.db")
llmeval.configure(exporters=["local"], store=store)

spans = []
for number in range(30):
    question = f"What is the roof of house {number} made of?"
    with llmeval.workflow("answer", request=question) as span:
        span.response = "Slate."
        spans.append(span)
for number, span in enumerate(spans[:10]):
    llmeval.submit_feedback(label="thumbs", value=number % 4 != 0, span=span)
llmeval.submit_feedback(
    label="correction", value="Thatch.", span=spans[4], submitter={"id": "user-42"}
)
llmeval.flush(timeout=10)

alert = main(["report", "--store", store, "--since", "1h", "--alert", "thumbs<0.9"])
print("the alert ended the command with", alert)

# what the user wrote instead is what is expected from now on
roofs = GoldenSet("roofs", folder=folder / "datasets")
roofs.add(spans[4].span_id, store=store, expected_response="Thatch.")
report = llmeval.evaluate(roofs, evaluators=["exact_match"], progress=False)
print("exact:", report.metrics["exact_match/average"])
sys.exit(0 if alert == 1 else 1)
