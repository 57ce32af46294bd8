"""Chat messages in the formats that people have become the same question, answer and steps."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.model import Step
from llmeval_sdk.model.chat import (
    MAX_STEPS,
    definitions_of,
    is_answer,
    last_message,
    messages_of,
    parts_without_text,
    question,
    split_request,
    steps_of,
    to_answer,
    to_text,
)


ASKED = Step("user", "Where is order A17?")
CALL = Step("tool", None, "get_order", {"order_id": "A17"}, "shipped")
ANSWER = Step("assistant", "It is on its way.")

ARGUMENTS = json.dumps({"order_id": "A17"})
FORMATS = {
    "openai": [
        {"role": "user", "content": "Where is order A17?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": ARGUMENTS}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
        {"role": "assistant", "content": "It is on its way."},
    ],
    "openai, old": [
        {"role": "user", "content": "Where is order A17?"},
        {"role": "assistant", "content": None,
         "function_call": {"name": "get_order", "arguments": ARGUMENTS}},
        {"role": "function", "name": "get_order", "content": "shipped"},
        {"role": "assistant", "content": "It is on its way."},
    ],
    "responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Where is order A17?"}]},
        {"type": "function_call", "call_id": "c1", "name": "get_order", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "c1", "output": "shipped"},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "It is on its way."}]},
    ],
    "anthropic": [
        {"role": "user", "content": "Where is order A17?"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "get_order", "input": {"order_id": "A17"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1",
             "content": [{"type": "text", "text": "shipped"}]},
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is on its way."}]},
    ],
    "google": [
        {"role": "user", "parts": [{"text": "Where is order A17?"}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "get_order", "args": {"order_id": "A17"}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "get_order", "response": "shipped"}}]},
        {"role": "model", "parts": [{"text": "It is on its way."}]},
    ],
    "opentelemetry": [
        {"role": "user", "parts": [{"type": "text", "content": "Where is order A17?"}]},
        {"role": "assistant", "parts": [
            {"type": "tool_call", "id": "c1", "name": "get_order",
             "arguments": {"order_id": "A17"}}]},
        {"role": "tool", "parts": [
            {"type": "tool_call_response", "id": "c1", "response": "shipped"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "It is on its way."}]},
    ],
    "langchain": [
        {"type": "human", "content": "Where is order A17?"},
        {"type": "ai", "content": "", "tool_calls": [
            {"name": "get_order", "args": {"order_id": "A17"}, "id": "c1"}]},
        {"type": "tool", "tool_call_id": "c1", "name": "get_order", "content": "shipped"},
        {"type": "ai", "content": "It is on its way."},
    ],
    "sharegpt": [
        {"from": "human", "value": "Where is order A17?"},
        {"from": "function_call",
         "value": json.dumps({"name": "get_order", "arguments": {"order_id": "A17"}})},
        {"from": "observation", "value": "shipped"},
        {"from": "gpt", "value": "It is on its way."},
    ],
    "ours": [
        {"role": "user", "content": "Where is order A17?"},
        {"role": "tool", "name": "get_order", "arguments": {"order_id": "A17"}, "result": "shipped"},
        {"role": "assistant", "content": "It is on its way."},
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_gives_the_same_steps(form):
    """Nine formats of one conversation are one run."""
    assert steps_of(FORMATS[form]) == (ASKED, CALL, ANSWER)


def test_parallel_calls_get_their_own_results():
    """Results that come back in another order are joined by the id of their call."""
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    steps = steps_of([
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "of b"},
        {"role": "tool", "tool_call_id": "a", "content": "of a"},
    ])  # fmt: skip
    assert [(step.name, step.result) for step in steps] == [("a", "of a"), ("b", "of b")]


def test_a_call_without_a_result_and_a_result_without_a_call_stay():
    """A run that was cut off at either end loses nothing of what is there."""
    steps = steps_of([
        {"role": "tool", "tool_call_id": "gone", "content": "late"},
        {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "a"}}]},
    ])  # fmt: skip
    assert [(step.name, step.arguments, step.result) for step in steps] == [
        (None, None, "late"),
        ("a", {}, None),
    ]


def test_arguments_that_are_no_object_stay_a_text():
    """What a model wrote instead of JSON is kept as it is."""
    call = {"function": {"name": "a", "arguments": '{"order_id": '}}
    (step,) = steps_of([{"role": "assistant", "tool_calls": [call]}])
    assert step.arguments == '{"order_id": '


def test_a_failed_call_says_so_in_every_format_that_can():
    """Anthropic's `is_error` and LangChain's `status` become the step's error."""
    failed = {"type": "tool_result", "tool_use_id": "c1", "content": "no order", "is_error": True}
    for result in (
        {"role": "user", "content": [failed]},
        {"type": "tool", "tool_call_id": "c1", "content": "no order", "status": "error"},
    ):
        call = {"type": "tool_use", "id": "c1", "name": "get_order", "input": {}}
        (step,) = steps_of([{"role": "assistant", "content": [call]}, result])
        assert step.error == "no order"


