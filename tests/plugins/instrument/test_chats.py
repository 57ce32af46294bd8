"""Chats of an app that only instruments its client: who spoke, what was a turn, what went wrong."""

import json

import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from otlp_collector import running_collector
from scripted_model import calls, scripted_model

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.store.reader import StoreReader


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_order",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        },
    }
]


def clerk(body):
    """Play a model that looks the order up for the first question, and is polite after it."""
    asked = max(at for at, turn in enumerate(body["messages"]) if turn["role"] == "user")
    if body["messages"][asked]["content"] == "Thanks":
        return "You are welcome."
    if any(turn["role"] == "tool" for turn in body["messages"][asked:]):
        return "Order A17 is shipped."
    return calls(("get_order", {"order_id": "A17"}))


class Chat:
    """An app's chat: it sends all of the messages with each call, and runs the tools itself."""

    def __init__(self, client):
        self.client, self.messages = client, []

    def say(self, text):
        self.messages.append({"role": "user", "content": text})
        while True:
            reply = self.client.chat.completions.create(
                model="gpt-4o", messages=self.messages, tools=TOOLS
            )
            answer = reply.choices[0].message
            self.messages.append(answer.model_dump(exclude_none=True))
            if not answer.tool_calls:
                return answer.content
            for made in answer.tool_calls:
                content = json.dumps({"status": "shipped"})
                turn = {"role": "tool", "tool_call_id": made.id, "content": content}
                self.messages.append(turn)


@pytest.fixture
def client():
    with scripted_model(clerk) as address:
        yield openai.OpenAI(base_url=address, api_key="none", max_retries=0)


FAULTS = (
    "run_faults", "tool_call_errors", "tool_call_schema", "ungrounded_arguments", "ignored_errors",
    "unsupported_action_claims", "unmet_requests", "injected_actions", "duplicate_tool_calls",
)  # fmt: skip


@pytest.mark.parametrize("is_agent", [False, True])
def test_a_good_chat_has_no_faults_in_any_turn(client, is_agent):
    """Neither in the call that asks for a tool, nor in the turn that follows, "Thanks"."""
    with testing.capture(escalations=[]) as seen:
        llmeval.instrument("openai")
        chat = Chat(client)
        say = llmeval.agent(chat.say) if is_agent else chat.say
        say("Where is my order A17?")
        say("Thanks")
        seen.drain()
    faults = [event.evaluation for event in seen.evaluations if event.evaluation.name in FAULTS]
    assert len(faults) > len(FAULTS)
    assert not [(fault.name, fault.explanation) for fault in faults if fault.value]


def forgetful(body):
    """Play a model whose first look-up fails, which then tries again, and invents an order."""
    results = [turn for turn in body["messages"] if turn["role"] == "tool"]
    order = {"order_id": "A17" if len(results) < 2 else "Z-4711"}
    return calls(("get_order", order)) if len(results) < 4 else "Order A17 is shipped."


def test_without_a_decorator_a_fault_is_told_on_one_call():
    """Where it was made, or where its result came back, and on none of the calls after it."""
    messages = [{"role": "user", "content": "Where is my order A17?"}]
    results = iter(["Error: timeout", "shipped", "shipped: nothing", "shipped again"])
    with (
        scripted_model(forgetful) as address,
        openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client,
        testing.capture(escalations=[]) as seen,
    ):
        llmeval.instrument("openai")
        for _ in range(5):
            reply = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)
            answer = reply.choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            for made in answer.tool_calls or ():
                turn = {"role": "tool", "tool_call_id": made.id, "content": next(results)}
                messages.append(turn)
        seen.drain()
    told = [
        [each.evaluation.value for each in seen.evaluations if each.evaluation.name == name]
        for name in ("tool_call_errors", "ungrounded_arguments", "duplicate_tool_calls")
    ]
    assert told == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0]]


def test_the_calls_of_a_turn_keep_the_names_of_the_tools(client, records):
    """Also those of former turns, which come back as messages of the chat."""
    with testing.capture(escalations=[]) as seen:
        llmeval.instrument("openai")
        chat = Chat(client)
        say = llmeval.agent(chat.say)
        say("Where is my order A17?")
        say("Thanks")
        seen.drain()
    tools = [[step.name for step in record.steps if step.role == "tool"] for record in records]
    assert tools == [["get_order"], ["get_order"]]


