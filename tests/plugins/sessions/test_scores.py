"""The free scores and the judges of a conversation, and those that an app writes itself."""

import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.judges.base import typed_form_of
from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.conversation import turns_of


FREE = ("repetition", "unanswered_questions", "turn_count", "session_seconds")
JUDGES = (
    "conversation_completeness", "user_frustration", "goal_reached", "knowledge_retention",
)  # fmt: skip
SAME = "Our roofs are made of slate and last a hundred years."


def talk(*texts, **fields):
    """Return the Record of a conversation in which user and agent speak in turn."""
    roles = ("user", "assistant") * len(texts)
    steps = tuple(Step(role, text) for role, text in zip(roles, texts, strict=False) if text)
    return Record(steps=steps, **fields)


def score(name, record):
    return run_heuristic(registry.evaluator(name), record)


def test_a_turn_is_what_the_user_said_and_all_until_they_speak_again():
    """Tool calls belong to a turn; what the agent says first is none."""
    record = Record(
        steps=(
            Step("assistant", "Welcome."),
            Step("user", "Where is A17?"),
            Step("tool", None, "find", {"id": "A17"}, "Ghent"),
            Step("assistant", "Let me see."),
            Step("assistant", "In Ghent."),
            Step("user", "Thanks."),
        )
    )
    first, second = turns_of(record)
    assert (first.number, first.asked, first.called) == (1, "Where is A17?", 1)
    assert first.answered == "Let me see.\nIn Ghent."
    assert (second.number, second.asked, second.answered) == (2, "Thanks.", "")


def test_repetition_is_the_share_of_answers_that_were_given_before():
    """Nearly the same words are the same answer; short answers count for nothing."""
    record = talk(
        "a?", SAME, "b?", "Yes, of course.", "c?", SAME.upper(), "d?", "It costs 40 EUR a day."
    )
    evaluation = score("repetition", record)
    assert evaluation.value == pytest.approx(1 / 3)
    assert evaluation.metadata["turns"] == [3]
    assert evaluation.explanation == "turn 3: the agent says what it said in turn 1"


def test_unanswered_questions_are_counted_and_named():
    """No answer, a bare excuse, and having to ask again; a remark needs no answer."""
    record = talk(
        "When do you open on Sundays?", "We are on Main Street.",
        "When do you open on Sunday, please?", "At nine.",
        "Can I bring my dog?", "I am sorry, I cannot help with that.",
        "Nice weather.", "",
    )  # fmt: skip
    evaluation = score("unanswered_questions", record)
    assert evaluation.value == 2.0
    assert evaluation.metadata["turns"] == [1, 3]
    assert evaluation.explanation == "turn 1: the user has to ask the same again"
    assert score("unanswered_questions", talk("Is it open?", "")).value == 1.0


@pytest.mark.parametrize("name", ["unanswered_questions", "repetition"])
def test_texts_that_were_not_kept_give_no_score(name):
    """Nothing was seen, and zero would pass for a good result."""
    steps = tuple(Step(role) for _ in range(3) for role in ("user", "assistant"))
    assert score(name, Record(steps=steps, attributes={"session_id": "s"})).value is None


def test_turns_and_seconds_are_counted():
    """The time is that from the first request to the last answer."""
    steps = (
        Step("user", "a", start_ns=10**9, end_ns=10**9),
        Step("assistant", "b", start_ns=3 * 10**9, end_ns=3 * 10**9),
        Step("user", "c", start_ns=60 * 10**9, end_ns=60 * 10**9),
        Step("assistant", "d", start_ns=61 * 10**9, end_ns=61 * 10**9),
    )
    assert score("turn_count", Record(steps=steps)).value == 2.0
    assert score("session_seconds", Record(steps=steps)).value == 60.0
    assert score("session_seconds", talk("a", "b")).value is None


@pytest.mark.parametrize("name", FREE)
def test_a_single_request_is_no_conversation(name):
    """They attach to sessions, and to rows with more than one turn."""
    heuristic = registry.evaluator(name)
    assert not heuristic.applies(Record(request="q", response="a"))
    assert heuristic.applies(talk("a", "b", "c", "d"))
    assert heuristic.applies(talk("a", "b", attributes={"session_id": "s"}))
    assert score(name, Record()).value is None


