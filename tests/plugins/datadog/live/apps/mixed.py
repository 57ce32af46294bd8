"""Spans of ours below one of ddtrace's own, with a store beside Datadog."""

from ddtrace.llmobs import LLMObs

import llmeval_sdk as llmeval


llmeval.configure(exporters=["datadog", "local"])


@llmeval.task
def step():
    pass


@llmeval.workflow
def answer():
    step()


answer()
with LLMObs.workflow("theirs"):
    answer()
    answer()
llmeval.flush(timeout=None)
