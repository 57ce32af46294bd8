"""A session of a shop's agent, written by the SDK itself: python sample_chat.py STORE.

Its run has parallel calls, a sub-agent, a failed call and one that is repeated; its session was
judged after two pauses.
"""

import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import llmeval_sdk as llmeval
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.tracing import wrap_context


ANSWER = """Order **A17** was sent on Monday.

| parcel | state |
|-|-|
| 1 | delivered |
| 2 | on its way |

- The refund of `12.50 EUR` could not be made.
"""


@llmeval.tool
def get_order(number: str) -> dict:
    time.sleep(0.02)
    return {
        "number": number,
        "state": "shipped",
        "parcels": [{"id": 1, "state": "delivered"}, {"id": 2}],
    }


@llmeval.tool
def find_invoice(order: str) -> str:
    time.sleep(0.03)
    return '{"total": 912.5, "currency": "EUR", "lines": [{"item": "slate", "price": 900}]}'


@llmeval.tool(effect="write")
def refund(order: str, amount: float) -> str:
    raise TimeoutError("the bank did not answer")


@llmeval.tool
def search_faq(words: str) -> list:
    return []


@llmeval.agent
def researcher(topic: str) -> str:
    for _ in range(3):
        search_faq(topic)
    return "nothing"


@llmeval.llm(model="gpt-4o-mini", model_provider="openai")
def call_model(messages: list) -> str:
    llmeval.annotate(metrics={"input_tokens": 1_840, "output_tokens": 96})
    return ANSWER


@llmeval.agent
def support(question: str) -> str:
    with ThreadPoolExecutor() as pool:
        for work in [pool.submit(wrap_context(find), "A17") for find in (get_order, find_invoice)]:
            work.result()
    researcher("refunds")
    with contextlib.suppress(TimeoutError):
        refund("A17", 12.5)
    messages = [
        {"role": "system", "content": "You are the agent of a shop. Be brief."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "1", "function": {"name": "get_order", "arguments": '{"number": "A17"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"state": "shipped", "parcels": 2}'},
    ]  # fmt: skip
    return call_model(messages)


def main():
    llmeval.configure(exporters=["local"], store=sys.argv[1])
    for question in ("Where is order A17?", "Please refund the 12.50 EUR.", "I said: refund it!"):
        with llmeval.annotation_context(session_id="chat-7", user_id="42"):
            support(question)
    llmeval.flush()
    llmeval.shutdown()
    with StoreReader(sys.argv[1]) as reader:
        sql = "SELECT trace_id, span_id FROM spans WHERE name = 'support' ORDER BY start_ns"
        turns = reader.read(lambda connection: connection.execute(sql).fetchall())
    events = [
        EvaluationEvent(
            f"{span}-goal_reached-session-{period}", Target(trace, span, "support", "agent"),
            Evaluation("goal_reached", value, None, why, None,
                       {"scope": "session", "session_id": "chat-7", "period": period,
                        "session_turns": period + 1, "turns": [period + 1]},
                       evaluator_kind="judge", evaluator_version="1"),
            time.time_ns(),
        )
        for period, (trace, span), value, why in (
            (1, turns[1], "yes", "The user learned where the order is."),
            (2, turns[2], "no", "step 21: the user asks for the refund again and does not get it"),
        )
    ]  # fmt: skip
    writer = StoreWriter(sys.argv[1])
    writer.write(Batch((), tuple(events)))
    writer.close()


if __name__ == "__main__":
    main()