@pytest.mark.parametrize("name", FREE)
def test_a_huge_conversation_is_scored_with_bounded_work(name):
    """Two thousand turns of 1 MB each, or of the same words."""
    text = "why " + "word another third " * 50_000
    record = talk(*[text] * 2_000)
    assert score(name, record).error is None
    assert calls_of(lambda: score(name, record)) < 200_000


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_sees_the_conversation_and_names_a_step(name, judged, scripted):
    """From steps, from chat messages, and from a query with its history."""
    forms = (
        talk("Where is A17?", "What is your order?", "A17!", "In Ghent."),
        Record(
            request={"messages": [
                {"role": "user", "content": "Where is A17?"},
                {"role": "assistant", "content": "What is your order?"},
                {"role": "user", "content": "A17!"}]},
            response="In Ghent.",
        ),
        Record(
            request={"query": "A17!", "history": [
                ["user", "Where is A17?"], ["assistant", "What is your order?"]]},
            response="In Ghent.",
        ),
    )  # fmt: skip
    for record in forms:
        llm = scripted({"rationale": "asked again", "steps": [2], "rating": "no"})
        evaluation = judged(registry.evaluator(name), record, llm)
        assert (evaluation.value, evaluation.metadata) == ("no", {"steps": [2]})
        shown = llm.asked[0][1].content
        assert all(
            f"step {number}, {role} " in shown
            for number, role in enumerate(("user", "assistant") * 2, 1)
        )
    assert evaluation.label == ("frustrated" if name == "user_frustration" else None)


@pytest.mark.parametrize("name", JUDGES)
def test_without_a_conversation_an_input_is_missing(name, judged, scripted):
    """A question without an answer is none."""
    evaluation = judged(registry.evaluator(name), Record(request="q"), scripted("never"))
    assert evaluation.metadata["missing_inputs"].startswith("conversation")


@pytest.mark.parametrize("name", JUDGES)
def test_each_has_a_typed_form_and_an_answer_of_the_stand_in(name, judged, stand_in):
    """Decision models are asked as well, and demos need no model."""
    record = talk("Where is A17?", "In Ghent.", "Thanks.", "You are welcome.")
    assert len(typed_form_of(registry.evaluator(name))(record).questions) == 2
    evaluation = judged(registry.evaluator(name), record, stand_in)
    assert evaluation.value in ("yes", "no")
    assert evaluation.explanation.startswith("stand-in:")


def test_offline_a_row_holds_a_whole_conversation():
    """As messages, or as turns; judges, free scores and the app's own all see it."""
    messages = [
        {"role": "user", "content": "Is it open?"},
        {"role": "assistant", "content": SAME},
        {"role": "user", "content": "Is it open?"},
        {"role": "assistant", "content": SAME},
    ]
    turns = [
        {"user": "Is it open?", "assistant": SAME},
        {"request": "Is it open?", "response": SAME},
    ]
    model = testing.FakeLLM('{"rationale": "no answer", "steps": [2], "rating": "no"}')
    for row in ({"messages": messages}, {"turns": turns}, {"turns": messages}):
        report = llmeval.evaluate([row], evaluators=[*FREE, "goal_reached"], llm=model)
        evaluations = report.rows[0].evaluations
        assert evaluations["repetition"].value == 0.5
        assert evaluations["unanswered_questions"].value == 1.0
        assert evaluations["turn_count"].value == 2.0
        assert evaluations["goal_reached"].metadata["steps"] == [2]


def test_a_conversation_that_cannot_be_read_is_an_error_that_names_the_column():
    """A person is watching."""
    with pytest.raises(llmeval.errors.DataError, match=r"row 1, column 'turns'"):
        llmeval.evaluate([{"turns": "hello"}], evaluators=["turn_count"])


def test_a_row_with_a_request_keeps_its_other_columns():
    """Only where nothing else says what was asked is a column of messages a conversation."""
    row = {"request": "q", "response": "a", "messages": [{"role": "user", "content": "x"}]}
    report = llmeval.evaluate([row], evaluators=["turn_count"])
    assert report.rows[0].record.attributes["messages"] == row["messages"]


class TestOwn:
    """``per="session"`` of the decorators."""

    def test_a_heuristic_of_sessions_is_not_run_on_requests(self):
        """It would read half a conversation."""
        seen = []

        @llmeval.heuristic(per="session")
        def politeness(record):
            seen.append(record)
            return 1.0

        with testing.capture(escalations=[]) as captured:
            with llmeval.workflow("w", request="q") as span:
                span.response = "a"
            captured.drain()
        assert seen == []
        assert not politeness.applies(Record(request="q", response="a"))

    def test_an_unknown_unit_is_refused(self):
        """A person is watching."""
        with pytest.raises(ConfigurationError, match="'answer' or 'session', not 'chat'"):
            llmeval.heuristic(per="chat")(lambda record: 1.0)

    def test_a_judge_of_sessions_gets_the_conversation_in_its_steps(self, judged, scripted):
        """Whatever form it came in; without one, an input is missing."""

        @llmeval.judge(per="session", name="mine")
        def mine(record, llm):
            return [step.content for step in record.steps] == ["q", "a"]

        assert mine.per == "session"
        record = Record(request="q", response="a")
        assert judged(mine, record, scripted("x")).value == "yes"
        assert "missing_inputs" in judged(mine, Record(), scripted("x")).metadata
