"""Calls a traced function while the far end misbehaves; says how long each call took."""

import sys
import time

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.datadog import exporter


exporter.REQUEST_SECONDS = 1.0
llmeval.configure(exporters=["datadog"], heuristics="off")
big = "--big" in sys.argv
text = "x" * (100_000 if big else 10)


@llmeval.workflow
def call(number):
    llmeval.submit_evaluation(label="own", value=0.5)
    return text + str(number)


call(0)
times = []
for number in range(300 if big else 200):
    begun = time.perf_counter()
    call(number)
    times.append(time.perf_counter() - begun)
    time.sleep(0.002)
stats = llmeval.flush(float(sys.argv[1]))
each = stats.exporters["datadog"]
print("worst_ms", round(max(times) * 1e3))
print("created", each.created)
print("balanced", each.balanced)
print("evaluations", each.dropped, each.unknown, each.delivered, each.undelivered)
print("problems", dict(stats.problems))
