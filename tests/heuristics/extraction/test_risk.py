"""`extraction_risk` and `abstention_risk` as a whole."""

from dataclasses import replace

import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.heuristics.extraction.abstention import abstention_risk
from llmeval_sdk.heuristics.extraction.risk import _WHY, NOT_CHECKED, extraction_risk, shipped
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.testing import capture
from llmeval_sdk.text.budget import limit_processor_time
from llmeval_sdk.text.extraction import read


CONTRACT = (
    "This agreement is effective as of 1 July 2021. It was signed on 28 June 2021 in Oslo.\n"
    "The agreement expires on 30 June 2024 unless it is renewed in writing."
)


def dated(value, **changes):
    made = Record(
        request="When does the agreement expire?",
        value=value,
        field_config={"name": "expiry_date", "description": "Date on which it expires"},
        extractions=(Extraction(value, 1, 0.9, evidence=None),),
        retrieved_context=(Chunk(CONTRACT),),
    )
    return replace(made, **changes)


def test_a_wrong_value_from_the_right_document_is_riskier_than_the_right_one():
    """Both stand in the text, so no test of groundedness tells them apart."""
    right, wrong = (extraction_risk.evaluate(dated(v)) for v in ("30 June 2024", "1 July 2021"))
    assert 0 <= right.value < wrong.value <= 1


def test_the_explanation_names_the_rival_and_the_cue():
    """A person sees at once what competes with the value."""
    found = extraction_risk.evaluate(dated("1 July 2021"))
    assert found.metadata["rival"]["value"] == "30 June 2024"
    assert found.metadata["rival"]["chunk_number"] == 1
    own, rival = "it stands under 'effective as of'", "'30 June 2024' stands under 'expires on'"
    assert found.explanation == f"{own}, and {rival}"
    assert found.metadata["reasons"][:2] == ["other_label", "rival_labelled"]


@pytest.mark.parametrize("empty", [None, "", "N/A", [], "There is no expiry date."], ids=repr)
def test_an_empty_answer_is_abstained_and_has_a_risk_of_its_own(empty):
    """It has no risk of being wrong; a date beside "expires" says that a value was missed."""
    made = dated(empty, extractions=(), response=None)
    score = extraction_risk.evaluate(made)
    assert (score.value, score.label, score.error) == (None, "abstained", None)
    missed = abstention_risk(made)
    assert missed.label == "abstained"
    assert missed.metadata["candidate"]["value"] == "30 June 2024"
    silent = abstention_risk(replace(made, retrieved_context=(Chunk("Opening hours"),)))
    assert missed.value > silent.value == 0
    dropped = abstention_risk(replace(made, extractions=(Extraction("30 June 2024", 1),)))
    assert dropped.value > missed.value


def test_an_answer_has_no_abstention_risk():
    """The two never speak about the same record."""
    assert abstention_risk(dated("30 June 2024")).value is None


def test_a_table_is_as_risky_as_its_riskiest_item():
    """The metadata names the item."""
    both = extraction_risk.evaluate(dated({"a": "30 June 2024", "b": ["1 July 2021"]}))
    assert both.metadata["value"] == "1 July 2021"
    many = extraction_risk.evaluate(dated([f"value {n}" for n in range(100)]))
    assert many.metadata["values_cut"] is True


def test_without_anything_to_compare_with_it_does_not_apply():
    """One extraction without a passage gives the reason, not a number."""
    found = extraction_risk.evaluate(Record(value="x", extractions=(Extraction("x"),)))
    assert found.value is None
    assert "neither a passage nor a second extraction" in found.explanation


def test_without_a_field_name_it_still_scores():
    """What the extractors say and where the value stands remain."""
    assert extraction_risk.evaluate(dated("1 July 2021", field_config=None)).value is not None


def test_every_weight_has_a_feature_and_a_sentence():
    """No weight is dead, none is negative, and every reason can be told."""
    weights = shipped()
    (made,) = [extraction_risk.evaluate(dated("1 July 2021"))]
    assert made.value is not None
    assert all(weight >= 0 for weight in weights.weights.values())
    told = {"rival_nearer", "rival_labelled", "other_label"}  # by the rival and the label
    assert set(weights.weights) - told == set(_WHY)
    assert set(weights.means) == set(weights.weights)


def long_record(text):
    return dated("9.00", retrieved_context=(Chunk(text),), extractions=(Extraction(text, 1),))