def test_a_run_of_ten_thousand_calls_keeps_its_ends():
    """A long run is bounded, and says how much of it is left out."""
    rows = [
        {"role": "tool", "name": "a", "arguments": {"n": n}, "result": ""} for n in range(10_000)
    ]
    steps = steps_of(rows)
    assert len(steps) == MAX_STEPS + 1
    assert (steps[0].arguments, steps[-1].arguments) == ({"n": 0}, {"n": 9_999})
    assert "8000 steps" in steps[MAX_STEPS // 2].content


def test_tools_are_read_in_the_forms_of_openai_anthropic_and_mcp():
    """The definition of a tool is its name, what it is for, and a schema, whoever wrote it."""
    schema = {"type": "object", "properties": {"order_id": {"type": "string"}}}
    wanted = ({"name": "get_order", "description": "Finds it.", "parameters": schema},)
    about = {"name": "get_order", "description": "Finds it."}
    assert (
        definitions_of([{"type": "function", "function": {**about, "parameters": schema}}])
        == wanted
    )
    assert definitions_of([{**about, "input_schema": schema}]) == wanted
    assert definitions_of([{**about, "inputSchema": schema}]) == wanted
    assert definitions_of("no list") is None


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "role", "content", "tool_calls", "type", "name", "arguments", "id", "parts", "function",
            "tool_call_id", "function_call", "functionResponse", "text", "result", "message",
        ]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(odd, max_size=5))
def test_odd_messages_are_read_as_far_as_they_go(messages):
    """Whatever stands in a message, reading it gives steps or nothing, and never raises."""
    steps = steps_of(messages)
    assert steps is None or all(isinstance(step, Step) for step in steps)


def flattened(role, *parts, **more):
    """Return a message as OpenInference flattens one whose content is a list of parts."""
    return {"message": {"role": role, "contents": list(parts), **more}}


def test_parts_that_openinference_wraps_are_read_once():
    """Texts of users and of results are kept, and a call that stands there twice is one call."""
    call = {"id": "c1", "function": {"name": "get_order", "arguments": '{"id": "A17"}'}}
    steps = steps_of(
        [
            flattened("user", {"message_content": {"type": "text", "text": "Where is A17?"}}),
            flattened(
                "assistant",
                {"message_content": {"type": "text", "text": "I look."}},
                {"message_content": {"type": "tool_use"}, "tool_call": call},
                tool_calls=[{"tool_call": call}],
            ),
            flattened(
                "tool", {"message_content": {"type": "text", "text": "open"}}, tool_call_id="c1"
            ),
        ]
    )
    told = [(step.role, step.content or step.name, step.result) for step in steps]
    assert told == [
        ("user", "Where is A17?", None),
        ("assistant", "I look.", None),
        ("tool", "get_order", "open"),
    ]


def test_the_parts_of_a_result_that_were_written_as_json_are_its_text():
    """So OpenInference writes what a tool of Anthropic's returned."""
    called = {"id": "c1", "function": {"name": "get_order", "arguments": "{}"}}
    returned = '[{"type": "text", "text": "Error: no such order"}]'
    (step,) = steps_of(
        [
            {"message": {"role": "assistant", "tool_calls": [{"tool_call": called}]}},
            {"message": {"role": "tool", "tool_call_id": "c1", "content": returned}},
        ]
    )
    assert step.result == "Error: no such order"


