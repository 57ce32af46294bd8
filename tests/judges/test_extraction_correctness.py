"""The judge of extractions: what it is shown, what it makes of the reply, when it is not asked."""

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.evaluation.running import record_for
from llmeval_sdk.judges.extraction_correctness import extraction_correctness
from llmeval_sdk.judges.groundedness import groundedness
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.model.structure import MAX_FIELDS
from llmeval_sdk.testing.judge_server import sections_of
from llmeval_sdk.text.values import abstained


RECEIPT = "SUBTOTAL 41.50\nTAX 3.32\nTOTAL DUE 44.82"
RIGHT = {"rationale": "fits", "problem": "none", "right_value": "", "rating": "yes"}
WRONG = {
    "rationale": "41.50 is the subtotal of chunk 1",
    "problem": "wrong_value",
    "right_value": "44.82",
    "rating": "no",
}
RECORD = Record(
    request="total",
    value="41.50",
    field_config={"name": "total", "description": "amount to pay", "format": "number"},
    extractions=(
        Extraction("41.50", chunk_number=1, confidence=0.8, evidence="SUBTOTAL 41.50"),
        Extraction("3.32", chunk_number=1, confidence="low"),
    ),
    retrieved_context=(Chunk(RECEIPT), Chunk("Thank you for your visit")),
)


def shown(llm):
    return {section.name: section.text for section in sections_of(llm.asked[0][1].content)}


def test_a_wrong_value_has_its_problem_and_the_right_value(scripted, judged):
    """The no says what is wrong, and what the documents say instead."""
    found = judged(extraction_correctness, RECORD, scripted(WRONG))
    assert (found.value, found.explanation) == ("no", WRONG["rationale"])
    assert found.metadata["problem"] == "wrong_value"
    assert found.metadata["right_value"] == "44.82"


def test_a_right_value_has_no_problem(scripted, judged):
    """A yes carries neither a problem nor another value."""
    found = judged(extraction_correctness, RECORD, scripted({**RIGHT, "right_value": "44.82"}))
    assert found.value == "yes"
    assert not {"problem", "right_value"} & set(found.metadata)


def test_a_right_value_that_no_document_has_does_not_pass_for_one(scripted, judged):
    """A judge may invent as well: what it did not read is kept under a name that says so."""
    found = judged(extraction_correctness, RECORD, scripted({**WRONG, "right_value": "77.00"}))
    assert "right_value" not in found.metadata
    assert found.metadata["right_value_not_in_documents"] == "77.00"


@pytest.mark.parametrize(
    "reply",
    [
        {**RIGHT, "problem": "wrong_value"},
        {**WRONG, "problem": "none"},
        {**WRONG, "problem": "other"},
        {"rationale": "r", "rating": "yes"},
    ],
)
def test_a_verdict_that_contradicts_itself_is_malformed(reply, scripted, judged):
    """A yes with a problem, and a no without one, leave open what was meant."""
    found = judged(extraction_correctness, RECORD, scripted(reply))
    assert (found.value, found.error.type) == (None, "malformed")


def test_the_judge_reads_field_value_evidence_and_chunks(scripted, judged):
    """Everything that is known about the field stands in a section of its own."""
    llm = scripted(RIGHT)
    judged(extraction_correctness, RECORD, llm)
    read = shown(llm)
    assert read["field"] == "name: total\ndescription: amount to pay\nformat: number"
    assert read["value"] == "41.50"
    assert "41.50 (chunk 1), confidence 0.8: SUBTOTAL 41.50" in read["extractions"]
    assert read["chunk 1"] == RECEIPT
    assert read["chunk 2"] == "Thank you for your visit"
    assert read["rivals"].splitlines()[0] == "- 44.82 (chunk 1): TOTAL DUE 44.82"


