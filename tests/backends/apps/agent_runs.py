"""A small agent that one library runs and another traces; prints the records that came of it.

python agent_runs.py TRACER FRAMEWORK SCENARIO [stream]

TRACER: openinference, traceloop, both of them, or ddtrace. FRAMEWORK: langgraph, openai_agents or none (ddtrace's
own decorators). SCENARIO: a script of the model below. Nothing but the tracer knows of us.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from scripted_model import calls, scripted_model, support


QUESTION = "Please refund order A17."
THREAD = "thread-7"
ORDERS = {"A17": "shipped", "B22": "open"}
RECORDS = []


def get_order(order_id: str) -> dict:
    """Look up an order."""
    return {"id": order_id, "status": ORDERS[order_id]}


def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    raise ValueError("not refundable")


def sub(body):
    """Play an agent that asks another one, which is a tool of it."""
    results = sum(message["role"] == "tool" for message in body["messages"])
    if any(message["content"] == "Research." for message in body["messages"]):
        return "A17 is shipped." if results else calls(("get_order", {"order_id": "A17"}))
    if not results:
        return calls(("ask_researcher", {"input": "Status of A17?"}))
    return (
        "I could not refund A17."
        if results > 1
        else calls(("refund", {"order_id": "A17", "amount": 900}))
    )


def handoff(body):
    """Play an agent that hands over to another one."""
    results = sum(message["role"] == "tool" for message in body["messages"])
    if any(message["content"] == "Triage." for message in body["messages"]):
        return calls(("transfer_to_refunds", {}))
    return (
        "I could not refund A17."
        if results > 1
        else calls(("refund", {"order_id": "A17", "amount": 900}))
    )


def approval(body):
    """Play an agent that looks an order up, and then does what a person has to approve."""
    results = sum(message["role"] == "tool" for message in body["messages"])
    if not results:
        return calls(("get_order", {"order_id": "A17"}))
    if results == 1:
        return calls(("refund", {"order_id": "A17", "amount": 900}))
    return "I could not refund A17."


SCRIPTS = {"support": support, "sub": sub, "handoff": handoff, "approval": approval}


def langgraph(url, scenario, *, stream):
    """Run the agent of LangChain, which is a graph of LangGraph."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @wrap_tool_call
    def errors_are_told(request, handler):
        try:
            return handler(request)
        except ValueError as error:
            return ToolMessage(
                f"Tool error: {error}", tool_call_id=request.tool_call["id"], status="error"
            )

    model = ChatOpenAI(model="gpt-4o", base_url=url, api_key="none", max_retries=0)
    asked = {"messages": [{"role": "user", "content": QUESTION}]}
    tools, name = [tool(get_order), tool(refund)], "support"
    if scenario == "sub":
        inner = create_agent(model, [tool(get_order)], name="researcher", system_prompt="Research.")

        @tool
        def ask_researcher(input: str) -> str:
            """Ask the researcher."""
            answer = inner.invoke({"messages": [{"role": "user", "content": input}]})
            return answer["messages"][-1].content

        tools, name = [ask_researcher, tool(refund)], "boss"
    middleware, saver = [errors_are_told], None
    if scenario == "approval":
        from langchain.agents.middleware import HumanInTheLoopMiddleware
        from langgraph.checkpoint.memory import InMemorySaver

        middleware, saver = (
            [*middleware, HumanInTheLoopMiddleware({"refund": True})],
            InMemorySaver(),
        )
    agent = create_agent(
        model, tools, name=name, system_prompt="You help.", middleware=middleware,
        checkpointer=saver,
    )  # fmt: skip
    if scenario == "approval":
        from langgraph.types import Command

        thread = {"configurable": {"thread_id": THREAD}}
        assert agent.invoke(asked, thread)["__interrupt__"]
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    elif stream:
        for _ in agent.stream(asked, stream_mode="messages"):
            pass
    else:
        agent.invoke(asked)


