"""ddtrace's LLM Observability with a local agent, as Datadog recommends it for production.

Only what would leave the machine or needs a real agent is off: its own telemetry and remote
configuration. Integrations are off, as nothing here is to be instrumented. It scores nothing.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {
        "DD_TRACE_AGENT_URL": url,
        "DD_LLMOBS_ML_APP": "bench",
        "DD_SERVICE": "bench",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
        "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    }


class Peer:
    def __init__(self, url):
        from ddtrace import tracer
        from ddtrace.llmobs import LLMObs
        from ddtrace.llmobs.decorators import workflow

        LLMObs.enable(integrations_enabled=False, agentless_enabled=False)

        @workflow
        def traced(question):
            LLMObs.annotate(input_data=question, output_data=ANSWER)
            return ANSWER

        self.traced = traced
        self.flush = lambda: (LLMObs.flush(), tracer.flush())
