"""Which turn of a chat a Record is about: what stands before it was scored when it happened."""

import pytest
from counted import calls_of

from llmeval_sdk import registry
from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import steps_of
from llmeval_sdk.plugins.agents.live import LiveRun


GET = {"order_id": "A17"}
FAILED = Step("tool", None, "cancel_order", GET, "Error: no")
CLAIM = Step("assistant", "I have cancelled order A17.")
FIRST = Step("user", "Please cancel order A17."), FAILED, CLAIM
WELCOME = "You are welcome."
FAULTS = ("tool_call_errors", "unsupported_action_claims", "unmet_requests", "run_faults")


def faults(record):
    """Return the faults that the scores of a run find."""
    found = ((name, registry.evaluator(name)(record)) for name in FAULTS)
    return {name: each.value for name, each in found if each is not None and each.value}


def second(asked, request, **options):
    """Return the second turn of a chat, after one that went wrong."""
    steps = *FIRST, Step("user", asked), Step("assistant", WELCOME)
    return Record(request=request, response=WELCOME, steps=steps, **options)


@pytest.mark.parametrize(
    ("asked", "request_of_the_turn"),
    [
        ("Thanks", "Thanks"),
        ("Thanks", {"customer": "cust-7", "question": "Thanks"}),
        ("Customer 7 writes:\nThanks\nAnswer politely.", "Thanks"),
        ("Customer 7 writes:\nThanks\nBe kind.", {"customer": "7", "question": "Thanks"}),
        ("Thanks", {"payload": [{"type": "text", "text": "Thanks"}]}),
        ("Say it in French.", {"ticket": 7}),
        ("Say it in French.", "ticket 7"),
        ("Thanks", None),
    ],
)
def test_a_fault_of_the_first_turn_is_not_told_in_the_second(asked, request_of_the_turn):
    """However the agent was called, and whatever stands around its question."""
    record = second(asked, request_of_the_turn, span_kind="agent")
    assert faults(record) == {}
    first = Record(request=None, response=CLAIM.content, steps=FIRST, span_kind="agent")
    assert faults(first).keys() == set(FAULTS)


def test_several_messages_in_a_row_begin_one_turn():
    """A document, a note of the app, and what is asked of it."""
    steps = (
        *FIRST,
        Step("user", "Cancel B22 as well."),
        Step("system", "It is Monday."),
        Step("user", "At once."),
        Step("assistant", WELCOME),
    )
    record = Record(request={"n": 1}, response=WELCOME, steps=steps, span_kind="agent")
    assert faults(record).keys() == {"unmet_requests", "run_faults"}


@pytest.mark.parametrize(
    "reminder",
    [
        (Step("user", "Remember to be polite."),),
        (Step("system", "Be brief."), Step("user", "Remember to be polite.")),
        (Step("assistant", "Action: look"), Step("user", "Observation: nothing")),
        (Step("assistant", "I look."), Step("user", "<system-reminder>Be polite.")),
    ],
)
@pytest.mark.parametrize("asked", [None, "ticket 7", {"ticket": 7}])
def test_a_message_in_the_middle_of_a_run_begins_no_turn(reminder, asked):
    """What stands beside a result, or was written by the app, leaves the faults where they are."""
    steps = Step("user", "Please cancel order A17."), FAILED, *reminder, CLAIM
    record = Record(request=asked, response=CLAIM.content, steps=steps, span_kind="agent")
    assert faults(record).keys() == set(FAULTS)


def test_a_question_after_a_turn_that_broke_off_begins_its_own():
    """The first turn raised after its tool had failed, so nobody answered."""
    steps = *FIRST[:2], Step("user", "Thanks"), Step("assistant", WELCOME)
    for request in ("Thanks", {"customer": "cust-7", "question": "Thanks"}):
        record = Record(request=request, response=WELCOME, steps=steps, span_kind="agent")
        assert faults(record) == {}


