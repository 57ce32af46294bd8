"""Starts in many ways, good and bad; says what came of it."""

import sys


def own_enable():
    from ddtrace.llmobs import LLMObs

    LLMObs.enable(ml_app="theirs", agentless_enabled=False, integrations_enabled=False)
    one_call()


def late_enable():
    one_call()
    from ddtrace.llmobs import LLMObs

    LLMObs.enable(ml_app="theirs", agentless_enabled=False, integrations_enabled=True)
    one_call("second")
    import openai

    print("patched", hasattr(openai, "_datadog_integration"))


def configure():
    import llmeval_sdk as llmeval

    try:
        llmeval.configure(exporters=["datadog"])
    except llmeval.errors.ConfigurationError as error:
        print("refused:", error)
        return
    one_call()


def one_call(name="call"):
    import llmeval_sdk as llmeval

    @llmeval.workflow(name=name)
    def call(question):
        llmeval.submit_evaluation(label="own", value=0.5)
        return question

    print("returned", call("x"))
    stats = llmeval.flush(10)
    print("exporters", sorted(stats.exporters), "complete", stats.complete)


globals()[sys.argv[1]]()
