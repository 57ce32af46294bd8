"""An app that books what needs no look, and has people look at the rest.

`llmeval accept --field total --error 2% --save sure` finds and saves the threshold, by labels of
values drawn at random; here it is set by hand.
"""

import tempfile
import time
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.evaluation.acceptances import SavedThreshold, save
from llmeval_sdk.heuristics.extraction.risk import extraction_risk
from llmeval_sdk.store.state import state_path


store = Path(tempfile.mkdtemp()) / "llmeval.db"
save(
    state_path(store),
    SavedThreshold(
        field="total", span_name="read_receipt", threshold=0.05, error=0.02, promise="sure",
        share=0.8, values=5_000, labels=300, version=extraction_risk.version,
        saved_ns=time.time_ns(),
    ),
)  # fmt: skip
llmeval.configure(store=store)


def read_receipt(text: str, total: str) -> None:
    with llmeval.workflow("read_receipt") as span:
        span.annotate(value={"total": total}, retrieved_context=[text])
        if llmeval.accepts(span, field="total"):
            print(f"{total}: booked")
        else:  # or an audit: one accepted value in a hundred is looked at as well
            print(f"{total}: somebody looks at it")


read_receipt("Subtotal 41.50\nTax 3.32\nTotal due 44.82", "44.82")
read_receipt("Subtotal 41.50\nTax 3.32\nTotal due 44.82", "41.50")
llmeval.flush()