@pytest.mark.parametrize(
    "text",
    [
        "1.00 " * 200_000, "9" * 1_000_000, "a@" * 500_000, "http://" * 140_000, "Aa " * 330_000,
        "total " * 160_000, "1/1/" * 250_000, "٤" * 1_000_000, "漢" * 1_000_000, "\n" * 1_000_000,
        "Jan 1 " * 160_000, "-" * 1_000_000, "1,000" * 200_000, "a1-" * 330_000, "{[" * 500_000,
    ],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_a_hostile_megabyte_is_cut_and_scored_with_bounded_work(text):
    """No text is read beyond its bound."""
    made = long_record(text)
    assert extraction_risk.evaluate(long_record("1.00")).error is None  # loads what it needs
    assert calls_of(lambda: extraction_risk.evaluate(made)) < 500_000
    assert extraction_risk.evaluate(made).error is None
    assert extraction_risk.evaluate(replace(made, value=text)).error is None
    assert abstention_risk(replace(made, value=None)).error is None


def test_it_runs_in_the_background_and_at_once_where_it_is_asked_for():
    """The app can act on it inside the span; the worker scores every record with extractions."""
    with capture() as captured:
        with llmeval.workflow("extract_field", request="When does it expire?") as span:
            llmeval.annotate(
                extractions=[{"value": "1 July 2021", "chunk_number": 1}],
                retrieved_context=[{"content": CONTRACT}],
                field_config={"name": "expiry_date"},
                value="1 July 2021",
            )
            at_once = span.evaluate("extraction_risk")
    (later,) = [
        e.evaluation for e in captured.evaluations if e.evaluation.name == "extraction_risk"
    ]
    assert at_once.value == later.value


def test_chat_answers_have_no_extraction_risk():
    """Only a record that has extractions or describes a field is one of an extraction."""
    with capture() as captured:
        with llmeval.workflow("chat", request="Which roof?") as span:
            span.response = "It is slate."
    names = {event.evaluation.name for event in captured.evaluations}
    assert not names & {"extraction_risk", "abstention_risk"}


def test_a_format_that_is_code_of_the_app_runs_aside():
    """A pattern or function of the app never holds up the worker."""
    risk = registry.evaluator("extraction_risk")
    assert risk.postponed(dated("x", field_config={"name": "d", "format": r"\d+"}))
    assert not risk.postponed(dated("x", field_config={"name": "d", "format": "date"}))


def test_no_record_changes_the_score_of_another():
    """The same value has the same chance after any number of other documents, live and offline."""
    odd = {
        "extractions": [{"value": "next week"}],
        "retrieved_context": [{"content": "see the next week"}],
        "value": "next week",
    }
    with capture() as captured:
        for number in range(40):
            with llmeval.workflow("extract_field", request="total?"):
                llmeval.annotate(
                    extractions=[{"value": f"9.{number}"}],
                    retrieved_context=[{"content": f"Total 9.{number}"}],
                    value=f"9.{number}",
                )
        with llmeval.workflow("extract_field", request="total?"):
            llmeval.annotate(**odd)
        captured.drain()
        *_, live = (
            event.evaluation.value
            for event in captured.evaluations
            if event.evaluation.name == "extraction_risk"
        )
    record = Record(
        request="total?",
        extractions=(Extraction("next week"),),
        retrieved_context=(Chunk("see the next week"),),
        value="next week",
    )
    assert live == extraction_risk.evaluate(record).value


def test_every_record_has_the_work_of_one_score_whatever_was_read_before():
    """Passages are kept for the fields of a document, and the work spent on them is not."""
    passage = "Invoice of 12 March 2024 over EUR 123.45 for Ada Lovelace, due in 30 days.\n" * 200
    made = Record(retrieved_context=(Chunk(passage),), field_config={"name": "customer"})
    for number in range(1_000):
        (reading,) = read(replace(made, value=f"Nobody Here {number}"))
        assert reading.is_checked


def test_a_value_that_was_not_looked_for_has_no_chance():
    """It is not checked, with the reason, and never an all-clear."""
    made = Record(
        value=True,
        retrieved_context=(Chunk("Reverse charge applies to this invoice."),),
        field_config={"name": "paid"},
    )
    limit_processor_time(0.0)
    try:
        slow = extraction_risk.evaluate(replace(made, value="12. August 1999"))
    finally:
        limit_processor_time(None)
    for score, reason in ((extraction_risk.evaluate(made), "no yes or no"), (slow, "more work")):
        assert (score.value, score.label) == (None, NOT_CHECKED)
        assert reason in score.explanation
