"""An exporter of your own: send what you need to wherever your team looks.

Derive it from `BaseExporter` and write ``export``. It runs on a thread of its own: however slow or
broken the far end is, the app does not wait, and each record is counted as delivered or as lost.
"""

import json
import sys
from typing import TextIO

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import Batch
from llmeval_sdk.model.protocols import BaseExporter


class Alarms(BaseExporter):
    """Writes one JSON line for each request whose score is below a limit."""

    name = "alarms"

    def __init__(self, file: TextIO, *, score: str, below: float) -> None:
        self._file = file
        self._score = score
        self._below = below

    def export(self, batch: Batch, /) -> dict[str, int] | None:
        """Write the alarms of a batch; say how many records cannot be written, and why."""
        lines, refused = [], 0
        for event in batch.evaluations:
            value = event.evaluation.value
            if event.evaluation.name != self._score or not isinstance(value, float):
                continue
            if event.target.trace_id is None:
                refused += 1  # counted under this reason in llmeval.stats()
            elif value < self._below:
                lines.append(json.dumps({"trace": event.target.trace_id, "value": value}))
        try:
            self._file.write("".join(f"{line}\n" for line in lines))
            self._file.flush()
        except OSError as error:  # delivery tries the same batch again, for up to ten minutes
            raise ExportError("disk", str(error), retryable=True) from error
        return {"no_trace": refused} if refused else None


llmeval.configure(exporters=[Alarms(sys.stdout, score="context_relevance", below=0.7), "local"])


@llmeval.workflow
def answer(question: str) -> str:
    """Retrieve two passages of which one says nothing about the question."""
    chunks = [{"content": "The roof is slate.", "score": 0.9}, {"content": "Menu", "score": 0.1}]
    llmeval.annotate(retrieved_context=chunks)
    return "slate"


answer("What is the roof made of?")
account = llmeval.flush().exporters["alarms"]
print(f"delivered {account.delivered} of {account.created} records, lost {account.dropped}")
