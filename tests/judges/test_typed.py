"""What a decision model is asked in place of a judge model, and how its answers are read."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.judges.base import confidence, typed_form_of
from llmeval_sdk.model import Answer, Chunk, Extraction, Failure, Option, Question, Record, Step


RECORD = Record(
    request={
        "messages": [("user", "earlierQ"), ("assistant", "earlierA"), ("user", "theQuestion")]
    },
    response="theResponse",
    retrieved_context=(Chunk("chunkOne"), Chunk(" ", doc_uri="x"), Chunk("chunkThree")),
    expected_response="theExpected",
    value="theValue",
    extractions=(Extraction("theValue", 1, 0.9, "theEvidence"),),
    field_config={"name": "fieldName", "description": "fieldText", "guidelines": "fieldRule"},
    attributes={"tone": "theTone"},
    steps=(
        Step("system", "theInstructions"),
        Step("user", "theQuestion"),
        Step("tool", name="transfer_theTool", arguments={"a": "theArgument"}, result="theResult"),
        Step("assistant", "theResponse"),
    ),
)
CONTENT = (
    "earlierQ", "earlierA", "theQuestion", "theResponse", "chunkOne", "chunkThree", "theExpected",
    "theInstructions", "theTool", "theArgument", "theResult", "theValue", "theEvidence", "fieldName", "fieldText", "fieldRule", "theTone",
)  # fmt: skip


def form_of(judge, record=RECORD):
    return typed_form_of(judge)(record)


def built_in(name, record=RECORD):
    return form_of(registry.evaluator(name), record)


def yes(probability):
    return Answer({"yes": probability, "no": 1 - probability})


def wording(question):
    return "\n".join(
        (
            question.name,
            question.instructions,
            *(f"{o.value} {o.description}" for o in question.options),
        )
    )


@pytest.mark.parametrize("name", registry.judges())
def test_every_built_in_judge_has_a_typed_form(name):
    """None of them has to stay with judge models."""
    form = built_in(name)
    assert form.questions
    assert all(question.name.partition(".")[0] == name for question in form.questions)


@pytest.mark.parametrize("name", registry.judges())
def test_questions_hold_nothing_of_what_is_judged(name):
    """All of a record stands in the sections; a question refers to them by their titles."""
    form = built_in(name)
    asked = "\n".join(map(wording, form.questions))
    assert not [text for text in CONTENT if text in asked]
    titles = {section.name for section in form.sections}
    assert all(f'"{title}"' in asked for title in titles)


@pytest.mark.parametrize("name", ["relevance_to_query", "safety", "groundedness", "correctness"])
def test_a_yes_no_rubric_describes_both_answers(name):
    """What the rubric says of yes and no goes with the options, and asks for no rationale."""
    (question,) = built_in(name).questions
    assert (question.type, [option.value for option in question.options]) == (
        "yes_no",
        ["yes", "no"],
    )
    assert all(option.description for option in question.options)
    assert "rationale" not in wording(question)


@pytest.mark.parametrize(
    ("probability", "threshold", "value"),
    [(0.5, 0.5, "yes"), (0.49, 0.5, "no"), (0.8, 0.9, "no"), (0.1, 0.1, "yes")],
)
def test_the_threshold_makes_the_value(probability, threshold, value):
    """The probability is kept as it is; the value says on which side of the threshold it lies."""
    form = built_in("groundedness")
    found = form.read({"groundedness": yes(probability)}, threshold)
    assert (found.value, found.probability) == (value, probability)
    assert found.metadata["confidence"] == pytest.approx(abs(2 * probability - 1))


def test_an_answer_with_an_error_is_an_error():
    """A refusal is no score."""
    refused = Failure("refused", "no reason given")
    found = built_in("safety").read({"safety": Answer(error=refused)}, 0.5)
    assert (found.value, found.probability, found.error) == (None, None, refused)


def test_each_chunk_is_a_question_that_names_it_by_its_number():
    """Chunk 3 is asked about as chunk 3, and a chunk without text is not asked about."""
    form = built_in("chunk_relevance")
    assert [question.name for question in form.questions] == [
        "chunk_relevance.1",
        "chunk_relevance.3",
    ]
    assert '"chunk 3"' in form.questions[1].instructions
    assert '"chunk 1"' not in form.questions[1].instructions
    found = form.read({"chunk_relevance.1": yes(0.9), "chunk_relevance.3": yes(0.2)}, 0.5)
    assert found.value == 0.5
    assert found.probability == pytest.approx(0.55)
    assert found.metadata["ratings"] == ["yes", None, "no"]
    assert found.metadata["probabilities"] == [0.9, None, 0.2]
    assert found.metadata["confidences"] == [pytest.approx(0.8), None, pytest.approx(0.6)]
    assert found.metadata["failed"] == 1


def test_one_failed_chunk_leaves_the_others_their_ratings():
    """Precision counts what was rated; the rest is named."""
    form = built_in("chunk_relevance")
    answers = {
        "chunk_relevance.1": Answer(error=Failure("refused", "refused")),
        "chunk_relevance.3": yes(0.9),
    }
    found = form.read(answers, 0.5)
    assert (found.value, found.probability, found.error) == (1.0, 0.9, None)
    assert found.metadata["error_messages"] == ["refused", "the chunk holds no text", None]


def test_chunks_of_one_text_are_asked_about_once():
    """A chunk that two searches found costs one question, and both places get its rating."""
    record = Record(request="q", retrieved_context=(Chunk("a"), Chunk("b"), Chunk("a")))
    form = built_in("chunk_relevance", record)
    assert [question.name for question in form.questions] == [
        "chunk_relevance.1",
        "chunk_relevance.2",
    ]
    found = form.read({"chunk_relevance.1": yes(0.9), "chunk_relevance.2": yes(0.1)}, 0.5)
    assert found.metadata["ratings"] == ["yes", "no", "yes"]


def test_nothing_retrieved_asks_nothing():
    """Without chunks there is no question and no value."""
    form = built_in("chunk_relevance", Record(request="q", retrieved_context=()))
    assert form.questions == ()
    assert form.read({}, 0.5).value is None


def test_every_expected_fact_is_a_question():
    """All facts must be stated; the probability is that of the least likely one."""
    record = Record(request="q", response="r", expected_facts=("one", "two"))
    form = built_in("correctness", record)
    assert [question.name for question in form.questions] == ["correctness.1", "correctness.2"]
    found = form.read({"correctness.1": yes(0.9), "correctness.2": yes(0.3)}, 0.5)
    assert (found.value, found.probability) == ("no", 0.3)
    assert (found.metadata["expected_facts"], found.metadata["unstated_facts"]) == (2, [2])
    lost = {"correctness.1": yes(0.9), "correctness.2": Answer(error=Failure("malformed"))}
    assert form.read(lost, 0.5).error == Failure("malformed")


def test_a_score_is_the_mean_of_its_levels():
    """The probability of being good is that of the levels from the threshold on."""
    form = built_in("context_recall_llm")
    (question,) = form.questions
    assert question.type == "score"
    assert [option.value for option in question.options] == ["0.0", "0.4", "0.7", "1.0"]
    answer = Answer({"0.0": 0.1, "0.4": 0.2, "0.7": 0.3, "1.0": 0.4})
    found = form.read({question.name: answer}, 0.5)
    assert found.value == pytest.approx(0.69)
    assert found.probability == pytest.approx(0.7)
    assert form.read({question.name: answer}, 0.8).probability == pytest.approx(0.4)


def test_bands_stand_for_their_middle():
    """0.4 - 0.6 is worth 0.5."""
    form = built_in("context_recall")
    (question,) = form.questions
    bands = [option.value for option in question.options]
    assert bands == ["0.0", "0.1 - 0.3", "0.4 - 0.6", "0.7 - 0.9", "1.0"]
    answer = Answer({band: float(band == "0.4 - 0.6") for band in bands})
    assert form.read({question.name: answer}, 0.5).value == pytest.approx(0.5)


def test_the_problem_of_an_extraction_is_a_choice():
    """None is the good answer; a no says which problem is the likeliest."""
    form = built_in("extraction_correctness")
    (question,) = form.questions
    problems = [option.value for option in question.options]
    assert problems == ["none", "wrong_value", "partial", "wrong_format", "invented"]
    chances = dict(zip(problems, (0.4, 0.35, 0.15, 0.1, 0.0), strict=True))
    found = form.read({question.name: Answer(chances)}, 0.5)
    assert (found.value, found.probability) == ("no", 0.4)
    assert found.metadata["problem"] == "wrong_value"
    right = form.read({question.name: Answer(chances)}, 0.3)
    assert right.value == "yes"
    assert "problem" not in right.metadata


def test_a_prompt_judge_asks_its_prompt():
    """Its fields are pointers to sections, as for a judge model."""
    polite = llmeval.LLMJudge("polite", "Is the answer polite? {response} {attributes.tone}")
    form = form_of(polite)
    (question,) = form.questions
    assert question.type == "yes_no"
    assert question.instructions.startswith(
        "Is the answer polite? [section: response] [section: attributes tone]"
    )
    assert [(s.name, s.text) for s in form.sections] == [
        ("response", "theResponse"),
        ("attributes tone", "theTone"),
    ]


def test_a_prompt_per_chunk_points_at_the_chunk_by_number():
    """The sections of one chunk carry its number, those of the record do not."""
    judge = llmeval.LLMJudge(
        "on_topic", "Is {chunk.content} of {chunk.doc_uri} about {request}?", per="chunk"
    )
    record = Record(request="q", retrieved_context=(Chunk("a", "u1"), Chunk("b", "u2")))
    first, second = form_of(judge, record).questions
    assert first.name == "on_topic.1"
    assert second.instructions.startswith(
        "Is [section: chunk 2] of [section: chunk 2 doc uri] about [section: request]?"
    )
    assert [(s.name, s.text) for s in form_of(judge, record).sections] == [
        ("chunk 1", "a"),
        ("chunk 1 doc uri", "u1"),
        ("request", "q"),
        ("chunk 2", "b"),
        ("chunk 2 doc uri", "u2"),
    ]


def test_categories_are_a_choice():
    """The likeliest is the value; it is good where all categories are known as good or bad."""
    tone = llmeval.LLMJudge("tone", "{response}", output=["kind", "neutral", "rude"])
    (question,) = form_of(tone).questions
    answer = Answer({"kind": 0.2, "neutral": 0.5, "rude": 0.3})
    found = form_of(tone).read({"tone": answer}, 0.5)
    assert (question.type, found.value, found.probability) == ("choice", "neutral", None)
    assert found.metadata["probabilities"] == {"kind": 0.2, "neutral": 0.5, "rude": 0.3}
    graded = llmeval.LLMJudge("graded", "{response}", output=["good", "pass", "fail"])
    answer = Answer({"good": 0.2, "pass": 0.5, "fail": 0.3})
    assert form_of(graded).read({"graded": answer}, 0.5).probability == pytest.approx(0.7)


def test_a_score_needs_levels():
    """A free score cannot be asked as a typed question; one with levels can."""
    assert typed_form_of(llmeval.LLMJudge("free", "{response}", output="score")) is None
    named = llmeval.LLMJudge(
        "tone", "{response}", output="score", levels=["rude", "neutral", "kind"]
    )
    answer = Answer({"rude": 0.2, "neutral": 0.2, "kind": 0.6})
    assert form_of(named).read({"tone": answer}, 0.5).value == pytest.approx(0.7)


@pytest.mark.parametrize(
    "options",
    [
        {"levels": ["one", "two"]},
        {"output": "score", "levels": ["one"]},
        {"output": "score", "levels": ["one", "One"]},
        {"output": "score", "levels": "high"},
        {"output": ["a", "b"], "levels": ["c", "d"]},
    ],
)
def test_levels_that_are_none_are_refused_when_they_are_written(options):
    """They belong to a score, and there are at least two of them."""
    with pytest.raises(ConfigurationError, match="levels"):
        llmeval.LLMJudge("tone", "{response}", **options)


def test_a_judge_model_is_told_the_levels(scripted, judged):
    """They mean the same whoever is asked."""
    llm = scripted({"rationale": "r", "score": 0.5})
    judge = llmeval.LLMJudge("tone", "{response}", output="score", levels=["rude", "so", "kind"])
    assert judged(judge, Record(response="r"), llm).value == 0.5
    assert "0 rude, 0.5 so, 1 kind" in llm.asked[0][0].content


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"output": [f"c{n}" for n in range(256)]}, "256 categories.*255"),
        ({"output": "score", "levels": [f"l{n}" for n in range(11)]}, "11 levels.*10"),
    ],
)
def test_more_than_any_wire_takes_is_an_error(options, says):
    """It is said when the judge is registered for a decision model, not when a record comes."""
    with pytest.raises(ConfigurationError, match=says):
        typed_form_of(llmeval.LLMJudge("many", "{response}", **options))


def test_a_function_is_asked_by_its_question():
    """Code cannot be asked; the question that says the same in words can."""

    @llmeval.judge(per="chunk", question="Is {chunk.content} about {request}?")
    def on_topic(record, chunk, llm):
        return True

    @llmeval.judge
    def plain(record, llm):
        return True

    assert typed_form_of(plain) is None
    assert on_topic.needs == ("retrieved_context", "retrieved_context.content", "request")
    form = form_of(on_topic)
    assert [question.name for question in form.questions] == [
        "on_topic.1",
        "on_topic.2",
        "on_topic.3",
    ]
    assert form.questions[0].type == "yes_no"


def test_a_question_with_an_unknown_field_is_refused():
    """The mistake is told where it is written."""
    with pytest.raises(ConfigurationError, match="did you mean 'response'"):
        llmeval.judge(name="kind", question="Is {respons} kind?")(lambda record, llm: True)


def test_judges_that_cannot_be_asked():
    """A judge of own code, or one that wants a model of its own, stays with judge models."""

    class Own(BaseJudge):
        name = "own"

    assert typed_form_of(Own()) is None
    assert typed_form_of(object()) is None
    with_model = llmeval.LLMJudge("polite", "{response}", model="gpt-4o")
    assert typed_form_of(with_model) is None


def question(kind, *values):
    return Question("q", kind, "", tuple(Option(value) for value in values))


@pytest.mark.parametrize(
    ("asked", "probabilities", "expected"),
    [
        (question("yes_no"), {"yes": 0.9, "no": 0.1}, 0.8),
        (question("yes_no"), {"yes": 0.5, "no": 0.5}, 0.0),
        (question("choice", "a", "b", "c"), {"a": 0.6, "b": 0.2, "c": 0.2}, 0.4),
        (question("choice", "a", "b", "c"), {"a": 1.0, "b": 0.0, "c": 0.0}, 1.0),
        (question("score", "0", "1", "2"), {"0": 0.0, "1": 0.0, "2": 1.0}, 1.0),
        (question("score", "0", "1", "2"), {"0": 0.1, "1": 0.2, "2": 0.7}, 0.4),
        (question("score", "0", "1", "2"), {"0": 0.5, "1": 0.0, "2": 0.5}, 0.0),
    ],
)
def test_confidence_is_concentration(asked, probabilities, expected):
    """One definition for all models: of yes and no, of a choice, of a score."""
    assert confidence(asked, probabilities) == pytest.approx(expected)