def test_messages_of_text_parts_are_read_like_texts(client, records):
    """What the user said and what a tool returned may both be lists of parts."""

    def part(text):
        return [{"type": "text", "text": text}]

    @llmeval.agent
    def support(question):
        made = {"id": "c1", "type": "function"}
        made["function"] = {"name": "get_order", "arguments": '{"order_id": "A17"}'}
        messages = [
            {"role": "user", "content": part(question)},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": part("shipped")},
        ]
        client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)

    with testing.capture(escalations=[]) as seen:
        llmeval.instrument("openai")
        support("Where is my order A17?")
        seen.drain()
    (record,) = records
    assert [step.content or step.result for step in record.steps] == [
        "Where is my order A17?",
        "shipped",
        "Order A17 is shipped.",
    ]


def test_a_call_has_the_user_the_session_and_the_tags_of_its_context(client, tmp_path):
    """In the store too, where costs are added up by user, and a user's texts are deleted."""
    path = tmp_path / "traces.db"
    llmeval.configure(exporters=["local"], store=str(path), escalations=[])
    llmeval.instrument("openai")
    with llmeval.annotation_context(user_id="ann", session_id="chat-7", tags={"team": "roofs"}):
        Chat(client).say("Where is my order A17?")
    assert llmeval.flush(20).complete
    with StoreReader(path) as reader:
        spans = list(reader.read(lambda db: db.execute("SELECT session_id, tags FROM spans")))
    assert len(spans) == 2
    for session, tags in spans:
        assert session == "chat-7"
        assert json.loads(tags) == {"user_id": "ann", "team": "roofs"}


def test_calls_of_a_session_are_the_turns_of_a_conversation(client, tmp_path, until):
    """A call that only asks for a tool is no turn of its own."""

    def counted():
        return [e.evaluation for e in seen.evaluations if e.evaluation.name == "turn_count"]

    with testing.capture(
        escalations=[], evaluators=["turn_count"], session_idle=0.2, store=str(tmp_path / "s.db")
    ) as seen:
        llmeval.instrument("openai")
        chat = Chat(client)
        with llmeval.annotation_context(session_id="chat-7"):
            chat.say("Where is my order A17?")
            chat.say("Thanks")
        (evaluation,) = until(counted)
    assert (evaluation.value, evaluation.metadata["session_turns"]) == (2.0, 2)


def test_calls_are_of_the_service_that_the_app_s_own_spans_are_of(client, monkeypatch):
    """They are traced by a provider of ours, which says nothing of the app."""
    about = Resource.create({"service.name": "estate"})
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with running_collector() as collector:
        llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url, escalations=[])
        llmeval.instrument("openai")
        Chat(client).say("Thanks")
        assert llmeval.flush(20).complete
    described = [*collector.resources, *collector.log_resources]
    assert {each["service.name"] for each in described} == {"estate"}


def talkative(body):
    """Answer in enough words that their repetition means something."""
    reply = clerk(body)
    return f"{reply} It will be with you on Monday." if isinstance(reply, str) else reply


def test_a_score_of_a_session_says_when_the_turn_at_fault_began(tmp_path, until):
    """By its number alone nobody finds it among the calls, of which one only asked for a tool."""

    def marked():
        scores = (each.evaluation for each in seen.evaluations)
        return [score.metadata for score in scores if score.name == "repetition"]

    with (
        scripted_model(talkative) as address,
        openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client,
        testing.capture(
            escalations=[],
            evaluators=["repetition"],
            session_idle=0.2,
            store=str(tmp_path / "s.db"),
        ) as seen,
    ):
        llmeval.instrument("openai")
        chat = Chat(client)
        with llmeval.annotation_context(session_id="chat-8"):
            chat.say("Where is my order A17?")
            chat.say("Is it on its way to me?")
        seen.drain()
        (metadata,) = until(marked)
    begun = sorted(span.start_ns for span in seen.spans if span.kind == "llm")
    assert metadata["turns"] == [2]
    assert metadata["turn_starts_ns"] == [begun[-1]]