def openai_agents(url, scenario, *, stream):
    """Run the OpenAI Agents SDK: by the Responses API, and streamed by chat completions."""
    from agents import (
        Agent,
        Runner,
        function_tool,
        set_default_openai_api,
        set_default_openai_client,
    )
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    set_default_openai_client(client, use_for_tracing=False)
    set_default_openai_api("chat_completions" if stream else "responses")
    tools = [function_tool(get_order), function_tool(refund)]
    if scenario == "approval":
        tools[1] = function_tool(refund, needs_approval=True)
    if scenario == "handoff":
        refunds = Agent(name="refunds", instructions="Refund.", tools=tools)
        agent = Agent(name="triage", instructions="Triage.", handoffs=[refunds])
    elif scenario == "sub":
        inner = Agent(name="researcher", instructions="Research.", tools=tools[:1])
        agent = Agent(
            name="boss",
            instructions="You help.",
            tools=[inner.as_tool("ask_researcher", "Ask the researcher."), tools[1]],
        )
    else:
        agent = Agent(name="support", instructions="You help.", tools=tools)

    async def run():
        async for _ in Runner.run_streamed(agent, QUESTION).stream_events():
            pass

    if scenario == "approval":
        from agents import RunConfig

        config = RunConfig(group_id=THREAD)
        asked = Runner.run_sync(agent, QUESTION, run_config=config)
        state = asked.to_state()
        for question in asked.interruptions:
            state.approve(question)
        Runner.run_sync(agent, state, run_config=config)
    elif stream:
        asyncio.run(run())
    else:
        Runner.run_sync(agent, QUESTION)


def none(url, scenario, *, stream):
    """Run functions with ddtrace's own decorators."""
    from ddtrace.llmobs import LLMObs
    from ddtrace.llmobs.decorators import agent, tool

    @tool
    def get_order(order_id):
        LLMObs.annotate(input_data={"order_id": order_id}, output_data={"status": "shipped"})

    @tool(name="refund")
    def refund_order(order_id, amount):
        raise ValueError("not refundable")

    @agent
    def researcher(question):
        get_order("A17")
        LLMObs.annotate(input_data=question, output_data="A17 is shipped.")

    @agent
    def boss(question):
        get_order("B22")
        researcher("Status of A17?")
        try:
            refund_order("A17", 900)
        except ValueError:
            LLMObs.annotate(input_data=question, output_data="I could not refund A17.")

    boss(QUESTION)


def watch(tracer, framework, evaluators):
    """Have a library trace the framework, and us score what it traces."""
    if tracer == "ddtrace":
        from ddtrace.llmobs import LLMObs

        from llmeval_sdk.plugins.datadog.source import evaluate_spans

        LLMObs.enable(
            ml_app="app", agentless_enabled=True, api_key="none", site="datadoghq.invalid"
        )
        evaluate_spans(evaluators=evaluators)
        return
    from opentelemetry.sdk.trace import TracerProvider

    from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EvaluationSpanProcessor(evaluators=evaluators))
    module = "langchain" if framework == "langgraph" else "openai_agents"
    names = {
        ("openinference", "langgraph"): "LangChainInstrumentor",
        ("traceloop", "langgraph"): "LangchainInstrumentor",
    }
    for library in ("openinference", "traceloop") if tracer == "both" else (tracer,):
        home = "openinference" if library == "openinference" else "opentelemetry"
        name = names.get((library, framework), "OpenAIAgentsInstrumentor")
        instrumentation = import_module(f"{home}.instrumentation.{module}")
        getattr(instrumentation, name)().instrument(tracer_provider=provider)


def main(tracer, framework, scenario, way="whole"):
    import llmeval_sdk as llmeval
    from llmeval_sdk.model.chat import question
    from llmeval_sdk.testing import capture

    @llmeval.heuristic
    def what_was_seen(record):
        RECORDS.append(record)
        return 1.0

    watch(tracer, framework, [what_was_seen])
    sessions = []
    store = Path(tempfile.mkdtemp()) / "store.db"
    options = {"evaluators": ["turn_count"], "session_idle": 0.5, "store": str(store)}
    waits = scenario == "approval"
    with capture(**options if waits else {}) as seen, scripted_model(SCRIPTS[scenario]) as url:
        globals()[framework](url, scenario, stream=way == "stream")
        seen.drain()
        end = time.monotonic() + (5 if waits else 0)
        while not sessions and time.monotonic() < end:
            turns = [
                one.evaluation for one in seen.evaluations if one.evaluation.name == "turn_count"
            ]
            sessions = [(one.metadata["session_id"], one.value) for one in turns]
            time.sleep(0.05)  # until the session is idle
    told = [
        {
            "question": question(record.request),
            "response": record.response,
            "session": sessions,
            "tools": sorted(tool["name"] for tool in record.tools or ()),
            "steps": [
                [
                    step.name,
                    step.agent,
                    step.arguments,
                    step.result,
                    step.error,
                    (step.end_ns or 0) > 0,
                ]
                for step in record.steps or ()
            ],
        }
        for record in RECORDS
    ]
    print(json.dumps(told), flush=True)
    os._exit(0)  # ddtrace would try for seconds to deliver


if __name__ == "__main__":
    main(*sys.argv[1:])
