"""ContextRecall used alone: one call, one score with its reason, no tracing and no set-up."""

import llmeval_sdk as llmeval
from llmeval_sdk.llms import OpenAILLM
from llmeval_sdk.testing.judge_server import JudgeServer


with JudgeServer() as server:  # a stand-in by rules; model="gpt-4o" asks OpenAI instead
    judge = llmeval.ContextRecall(
        model=OpenAILLM("stand-in", base_url=server.base_url, api_key="none")
    )
    result = judge.score(
        input="When was the mill built, and of what is its wheel?",
        output="It was built in 1786.",
        expected_output="The mill was built in 1786 and its wheel is of oak.",
        context=["The mill at the river was built in 1786.", "Its wheel is made of oak."],
    )

print(f"{result.value:.2f}: {result.reason}")