def test_the_strongest_rivals_are_shown_and_counted(scripted, judged):
    """At most five other values of the same kind, with their chunk and line, the likeliest first."""
    lines = "\n".join(f"item {n} costs {n}.00" for n in range(1, 9))
    chunks = (Chunk(f"{lines}\nSUBTOTAL 41.50\nTOTAL DUE 44.82"),)
    llm = scripted(RIGHT)
    outcome = judged(extraction_correctness, replaced(retrieved_context=chunks), llm)
    shown_rivals = shown(llm)["rivals"].splitlines()
    assert len(shown_rivals) == outcome.metadata["rivals"] == 5
    assert shown_rivals[0] == "- 44.82 (chunk 1): TOTAL DUE 44.82"


def test_without_a_rival_there_is_no_section_of_them(scripted, judged):
    """The judge works alone."""
    llm = scripted(RIGHT)
    alone = replaced(retrieved_context=(Chunk("Paid: 41.50"),), extractions=None)
    found = judged(extraction_correctness, alone, llm)
    assert found.metadata["rivals"] == 0
    assert "rivals" not in shown(llm)


def test_guidelines_and_examples_of_the_field_are_shown(scripted, judged):
    """They come with the field's configuration: a text or several, texts or mappings."""
    config = {
        **RECORD.field_config,
        "guidelines": ["Tax included.", "Never the cash given."],
        "examples": [{"value": "5.00", "evidence": "CASH 5.00", "rating": "no"}, "a text"],
    }
    llm = scripted(RIGHT)
    judged(extraction_correctness, replaced(field_config=config), llm)
    read = shown(llm)
    assert read["guidelines"] == "Tax included.\nNever the cash given."
    first, second = read["examples of this field"].splitlines()
    assert json.loads(first) == {"value": "5.00", "evidence": "CASH 5.00", "rating": "no"}
    assert second == "a text"


def replaced(**fields):
    from dataclasses import replace

    return replace(RECORD, **fields)


NO_ANSWERS = [
    *("", " ", "None", "n/a", "N/A.", "not found", "Not specified", "null", "-", [], {}),
    *("I could not find the total in the documents.", "Unable to find the total."),
    *("There is no expiry date in this contract.", "The document does not mention a total."),
]
ANSWERS = [
    *("No", "0", 0, 0.0, False, "Unknown Pleasures Ltd", "The text is not binding", ["a"], "I do"),
    *("None Such Inn", "Sorry We Missed You", "The Not Found Company", "Missing Link Inc."),
]


@pytest.mark.parametrize("nothing", NO_ANSWERS, ids=repr)
def test_no_answer_is_not_judged(nothing, scripted, judged):
    """An extraction that abstained is neither right nor wrong: no call, and the reason."""
    llm = scripted(RIGHT)
    found = judged(extraction_correctness, replaced(value=nothing), llm)
    assert (found.value, found.error, llm.asked) == (None, None, [])
    assert found.metadata["missing_inputs"] == "value (the extraction abstained)"


@pytest.mark.parametrize("value", ANSWERS, ids=repr)
def test_values_that_only_look_like_no_answer_are_judged(value):
    """Names, zeros and clauses are values."""
    assert not abstained(value)


def test_without_an_aggregated_value_the_response_decides(scripted, judged):
    """What the app answered is judged; where it answered nothing, it abstained."""
    llm = scripted(RIGHT)
    three = (Extraction("a b"), Extraction("c", evidence="c"), Extraction("a b"))
    judged(extraction_correctness, replaced(value=None, response="a b", extractions=three), llm)
    assert shown(llm)["value"] == "a b"
    empty = replaced(value=None, extractions=three)
    assert judged(extraction_correctness, empty, llm).metadata["missing_inputs"].startswith("value")


@pytest.mark.parametrize("chunks", [None, (), (Chunk(doc_uri="a.pdf"),)])
def test_without_anything_to_check_against_it_is_not_judged(chunks, scripted, judged):
    """Evidence is enough, and so are chunks; neither is a missing input."""
    llm = scripted(RIGHT)
    bare = replaced(retrieved_context=chunks, extractions=(Extraction("41.50"),))
    found = judged(extraction_correctness, bare, llm)
    assert found.metadata["missing_inputs"] == "evidence or text in retrieved_context"
    assert llm.asked == []
    cited = replaced(retrieved_context=chunks, extractions=(Extraction("41.50", evidence="41.50"),))
    assert judged(extraction_correctness, cited, llm).value == "yes"


