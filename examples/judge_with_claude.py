"""A judge model of Anthropic, by its own client: strict verdicts, a cached rubric, its own prices.

With ANTHROPIC_API_KEY set, `LLMEVAL_JUDGE_MODEL=anthropic/claude-haiku-4-5` does the same without a
line of code; here a stand-in on the loopback interface answers in Anthropic's wire.
"""
# needs: anthropic

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.providers import AnthropicLLM
from llmeval_sdk.testing.provider_server import AnthropicServer


@llmeval.workflow(evaluators=["groundedness"])
def answer(question: str) -> str:
    llmeval.annotate(retrieved_context=["The mill at the river was built in 1786."])
    return "It was built in 1786."


with AnthropicServer() as server:
    judge = AnthropicLLM("claude-haiku-4-5", base_url=server.base_url, api_key="none")
    llmeval.configure(exporters=["memory"], llm=judge, prices={"stand-in": (1.0, 5.0, 0.1, 1.25)})
    answer("When was the mill built?")
    stats = llmeval.flush(timeout=20)
    asked = server.chats[0].body

print("judged:", dict(stats.judged), f"for USD {stats.judge_usage.cost_usd:.6f}")
print("asked for:", asked["output_config"]["format"]["type"])
print("cached:", asked["system"][0]["cache_control"])
