"""An app whose databases ddtrace traces, as `ddtrace-run` has it; it says which spans that makes."""

import json
import sqlite3

import ddtrace
from ddtrace.trace import TraceFilter, tracer


class Seen(TraceFilter):
    names = []

    def process_trace(self, trace):
        self.names += [span.name for span in trace]


ddtrace.patch(sqlite3=True)
tracer.configure(trace_processors=[Seen()])

import llmeval_sdk as llmeval  # noqa: E402 - as in an app, which is traced before it imports us
from llmeval_sdk import testing  # noqa: E402


llmeval.configure(
    exporters=["local"],
    evaluators=["relevance_to_query"],
    llm=testing.FakeLLM('{"rationale": "fine", "rating": "yes"}'),
)
for number in range(20):
    with llmeval.workflow("answer", request=f"{number}?") as span:
        span.response = "Slate."
stats = llmeval.flush(30)
llmeval.shutdown(10)
ours = list(Seen.names)
sqlite3.connect(":memory:").execute("SELECT 1").fetchall()
print(json.dumps({"judged": dict(stats.judged), "ours": ours, "own": Seen.names[len(ours) :]}))
