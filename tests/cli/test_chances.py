"""`calibrate --evaluator extraction_risk`: chances move to the app's own rate of errors."""

import json
import random

import pytest

from llmeval_sdk.evaluation.calibrations import of_chances
from llmeval_sdk.store.fields import ACCEPT
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.state import state_path


@pytest.fixture
def filled(store):
    """Store 200 totals with a chance of .1, of which three in ten are wrong by random labels."""
    rng = random.Random(3)
    with store.at_once():
        for number in range(200):
            span = store.span(f"{number:016x}", "read_invoice", request="Read it.")
            is_wrong = rng.random() < 0.3
            chance = 0.15 if is_wrong and rng.random() < 0.5 else 0.1
            fields = [{"path": "total", "value": f"{number}.50", "chance": chance}]
            store.evaluation(
                span, "extraction_risk", chance, metadata={"fields": fields}, evaluator_version="3"
            )
            said = human_label(
                span, "extraction_correctness", "no" if is_wrong else "yes", field="total",
                purpose=ACCEPT, inclusion_probability=0.5,
            )  # fmt: skip
            store.add(said)
    return store


def calibrate(llmeval, store, *options):
    return llmeval(
        "judges", "--calibrate", "--evaluator", "extraction_risk", "--store", store.path, *options
    )


def expected_wrong(llmeval, store):
    report = json.loads(llmeval("report", "--by", "field", "--store", store.path, "--json").stdout)
    (field,) = report["fields"]
    return field["expected_wrong"], field["doubtful"]


def test_chances_move_to_the_rate_of_errors_that_labels_show(llmeval, filled):
    """Lists and reports show them, with their date; the scores in the store stay as they are."""
    before, doubtful = expected_wrong(llmeval, filled)
    assert before < 25
    assert doubtful == 0
    assert calibrate(llmeval, filled).returncode == 0
    after, doubtful = expected_wrong(llmeval, filled)
    assert 45 < after < 75
    assert doubtful == 200
    text = llmeval("report", "--by", "field", "--store", filled.path).stdout
    assert "moved to this app's own rate of errors, by 200 labels" in text
    fitted = of_chances(state_path(filled.path))
    assert fitted.calibration(0.1) > 0.15


def test_without_the_command_chances_are_those_of_the_labelled_sets(llmeval, filled):
    """It is off by default, and a dry run changes nothing."""
    assert calibrate(llmeval, filled, "--dry-run").returncode == 0
    text = llmeval("report", "--by", "field", "--store", filled.path).stdout
    assert "stated for traffic with one wrong value in ten" in text


def test_it_can_be_taken_back(llmeval, filled):
    """`--remove` brings the former chances back."""
    before = expected_wrong(llmeval, filled)
    calibrate(llmeval, filled)
    assert expected_wrong(llmeval, filled) != before
    assert calibrate(llmeval, filled, "--remove").returncode == 0
    assert expected_wrong(llmeval, filled) == before


def test_labels_that_were_chosen_by_risk_move_nothing(llmeval, store):
    """Only values that were drawn at random tell a rate."""
    span = store.span("1" * 16, "read_invoice", request="Read it.")
    fields = [{"path": "total", "value": "1.50", "chance": 0.9}]
    store.evaluation(span, "extraction_risk", 0.9, metadata={"fields": fields})
    add_feedback(store.path, human_label(span, "extraction_correctness", "no", field="total"))
    done = calibrate(llmeval, store)
    assert done.returncode == 2
    assert "llmeval label --for accept" in done.stderr


def test_few_labels_move_nothing(llmeval, store):
    """With fewer than fifty the command says so."""
    for number in range(20):
        span = store.span(f"{number:016x}", "read_invoice", request="Read it.")
        fields = [{"path": "total", "value": "1.50", "chance": 0.1}]
        store.evaluation(span, "extraction_risk", 0.1, metadata={"fields": fields})
        said = human_label(
            span, "extraction_correctness", "no", field="total", purpose=ACCEPT,
            inclusion_probability=0.5,
        )  # fmt: skip
        add_feedback(store.path, said)
    done = calibrate(llmeval, store)
    assert done.returncode == 1
    assert "too few" in done.stdout
