"""A list tells chats apart: each shows what its user asked last, not the app's instructions."""

import json

import pytest


SYSTEM = {"role": "system", "content": "You are the agent of a shop. " * 20}


def ask(text):
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([SYSTEM, ask('Where is "order" A17, Žofie?')], 'Where is "order" A17, Žofie?'),
        ([ask("Hello"), {"role": "assistant", "content": "Yes?"}, ask("The roof?")], "The roof?"),
        ([ask("The roof?"), {"role": "tool", "content": "slate"}], "The roof?"),
        ([ask("Old"), ask([{"type": "text", "text": "New?"}])], "New?"),
        ([ask("half an emoji \ud83d of it")], "half an emoji "),
        ([ask("before\0after")], "before"),
        ([*(ask(f"{number}?") for number in range(12))], "11?"),
        ([ask("x" * 300_000)], '{"messages":[{"role":"user"'),
        ([SYSTEM], "You are the agent"),
        (["odd", 7, None, {"role": "user"}], '{"messages":["odd"'),
    ],
)
def test_a_chat_is_listed_by_its_last_question(llmeval, store, messages, shown):
    """Whatever stands in the messages, the list is printed."""
    store.span("ab" * 8, kind="llm", request={"messages": messages})
    asked = llmeval("traces", "--store", store.path, COLUMNS="200")
    assert asked.returncode == 0
    assert shown in asked.stdout
    (row,) = json.loads(llmeval("traces", "--store", store.path, "--json").stdout)
    asked = json.dumps(shown, ensure_ascii=False)
    assert row["request"].startswith((asked[:-1], shown))


@pytest.mark.parametrize(
    "request_of",
    [
        {"model": "gpt-4o", "messages": [SYSTEM, ask("The roof?")]},
        [SYSTEM, ask("The roof?")],
        {"input": [SYSTEM, ask("The roof?")]},
    ],
    ids=["messages behind another field", "a list", "another name"],
)
def test_a_chat_of_another_shape_is_listed_by_its_last_question(llmeval, store, request_of):
    """Lists read a chat as evaluators do, wherever its messages stand."""
    store.span("ab" * 8, kind="llm", request=request_of)
    (row,) = json.loads(llmeval("traces", "--store", store.path, "--json").stdout)
    assert row["request"].strip('"') == "The roof?"


def test_requests_of_a_user_are_found_where_only_a_call_inside_names_the_user(llmeval, store):
    """As `prune --user` and `report --by user` find them."""
    asked = store.span("1")
    store.span("2", kind="llm", parent_id="1", trace_id=asked.trace_id, tags={"user_id": "ann"})
    other = store.span("3", tags={"user_id": "bob"}, trace_id="f" * 32)
    for user, span in (("ann", asked), ("bob", other)):
        done = llmeval("traces", "--store", store.path, "--user", user, "--json")
        assert [row["span_id"] for row in json.loads(done.stdout)] == [span.span_id]
