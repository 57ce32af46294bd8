"""Talks twice to an agent with a tool, and goes on until the session is judged."""

import time

import llmeval_sdk as llmeval


@llmeval.judge(per="session")
async def fine(record, llm):
    """Rate every conversation as good."""
    return True


@llmeval.tool
def get_order(order_id):
    return {"status": "shipped"}


@llmeval.agent
def support(question):
    get_order("A17")
    return "It is shipped."


llmeval.configure(exporters=["datadog"], evaluators=[fine], session_idle=0.5)
for question in ("Where is order A17?", "Are you sure?"):
    with llmeval.annotation_context(session_id="chat-7"):
        support(question)
deadline = time.monotonic() + 60
while not llmeval.stats().judged.get("fine") and time.monotonic() < deadline:
    time.sleep(0.05)
print(llmeval.shutdown(20).complete)