def test_a_user_who_urges_the_agent_on_begins_no_turn():
    """The question stands in a prompt further up, and all since is about it."""
    steps = (
        Step("user", "Customer 7 writes: Please cancel order A17. Be polite."),
        FAILED,
        Step("assistant", "One moment."),
        Step("user", "Go on."),
        CLAIM,
    )
    asked = "Please cancel order A17."
    record = Record(request=asked, response=CLAIM.content, steps=steps, span_kind="agent")
    assert faults(record).keys() == set(FAULTS)


def test_a_row_that_asks_nothing_is_one_run():
    """Without a request nothing says that a row is about its last turn alone."""
    record = second("Thanks", None)
    assert "tool_call_errors" in faults(record)


def test_what_an_agent_was_called_with_was_not_made_up():
    """Neither by a run with tool spans, nor for a score that is asked for while it goes on."""
    made = Step("tool", None, "cancel_order", {"order_id": "A17-998", "amount": 4711}, "ok")
    asked = {"customer": "cust-7", "order": {"id": "A17-998", "amount": 4711}}
    record = Record(request=asked, response="Done.", steps=(made,), span_kind="agent")
    assert registry.evaluator("ungrounded_arguments")(record).value == 0
    other = Record(request={"customer": 7}, response="Done.", steps=(made,), span_kind="agent")
    assert registry.evaluator("ungrounded_arguments")(other).value == 2
    assert "a17-998" in LiveRun(asked).asked


def test_the_turn_of_a_hostile_run_is_found_with_bounded_work():
    """Two thousand long messages, and as many texts that might be the question."""
    steps = tuple(Step("user", f"{n} " * 20_000) for n in range(2_000))
    record = Record(request={f"a{n}": "x" * 2_000 for n in range(2_000)}, steps=steps)
    assert calls_of(lambda: registry.evaluator("tool_call_loop")(record)) < 200_000


OPENAI = [
    {"role": "user", "content": "Please cancel order A17."},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "function": {"name": "cancel_order", "arguments": '{"order_id": "A17"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "c2", "function": {"name": "get_order", "arguments": '{"order_id": "A17"}'}}]},
    {"role": "tool", "tool_call_id": "c2", "content": "open"},
]  # fmt: skip
ANTHROPIC = [
    {"role": "user", "content": "Please cancel order A17."},
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "cancel_order", "input": {"order_id": "A17"}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "Error: no"}]},
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "c2", "name": "get_order", "input": {"order_id": "A17"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "open"}]},
]  # fmt: skip
RESPONSES = [
    {"role": "user", "content": "Please cancel order A17."},
    {"type": "function_call", "call_id": "c1", "name": "cancel_order", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "Error: no"},
    {"type": "function_call", "call_id": "c2", "name": "get_order", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": "open"},
]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC, RESPONSES])
def test_a_model_call_tells_of_what_came_since_the_one_before_it(messages):
    """Of the failure the second call tells; the third says that nothing was done about it."""

    def of_call(count, answer, *asked_for):
        steps = *steps_of(messages[:count]), *asked_for, Step("assistant", answer)
        request = {"messages": messages[:count]}
        return Record(request=request, response=answer, steps=steps, span_kind="llm")

    second = of_call(3, "", Step("tool", None, "get_order", GET))
    assert faults(second).keys() == {"tool_call_errors", "run_faults"}
    last = of_call(5, "I have cancelled order A17.")
    assert faults(last).keys() == {"unsupported_action_claims", "unmet_requests", "run_faults"}
    assert registry.evaluator("ignored_errors")(last).value == 1
    assert registry.evaluator("tool_call_efficiency")(last).value == 1


def test_a_repeated_call_is_told_by_the_model_call_that_got_its_result():
    """The calls after it know of the repetition and do not tell it once more."""
    made = Step("tool", None, "get_order", GET, "open")
    messages = [OPENAI[0], *OPENAI[3:], *OPENAI[3:]]
    values = []
    for request in (messages, [*messages, *OPENAI[1:3]]):
        failed = FAILED if request is not messages else None
        steps = Step("user", "Where is A17?"), made, made, *((failed,) if failed else ())
        record = Record(request={"messages": request}, response="", steps=steps, span_kind="llm")
        names = ("duplicate_tool_calls", "tool_call_loop")
        values.append([registry.evaluator(name)(record).value for name in names])
    assert values == [[1, 1], [0, 0]]