def test_online_an_abstention_is_counted_with_its_reason():
    """`explain` can say why nobody was asked."""
    model = testing.FakeLLM(RIGHT)
    judges = {"evaluators": ["extraction_correctness"], "escalations": [], "llm": model}
    with testing.capture(**judges) as captured:

        @llmeval.workflow
        def extract(field):
            llmeval.annotate(extractions=[{"value": None, "chunk_number": 1}], value="not found")
            return "not found"

        extract("total")
        captured.drain()
    counted = [(each.reason, each.detail) for each in captured.not_run]
    assert counted == [
        ("missing_inputs", "the record has no value (the extraction abstained)"),
    ]
    assert model.calls == []


def test_offline_it_stands_in_the_report_like_any_judge_of_the_answer():
    """Paths, aggregates and missing inputs are those of the schema."""
    row = {
        "request": "total",
        "value": "41.50",
        "field_config": {"name": "total"},
        "retrieved_context": [{"content": RECEIPT}],
    }
    rows = [row, {**row, "value": "not found"}]
    model = testing.FakeLLM(WRONG)
    report = llmeval.evaluate(rows, evaluators=["extraction_correctness"], llm=model)
    path = "response/llm_judged/extraction_correctness/rating/percentage"
    assert report.metrics[path] == 0.0
    assert report.rows[0].evaluations["extraction_correctness"].metadata["right_value"] == "44.82"
    abstention = report.rows[1].evaluations["extraction_correctness"]
    assert abstention.metadata["missing_inputs"] == "value (the extraction abstained)"
    assert len(model.calls) == 1


def test_a_thousand_extractions_and_huge_values_make_a_bounded_prompt(scripted, judged):
    """What is shown has a limit, whatever the record holds."""
    llm = scripted(RIGHT)
    huge = replaced(
        value="9" * 500_000,
        extractions=tuple(Extraction("9" * 50_000, evidence="e" * 50_000) for _ in range(1_000)),
        retrieved_context=tuple(Chunk("x" * 50_000) for _ in range(1_000)),
        field_config={"name": "n" * 100_000, "guidelines": ["g" * 100_000] * 1_000},
    )
    judged(extraction_correctness, huge, llm)
    assert sum(len(message.content) for message in llm.asked[0]) < 200_000


# Structured answers: the doubtful fields, in one request.

INVOICE = Record(
    request="Read the invoice",
    value={"vendor": "Slate & Co", "tax": "3.32", "total": "41.50", "paid": None, "note": "none"},
    field_config={"total": {"description": "amount to pay, tax included"}},
    retrieved_context=(Chunk(f"Slate & Co\n{RECEIPT}"),),
)


def risk_of(**chances):
    entries = [{"path": path, "chance": chance} for path, chance in chances.items()]
    return {
        "extraction_risk": llmeval.Evaluation("extraction_risk", 0.5, metadata={"fields": entries})
    }


def asked_about(record, evaluations):
    return record_for(extraction_correctness, record, evaluations)


def fields_reply(*verdicts):
    return {"fields": [{"number": n, **verdict} for n, verdict in enumerate(verdicts, 1)]}


