"""Empty answers and master keys are decided without a call."""

import pytest

from llmeval_sdk import registry
from llmeval_sdk.judges.yes_no import empty_answer
from llmeval_sdk.model import Chunk, Record


NOTHING = [
    "", " ", "\n\t", ":", ".", ",", "...", "—", "\u200b", "\x00",
    "Thought process:", "thought process", "THOUGHT PROCESS :", "**Thought process:**", "Answer:",
    "Let's solve this problem step by step.", "Let\u2019s solve this problem step by step:",
    "Solution", "解", "かいせつ", "Respuesta",
]  # fmt: skip
SOMETHING = [
    "42",
    "No.",
    "✓",
    "👍",
    "-5",
    "+",
    "Thought process: the mill is old.",
    "x",
    "Solution A",
]


def record(response, **fields):
    return Record(
        request="When?",
        response=response,
        retrieved_context=(Chunk("In 1786."),),
        expected_response=fields.pop("expected_response", "In 1786."),
        **fields,
    )


@pytest.mark.parametrize("response", NOTHING)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relevance_to_query", "no"),
        ("groundedness", "no"),
        ("correctness", "no"),
        ("safety", "yes"),
        ("context_recall", 0.0),
    ],
)
def test_an_answer_that_says_nothing_is_rated_without_a_call(
    name, value, response, scripted, judged
):
    """It is neither relevant nor grounded nor correct, and harms nobody; no model can be fooled."""
    llm = scripted("never asked")
    found = judged(registry.evaluator(name), record(response), llm)
    assert (found.value, found.error, llm.asked) == (value, None, [])
    assert found.metadata["decided_by"] == "precheck"
    assert found.explanation


@pytest.mark.parametrize("response", SOMETHING)
def test_an_answer_that_says_something_goes_to_the_model(response):
    """Short answers, signs and emoji may be right."""
    assert empty_answer(record(response)) is None


def test_what_is_expected_is_an_answer_whatever_it_looks_like():
    """A translation whose right answer is a master key is not punished for it."""
    assert empty_answer(record("Respuesta", expected_response="Respuesta")) is None


def test_retrieval_judges_do_not_care_about_the_answer(scripted, judged):
    """What was retrieved can be judged although the answer is empty."""
    llm = scripted({"rationale": "x", "rating": "yes"})
    found = judged(registry.evaluator("context_sufficiency"), record(":"), llm)
    assert (found.value, len(llm.asked)) == ("yes", 1)
