"""Context: threads keep the active span by a helper, other processes by traceparent and baggage."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.tracing import ContextExecutor, extract, inject


@llmeval.task
def step(name: str) -> str:
    """Do some work that belongs to the request."""
    return name.upper()


llmeval.configure(exporters=["memory"])
headers: dict[str, str] = {}
with llmeval.workflow("request", session_id="chat-7"):
    with ContextExecutor(max_workers=2) as pool:
        print(list(pool.map(step, ["first", "second"])))
    inject(headers)  # send these with your HTTP call …

with extract(headers):  # … and put this around its handler
    step("remote")
llmeval.flush(timeout=10)
traces = {span.trace_id for span in memory.spans()}
sessions = {span.session_id for span in memory.spans()}
print(f"{len(memory.spans())} spans in {len(traces)} trace, of session {sessions}")
