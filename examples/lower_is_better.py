"""A score of your own that is better when it is lower: the worst requests are the highest.

It says so once, and every list, colour, comparison and gate knows.
"""

import sys
import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


@llmeval.heuristic(better="lower")
def wordiness(record: llmeval.Record) -> float:
    """Say which part of an answer's words repeats words of the question."""
    asked = set(str(record.request).lower().split())
    words = str(record.response).lower().split()
    return sum(word in asked for word in words) / max(len(words), 1)


ANSWERS = {
    "What is the roof of the mill made of?": "The roof of the mill is made of slate.",
    "And what is under it?": "Battens.",
    "How old is the roof?": "How old the roof is, nobody knows.",
}
store = str(Path(tempfile.mkdtemp()) / "llmeval.db")
llmeval.configure(exporters=["local"], store=store, evaluators=[wordiness])
for question, text in ANSWERS.items():
    with llmeval.workflow("answer", request=question) as span:
        span.response = text
llmeval.flush(timeout=10)

codes = [
    main(["traces", "--store", store, "--worst", "wordiness"]),
    main(["report", "--store", store, "--evaluator", "wordiness"]),
]
sys.exit(max(codes))
