"""From a Record to pass, fail or skipped."""

import subprocess
import sys

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.heuristics.semantic_validation import MAX_VALUES, semantic_validation
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text.budget import MAX_CHARACTERS, TooLargeError


def run(**fields):
    return semantic_validation.evaluate(Record(**fields))


def of(*pairs):
    """Evaluate values beside their evidence."""
    return run(extractions=tuple(Extraction(value, evidence=text) for value, text in pairs))


def test_a_value_is_checked_against_its_own_evidence_first():
    """The quoted passage decides, not the chunk."""
    chunks = (Chunk("The roof is flat."),)
    quoted = Extraction("gabled", 1, evidence="a gabled roof")
    assert run(extractions=(quoted,), retrieved_context=chunks).value == "pass"
    wrong = Extraction("flat", 1, evidence="a gabled roof")
    assert run(extractions=(wrong,), retrieved_context=chunks).value == "fail"


def test_without_evidence_the_cited_chunk_decides():
    """Only the chunk that the extraction names is searched."""
    chunks = (Chunk("The roof is flat."), Chunk("The roof is gabled."))
    assert run(extractions=(Extraction("gabled", 2),), retrieved_context=chunks).value == "pass"
    assert run(extractions=(Extraction("gabled", 1),), retrieved_context=chunks).value == "fail"


def test_without_extractions_the_value_is_checked_against_all_chunks():
    """A plain extraction app annotates a value and retrieves chunks."""
    chunks = (Chunk("The roof is flat."), Chunk("Built in 1987."))
    assert run(value="1987", retrieved_context=chunks).value == "pass"
    assert run(value="1988", retrieved_context=chunks).value == "fail"


@pytest.mark.parametrize("value", [None, True, False, "", "  ", [], {}, "—", [None, ""]])
def test_what_holds_no_claim_is_skipped(value):
    """Booleans, nothing and empty values cannot be looked for."""
    made = of((value, "some evidence"))
    assert made.value == "skipped"
    assert made.metadata["verdicts"] == [None]


def test_without_a_text_nothing_is_checked():
    """No evidence, no chunk, no verdict."""
    assert run(extractions=(Extraction("flat"),)).value == "skipped"
    assert run(extractions=(Extraction("flat", 9),), retrieved_context=(Chunk("x"),)).value == "skipped"  # fmt: skip
    assert run(value="flat").value == "skipped"


@pytest.mark.parametrize(("wrong", "expected"), [(1, "pass"), (2, "pass"), (3, "fail")])
def test_half_of_the_values_have_to_be_supported(wrong, expected):
    """The share is over what could be checked."""
    good = [("flat", "a flat roof")] * (4 - wrong)
    made = of(*good, *[("round", "a flat roof")] * wrong, (None, "a flat roof"))
    assert made.value == expected
    assert made.metadata["supported_share"] == (4 - wrong) / 4
    assert made.metadata["checked"] == 4


def test_a_list_and_a_mapping_need_all_their_values():
    """One invented item spoils the list."""
    text = "Owners: Ana Ruiz and Tom Berg, since 3 May 2011"
    assert of((["Ana Ruiz", "Tom Berg"], text)).value == "pass"
    assert of((["Ana Ruiz", "Tim Bird"], text)).value == "fail"
    assert of(({"who": "Ana Ruiz", "since": {"date": "2011-05-03"}}, text)).value == "pass"
    assert of(({"who": "Ana Ruiz", "since": {"date": "2011-05-04"}}, text)).value == "fail"


def test_the_metadata_says_how_and_the_explanation_names_what_is_missing():
    """A person can see which value was not found."""
    made = of(("Flat", "a flat roof"), ("2011-05-03", "3 May 2011"), ("Tim Bird", "Tom Berg"))
    assert made.metadata["verdicts"] == ["normalised", "date", "unsupported"]
    assert made.explanation == "not found in the evidence: 'Tim Bird'"
    assert of(("flat", "a flat roof")).explanation is None


def test_a_long_list_of_missing_values_is_cut_short():
    """Explanations stay readable."""
    made = of(*((f"value{n} {'x' * 500}", "a flat roof") for n in range(9)))
    assert made.explanation.endswith("and 4 more")
    assert len(made.explanation) < 600


def test_evidence_that_is_too_long_is_refused():
    """A part of it could not say what stands in the rest."""
    with pytest.raises(TooLargeError):
        of(("Ana Ruiz", "x " * MAX_CHARACTERS + "Ana Ruiz"))


def test_too_many_values_are_cut_and_said_to_be():
    """The work is bounded."""
    exactly = of((["flat"] * MAX_VALUES, "a flat roof"))
    assert (exactly.value, "values_cut" in exactly.metadata) == ("pass", False)
    assert of((["flat"] * (MAX_VALUES + 1), "a flat roof")).metadata["values_cut"] is True