QUESTION, SAID = "Where is order A17?", "It is on its way."


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_asks_the_same_question(form):
    """Scores, judges and exports read one question, whoever wrote the messages."""
    request = {"messages": FORMATS[form]}
    assert messages_of(request) == messages_of(FORMATS[form]) == FORMATS[form]
    assert question(request) == split_request(request)[0] == QUESTION
    assert last_message(request) == SAID


TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]


@pytest.mark.parametrize(
    "request_",
    [
        {"query": QUESTION, "history": [["user", "Hello"]]},
        {"question": QUESTION, "history": [{"role": "user", "content": "Hello"}]},
        {"input": [{"role": "user", "content": QUESTION}], "model": "m"},
        {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
        {"messages": [{"type": "human", "data": {"content": QUESTION}}]},
        {"message": QUESTION, "history": TURNS, "system_message": "Be brief."},
        {"question": QUESTION, "tenant": "acme", "conversation": TURNS},
        {"prompt": QUESTION, "conversation": TURNS, "user": "ann"},
        {"input": QUESTION, "history": []},
        {"conversation": [*TURNS, {"role": "user", "content": QUESTION}], "tenant": "acme"},
    ],
)
def test_a_question_is_found_where_apps_have_it(request_):
    """The arguments of the clients of models are chats too."""
    assert question(request_) == QUESTION
    assert split_request(request_)[0] == QUESTION


def test_a_query_beside_the_messages_of_a_run_does_not_replace_them():
    """The messages are the request, and show what the agent did."""
    run = [*TURNS, {"type": "function_call_output", "call_id": "1", "output": "open"}]
    assert messages_of({"query": "q", "input": run}) == run


@pytest.mark.parametrize(
    "arguments",
    [
        {"field": "roof", "chunks": [{"content": "Slate."}]},
        {"input": ["slate", "barn"]},
        {"documents": [{"role": "appendix", "content": "Slate."}]},
        [{"content": "Slate.", "score": 0.9}],
        {"question": "Total?", "lang": "en", "input": [{"type": "invoice", "total": 41.5}]},
        {"task": "sum up", "user": "ann", "history": [{"type": "login", "at": "noon"}]},
        {"input": [{"from": "ann@example.org", "to": "bob@example.org"}]},
        {},
    ],
)
def test_what_is_no_chat_has_no_messages(arguments):
    """Passages with a content are not taken for messages."""
    assert messages_of(arguments) is None


ANSWERS = {
    "text": SAID,
    "message": {"role": "assistant", "content": SAID},
    "parts": {"role": "assistant", "content": [{"type": "text", "text": SAID}]},
    "completion": {"choices": [{"message": {"role": "assistant", "content": SAID}}]},
    "completion, old": {"choices": [{"text": SAID}]},
    "responses": {
        "object": "response",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": SAID}]},
        ],
    },
    "google": {"candidates": [{"content": {"role": "model", "parts": [{"text": SAID}]}}]},
    "anthropic": {"type": "message", "content": [{"type": "text", "text": SAID}]},
}


@pytest.mark.parametrize("form", ANSWERS)
def test_each_format_gives_the_same_answer(form):
    """The text of an answer is read from what any client of a model returns."""
    assert to_text(ANSWERS[form]) == to_answer(ANSWERS[form]) == SAID
    assert is_answer(ANSWERS[form])


def test_what_an_app_returns_stays_whole():
    """A mapping that is neither a message nor a completion is written as JSON."""
    value = {"content": [{"kind": "invoice"}], "output": [{"content": "x"}]}
    assert to_text(value) == json.dumps(value)


def test_parts_that_are_no_text_are_counted():
    """Images and files of a chat are known by their type, and text is not among them."""
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {}},
        {"type": "file"},
    ]
    assert parts_without_text({"messages": [{"role": "user", "content": parts}]}) == {
        "image_url": 1,
        "file": 1,
    }