def test_the_doubtful_fields_of_an_answer_are_asked_about_in_one_request(scripted, judged):
    """The riskiest fields go into one prompt, and each gets a verdict of its own."""
    llm = scripted(fields_reply(WRONG, RIGHT, RIGHT))
    record = asked_about(INVOICE, risk_of(tax=0.1, total=0.7, vendor=0.05, note=0.01))
    verdict = judged(extraction_correctness, record, llm)
    assert len(llm.asked) == 1
    assert (shown(llm)["value 1"], shown(llm)["value 2"], shown(llm)["value 3"]) == (
        "41.50", "3.32", "Slate & Co",
    )  # fmt: skip
    assert "44.82 (chunk 1)" in shown(llm)["rivals 1"]
    assert "amount to pay, tax included" in shown(llm)["field 1"]
    assert verdict.value == "no"
    assert verdict.metadata["fields_not_asked"] == 1
    total, tax, vendor = verdict.metadata["fields"]
    assert (total["path"], total["chance"], total["right_value"]) == ("total", 1.0, "44.82")
    assert (tax["path"], tax["chance"], vendor["rating"]) == ("tax", 0.0, "yes")
    assert verdict.explanation == f"total: {WRONG['rationale']}"


def test_an_answer_whose_asked_fields_are_right_is_right_and_says_what_was_not_asked(
    scripted, judged
):
    """A yes is about the fields that were asked about, and names how many were not."""
    record = asked_about(INVOICE, risk_of(total=0.3, tax=0.1, vendor=0.05, note=0.01))
    verdict = judged(extraction_correctness, record, scripted(fields_reply(RIGHT, RIGHT, RIGHT)))
    assert verdict.value == "yes"
    assert "fields that were not asked about: 1" in verdict.explanation


def test_all_doubtful_fields_are_asked_about_up_to_a_bound(scripted, judged):
    """More than three fields are asked about where they are doubtful, and never more than ten."""
    wide = Record(
        value={f"field_{n}": f"value {n}" for n in range(30)},
        retrieved_context=(Chunk("value 1 value 2"),),
    )
    llm = scripted(fields_reply(*[RIGHT] * 10))
    risk = risk_of(**{f"field_{n}": 0.9 - n / 100 for n in range(30)})
    verdict = judged(extraction_correctness, asked_about(wide, risk), llm)
    assert len(verdict.metadata["fields"]) == 10
    assert verdict.metadata["fields_not_asked"] == 20


def test_fields_that_were_never_read_count_as_not_asked_about(scripted, judged):
    """Of more leaves than are read, a yes does not say that all of them are right."""
    vast = Record(
        value={f"field_{n}": f"value {n}" for n in range(MAX_FIELDS + 20)},
        retrieved_context=(Chunk("value 1 value 2"),),
    )
    verdict = judged(extraction_correctness, vast, scripted(fields_reply(*[RIGHT] * 10)))
    assert verdict.metadata["fields_not_asked"] == MAX_FIELDS + 10


@pytest.mark.parametrize(
    "reply",
    [
        fields_reply(RIGHT, RIGHT),
        {"fields": [{"number": 1, **RIGHT}] * 3},
        fields_reply(RIGHT, RIGHT, {**RIGHT, "problem": "invented"}),
        RIGHT,
    ],
)
def test_verdicts_that_leave_a_field_open_are_malformed(reply, scripted, judged):
    """Each numbered field is rated exactly once, or there is no verdict."""
    record = asked_about(INVOICE, risk_of(total=0.3, tax=0.1, vendor=0.05))
    verdict = judged(extraction_correctness, record, scripted(reply))
    assert (verdict.value, verdict.error.type) == (None, "malformed")


def test_other_judges_get_the_record_as_it_is():
    """The paths of doubtful fields travel only to the judge that asks about them."""
    assert record_for(groundedness, INVOICE, risk_of(total=0.9)) is INVOICE
    assert asked_about(INVOICE, {}) is INVOICE


def test_the_documents_of_the_prompt_are_what_the_judge_reads(scripted, judged):
    """An answer to a prompt that holds its document can be judged without a retrieval."""
    record = Record(
        request=f"Give the total as JSON.\n\n```\n{RECEIPT}\n```", value={"total": "41.50"}
    )
    llm = scripted(fields_reply(WRONG))
    verdict = judged(extraction_correctness, record, llm)
    assert verdict.value == "no"
    assert "TOTAL DUE 44.82" in shown(llm)["chunk 1"]
