"""Runs of agents in the attributes that real instrumentations write (taken from their spans)."""

import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.testing import capture


RECORDS: list[llmeval.Record] = []
ANSWER = "A17 is shipped, so I could not refund it."


@pytest.fixture
def app():
    RECORDS.clear()

    @llmeval.heuristic
    def what_was_seen(record: llmeval.Record) -> None:
        RECORDS.append(record)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=[what_was_seen]))
    yield provider.get_tracer("another-library")
    registry.forget("what_was_seen")


def message(kind, content, **more):
    """Write a message as LangGraph's state does."""
    return {"type": kind, "data": {"content": content, "type": kind, **more}}


STATE = {"messages": [message("human", "Refund A17."), message("ai", ANSWER)]}
LANGGRAPH = {
    "openinference.span.kind": "CHAIN",
    "metadata": json.dumps({"lc_agent_name": "support"}),
    "input.value": json.dumps({"messages": [{"role": "user", "content": "Refund A17."}]}),
    "output.value": json.dumps(STATE),
    "llm.input_messages.0.message.role": "user",
}
TOOL = {"openinference.span.kind": "TOOL", "tool.name": "get_order"}
SCHEMA = {"properties": {"order_id": {"type": "string"}}, "type": "object"}
OFFERED = {"type": "function", "function": {"name": "get_order", "parameters": SCHEMA}}


def test_a_graph_of_openinference_has_steps_tools_and_an_answer(app):
    """A lone argument comes bare, a result as a message, an error as an exception."""
    result = message("tool", '{"status": "shipped"}', tool_call_id="1", status="success")
    with capture() as kit:
        with app.start_as_current_span("support", attributes=LANGGRAPH):
            model = {
                "openinference.span.kind": "LLM",
                "llm.tools.0.tool.json_schema": json.dumps(OFFERED),
            }
            app.start_span("ChatOpenAI", attributes=model).end()
            called = {**TOOL, "input.value": "A17", "output.value": json.dumps(result)}
            app.start_span("get_order", attributes=called).end()
            failed = app.start_span("refund", attributes={**TOOL, "tool.name": "refund"})
            failed.record_exception(ValueError("not refundable"))
            failed.set_status(
                StatusCode.ERROR, "ValueError('not refundable')Traceback (most recent…"
            )
            failed.end()
        kit.drain()
    (record,) = RECORDS
    assert (record.span_kind, record.response) == ("agent", ANSWER)
    looked_up, refund = record.steps
    assert (looked_up.name, looked_up.arguments) == ("get_order", {"order_id": "A17"})
    assert looked_up.result == '{"status": "shipped"}'
    assert refund.error == "ValueError: not refundable"
    assert [tool["name"] for tool in record.tools] == ["get_order"]


def test_otels_conventions_tell_tools_agents_and_definitions(app):
    """Names stand in attributes; a sub-agent's calls name it, and the last answer is the answer."""
    with capture() as kit:
        top = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}
        top["gen_ai.tool.definitions"] = json.dumps([OFFERED])
        with app.start_as_current_span("invoke_agent boss", attributes=top):
            below = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "researcher"}
            with app.start_as_current_span("invoke_agent researcher", attributes=below):
                called = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "get_order",
                    "gen_ai.tool.call.arguments": '{"order_id": "A17"}',
                    "gen_ai.tool.call.result": '{"status": "shipped"}',
                }
                app.start_span("execute_tool get_order", attributes=called).end()
            parts = [{"type": "text", "content": ANSWER}]
            chat = {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": "Refund A17."}]}]
                ),
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
            }
            app.start_span("chat gpt", attributes=chat).end()
        kit.drain()
    (record,) = RECORDS
    (step,) = record.steps
    assert (step.name, step.agent, step.result) == (
        "get_order",
        "researcher",
        {"status": "shipped"},
    )
    assert record.response == ANSWER
    assert record.request["messages"][0]["content"] == "Refund A17."
    assert [tool["name"] for tool in record.tools] == ["get_order"]


def test_without_tool_spans_the_messages_of_the_model_call_are_the_run(app):
    """OpenInference flattens them into attributes."""
    call = "llm.input_messages.1.message.tool_calls.0.tool_call"
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Refund A17.",
        "llm.input_messages.1.message.role": "assistant",
        f"{call}.id": "c1",
        f"{call}.function.name": "get_order",
        f"{call}.function.arguments": '{"order_id": "A17"}',
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c1",
        "llm.input_messages.2.message.content": "shipped",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    with capture() as kit:
        with app.start_as_current_span("run", attributes={"openinference.span.kind": "AGENT"}):
            app.start_span("ChatOpenAI", attributes=attributes).end()
        kit.drain()
    (record,) = RECORDS
    assert [step.role for step in record.steps] == ["user", "tool", "assistant"]
    assert (record.steps[1].arguments, record.steps[1].result) == ({"order_id": "A17"}, "shipped")
    assert record.response == ANSWER


def test_a_call_that_two_instrumentations_tell_of_is_one_step(app):
    """It has the same name and arguments at the same time; an equal call after it is another one."""
    other = app_of(app, "a-second-library")
    with capture() as kit:
        top = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}
        called = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order",
            "gen_ai.tool.call.arguments": '{"order_id": "A17"}',
        }  # fmt: skip
        with app.start_as_current_span("invoke_agent boss", attributes=top):
            for _ in range(2):
                with app.start_as_current_span("execute_tool get_order", attributes=called):
                    other.start_span("get_order", attributes=called).end()
        kit.drain()
    (record,) = RECORDS
    assert [step.name for step in record.steps] == ["get_order", "get_order"]


def app_of(tracer, name):
    """Return another library's tracer of the same provider."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider._active_span_processor = tracer.span_processor
    return provider.get_tracer(name)