PROSE = "The committee met twice that spring and could not agree on who should pay for it."


@pytest.mark.parametrize(
    "answer",
    [PROSE, PROSE.rstrip("."), "Unable to answer based on given passages.", "I don't know."],
)
def test_an_answer_in_prose_is_not_applicable(answer):
    """A good answer need not repeat its sources, and a refusal has none."""
    assert run(value=answer, retrieved_context=(Chunk("Something else."),)).value is None
    made = of((answer, "Something else."))
    assert made.value == "fail", "an extraction is checked, whatever it looks like"


@pytest.mark.parametrize("kind", ["llm", "agent"])
@pytest.mark.parametrize("value", ["Paris", [{"role": "assistant", "content": "Paris"}]])
def test_what_a_model_said_is_no_value(kind, value):
    """A short answer of a chat was taken from no text, unless the app says that it is a value."""
    chat = {"response": "Paris", "retrieved_context": (Chunk("Something else."),)}
    assert run(value=value, span_kind=kind, **chat).value is None
    assert run(value="Lyon", span_kind=kind, **chat).value == "fail"


PASSAGE = [{"content": "The roof is of slate.", "score": 0.9}]


@pytest.mark.parametrize(
    "said", ["No.", "You're welcome!", "Paris", {"content": "Paris"}, {"answer": "No."}, ["Paris"]]
)
def test_an_answer_of_a_workflow_is_no_value_either(said):
    """A chat is written as a workflow too, and its short answers were failed as missing values."""
    with testing.capture(escalations=[]) as seen:
        with llmeval.workflow("chat", request="What is the roof made of?") as span:
            span.annotate(retrieved_context=PASSAGE)
            span.response = said
        seen.drain()
    assert "groundedness_risk" in seen.scores("chat")
    assert "semantic_validation" not in seen.scores("chat")
    row = {"request": "q", "response": said, "retrieved_context": PASSAGE}
    (done,) = llmeval.evaluate([row], progress=False).rows
    assert "semantic_validation" not in done.evaluations


@pytest.mark.parametrize(
    "told",
    [
        {"value": "slate"},
        {"field_config": {"name": "roof"}},
        {"extractions": [{"value": "slate", "chunk_number": 1}]},
    ],
    ids=["value", "field_config", "extractions"],
)
def test_what_the_app_calls_a_value_is_checked(told):
    """By annotating it, by what it says of the field, or by what it extracted."""
    with testing.capture(escalations=[]) as seen:
        with llmeval.workflow("w", request="What is the roof made of?") as span:
            span.annotate(retrieved_context=PASSAGE, **told)
            span.response = "Slate" if "field_config" in told else "It is of slate."
        seen.drain()
    assert seen.scores("w")["semantic_validation"].value == "pass"
    row = {"request": "q", "response": "Slate", "retrieved_context": PASSAGE, **told}
    (done,) = llmeval.evaluate([row], progress=False).rows
    assert done.evaluations["semantic_validation"].value == "pass"


def test_an_answer_is_checked_where_the_check_was_asked_for():
    """By name, online and offline."""
    with testing.capture(escalations=[], evaluators=["semantic_validation"]) as seen:
        with llmeval.workflow("w", request="What is the roof made of?") as span:
            span.annotate(retrieved_context=PASSAGE)
            span.response = "Tin"
        seen.drain()
    assert seen.scores("w")["semantic_validation"].value == "fail"
    row = {"request": "q", "response": "Tin", "retrieved_context": PASSAGE}
    (done,) = llmeval.evaluate([row], evaluators=["semantic_validation"], progress=False).rows
    assert done.evaluations["semantic_validation"].value == "fail"


@pytest.mark.parametrize(
    "value", ["Harbour Trading Co. Ltd.", "flat", "12 March 2021", ["flat"], 7]
)
def test_a_short_value_is_checked_without_extractions(value):
    """An app that extracts may annotate its aggregated value only."""
    assert run(value=value, retrieved_context=(Chunk("Something else."),)).value == "fail"


def test_a_value_that_holds_itself_is_survived():
    """Depth is bounded."""
    value = ["flat"]
    value.append(value)
    assert of((value, "a flat roof")).value == "pass"


def test_rapidfuzz_is_loaded_only_when_a_value_is_not_there_as_it_stands():
    """Importing the heuristic, and finding values word for word, need no third party."""
    program = """
import sys
from llmeval_sdk.heuristics.semantic_validation import semantic_validation
from llmeval_sdk.model import Extraction, Record
def run(value, text):
    return semantic_validation.evaluate(Record(extractions=(Extraction(value, evidence=text),))).value
assert run("flat", "a flat roof") == "pass"
assert "rapidfuzz" not in sys.modules
assert run("Riverside Trading", "RIVERSIDE TRADlNG") == "pass"
assert "rapidfuzz" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
