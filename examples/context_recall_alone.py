"""ContextRecall used alone: one call, one score with its reason, no tracing and no set-up.

The judge is shown worked examples; those of one's own take the place of the built-in ones.
"""

import llmeval_sdk as llmeval
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.testing.judge_server import JudgeServer


with JudgeServer() as server:  # a stand-in by rules; model="gpt-4o" asks OpenAI instead
    judge = llmeval.ContextRecall(
        model=OpenAILLM("stand-in", base_url=server.base_url, api_key="none")
    )
    mine = llmeval.ContextRecall(
        model=judge.model,
        examples=[
            {
                "input": "What is the deposit?",
                "output": "Forty pounds.",
                "expected_output": "Forty pounds, due with the key.",
                "context": "The deposit of forty pounds is due when the key is handed over.",
                "score": 0.6,
                "reason": "The sum is right; when it is due is missing.",
            }
        ],
    )
    result = mine.score(
        input="When was the mill built, and of what is its wheel?",
        output="It was built in 1786.",
        expected_output="The mill was built in 1786 and its wheel is of oak.",
        context=["The mill at the river was built in 1786.", "Its wheel is made of oak."],
    )

print(f"{result.value:.2f}: {result.reason}")
print("versions, whose scores are not compared:", judge.version, "and", mine.version)
