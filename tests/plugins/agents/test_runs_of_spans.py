"""Steps of live runs: those of agents below an agent, and those that only messages tell of."""

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture


def records_of(act):
    """Return what evaluators saw of each span, by its name."""
    seen = {}

    @llmeval.heuristic
    def what_was_seen(record):
        seen[record.span_name] = record

    with capture(evaluators=[what_was_seen]) as kit:
        act()
        kit.drain()
    return seen


@llmeval.tool
def get_order(order_id: str) -> dict:
    return {"id": order_id, "status": "shipped"}


@llmeval.agent
def researcher(question: str) -> str:
    get_order("A17")
    return "A17 is shipped."


def test_the_calls_of_an_agent_below_reach_the_agent_above():
    """Each step says whose it is; the agent below keeps its own."""

    @llmeval.workflow
    def check(question: str) -> str:
        return researcher(question)

    @llmeval.agent
    def boss(question: str) -> str:
        get_order("B22")
        check(question)
        return "Both are shipped."

    seen = records_of(lambda: boss("Where are my orders?"))
    told = [(step.name, step.arguments["order_id"], step.agent) for step in seen["boss"].steps]
    assert told == [("get_order", "B22", None), ("get_order", "A17", "researcher")]
    assert [step.agent for step in seen["researcher"].steps] == [None]
    assert seen["check"].steps is None


def test_a_workflow_above_agents_has_no_run_of_its_own():
    """It would be scored for runs that are scored already."""

    @llmeval.workflow
    def chat(question: str) -> str:
        return researcher(question)

    assert records_of(lambda: chat("Where is it?"))["chat"].steps is None


def test_agents_that_call_each_other_in_circles_are_bounded():
    """Each handoff is one level deeper; every call arrives once at the top."""

    @llmeval.agent
    def ping(depth: int) -> str:
        get_order(f"A{depth}")
        return pong(depth - 1) if depth else "done"

    @llmeval.agent
    def pong(depth: int) -> str:
        get_order(f"B{depth}")
        return ping(depth - 1) if depth else "done"

    top = []

    @llmeval.heuristic
    def what_was_seen(record):
        top.append(record)

    with capture(evaluators=[what_was_seen]) as kit:
        ping(40)
        kit.drain()
    assert max(len(record.steps) for record in top) == 41


SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
OPENAI = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Where is A17?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "get_order", "arguments": '{"order_id": "A17"}'}},
            {"id": "c2", "function": {"name": "get_order", "arguments": '{"order_id": "B22"}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "open"},
    {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
]
ANTHROPIC = [
    {"role": "user", "content": "Where is A17?"},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "c1", "name": "get_order", "input": {"order_id": "A17"}},
            {"type": "tool_use", "id": "c2", "name": "get_order", "input": {"order_id": "B22"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "shipped"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "open"},
        ],
    },
]
GOOGLE = [
    {"role": "user", "parts": [{"text": "Where is A17?"}]},
    {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "get_order", "args": {"order_id": "A17"}}},
            {"functionCall": {"name": "get_order", "args": {"order_id": "B22"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "get_order", "response": {"text": "shipped"}}},
            {"functionResponse": {"name": "get_order", "response": {"text": "open"}}},
        ],
    },
]


@llmeval.llm(model_name="gpt-4o")
def ask(messages: list, tools: list | None = None) -> str:
    return "A17 is shipped."


@llmeval.llm(model_name="gemini")
def generate(contents: list) -> str:
    return "A17 is shipped."


def test_an_app_without_tool_spans_has_the_steps_of_its_messages():
    """OpenAI's, Anthropic's and Google's chat messages of the last model call tell them."""
    for call, messages in ((ask, OPENAI), (ask, ANTHROPIC), (generate, GOOGLE)):

        @llmeval.agent
        def support(question: str, call=call, messages=messages) -> str:
            call(messages[:2])
            return call(messages)

        record = records_of(lambda: support("Where is A17?"))["support"]
        calls = [step for step in record.steps if step.role == "tool"]
        assert [(step.arguments["order_id"], step.result) for step in calls] == [
            ("A17", "shipped"),
            ("B22", "open"),
        ]
        assert record.steps[-1].content == "A17 is shipped."


def test_the_tools_that_the_model_was_offered_are_known():
    """They come from the call's own argument."""

    @llmeval.agent
    def support(question: str) -> str:
        tools = [{"type": "function", "function": {"name": "get_order", "parameters": SCHEMA}}]
        return ask(OPENAI, tools=tools)

    record = records_of(lambda: support("Where is A17?"))["support"]
    assert [tool["name"] for tool in record.tools] == ["get_order"]


def test_where_there_are_tool_spans_messages_add_no_steps():
    """Nothing stands there twice."""

    @llmeval.agent
    def support(question: str) -> str:
        get_order("A17")
        return ask(OPENAI)

    record = records_of(lambda: support("Where is A17?"))["support"]
    assert [(step.name, step.result) for step in record.steps] == [
        ("get_order", {"id": "A17", "status": "shipped"})
    ]


def test_a_helper_that_asks_a_model_does_not_hide_the_run():
    """The longest conversation tells, not that of a call which only makes a title."""

    @llmeval.agent
    def support(question: str) -> str:
        answer = ask(OPENAI)
        ask([{"role": "user", "content": "Make a title."}])
        return answer

    record = records_of(lambda: support("Where is A17?"))["support"]
    assert sum(step.role == "tool" for step in record.steps) == 2


def test_a_chat_without_tools_has_no_steps():
    """A plain question to a model is no run of an agent."""

    @llmeval.workflow
    def chat(question: str) -> str:
        return ask([{"role": "user", "content": question}])

    assert records_of(lambda: chat("Where is A17?"))["chat"].steps is None
