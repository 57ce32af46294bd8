"""`label --for accept` and `accept`: which values of a field need no look."""

import json
import time

import pytest
from command_line import run_command

from llmeval_sdk.evaluation import acceptances
from llmeval_sdk.store.fields import ACCEPT
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import state_path


def fill(store, count, *, is_wrong, **label):
    """Store totals with rising chances, and a label for each where ``label`` says what it is for."""
    for number in range(count):
        span = store.span(f"{number:016x}", "read_invoice", request="Read it.")
        chance = number / count
        fields = [{"path": "total", "value": f"{number}.50", "chance": chance}]
        store.evaluation(span, "extraction_risk", chance, metadata={"fields": fields})
        if label:
            value = "no" if is_wrong(number) else "yes"
            said = human_label(span, "extraction_correctness", value, field="total", **label)
            add_feedback(store.path, said)


def accept(llmeval, store, *options):
    done = llmeval("accept", "--field", "total", "--store", store.path, "--json", *options)
    return done.returncode, json.loads(done.stdout)


def test_values_below_a_threshold_need_no_look(llmeval, store):
    """Labels of values drawn at random prove it, and the text tells both promises apart."""
    fill(store, 300, is_wrong=lambda number: number > 270, purpose=ACCEPT)
    code, said = accept(llmeval, store, "--error", "2%")
    assert (code, said["labels"]) == (0, 300)
    assert 0.5 <= said["sure"]["share"] <= 0.92
    assert said["sure"]["of_accepted"] <= 0.02
    assert said["average"]["share"] >= said["sure"]["share"]
    found = said["finds_errors"]
    assert found["auroc"]["low"] < found["auroc"]["value"] == 1.0
    assert (found["errors_found"]["value"], found["accuracy"]["value"]) == (1.0, 1.0)
    text = llmeval("accept", "--field", "total", "--store", store.path).stdout
    assert "With 95 % confidence, at most 2.00% of the accepted values is wrong" in text
    assert "On average, at most 2.00% of all values is both wrong and unseen" in text
    assert "may exceed it" in text
    assert "AUROC 1.00 (" in text


@pytest.mark.parametrize("label", [{}, {"purpose": "review"}, {"source": "user"}])
def test_only_labels_of_values_drawn_at_random_count(llmeval, store, label):
    """Labels chosen by risk are no sample; without others nothing is promised."""
    fill(store, 60, is_wrong=lambda number: number > 50, submitter={"id": "me"}, **label)
    code, said = accept(llmeval, store)
    assert (code, said["labels"], said["sure"]["threshold"]) == (1, 0, None)
    assert "too few" in said["sure"]["reason"]


def test_nothing_is_promised_of_few_labels_and_their_number_is_said(llmeval, store):
    """The command says how many labels are missing, and how to give them."""
    fill(store, 60, is_wrong=lambda number: number > 50, purpose=ACCEPT)
    code, said = accept(llmeval, store, "--error", "0.01")
    assert code == 1
    assert said["sure"]["missing"] > 100
    text = llmeval("accept", "--field", "total", "--error", "1%", "--store", store.path).stdout
    assert "llmeval label --for accept --field total --labels" in text


def test_without_labels_the_fewest_that_can_do_are_named(llmeval, store):
    """With none wrong among 59 accepted values, at most 5 % is; they are half of those drawn."""
    fill(store, 60, is_wrong=lambda number: False)
    text = llmeval("accept", "--field", "total", "--error", "5%", "--store", store.path).stdout
    assert "At least 117 labels are needed: llmeval label --for accept --field total" in text


@pytest.mark.parametrize("error", ["0", "1", "200%", "nan", "two"])
def test_an_error_that_is_no_share_is_refused(llmeval, store, error):
    fill(store, 3, is_wrong=lambda number: False)
    done = llmeval("accept", "--field", "total", "--error", error, "--store", store.path)
    assert done.returncode == 2
    assert "is no share between 0 and 1" in done.stderr


def test_an_unknown_field_is_refused_by_name(llmeval, store):
    """`totl` names the field that was probably meant."""
    fill(store, 3, is_wrong=lambda number: False)
    for command in (("accept",), ("label", "--for", "accept")):
        done = llmeval(*command, "--field", "totl", "--store", store.path)
        assert done.returncode == 2
        assert "did you mean" in done.stderr.lower()
        assert "total" in done.stderr


def test_skipped_values_are_told(store, llmeval, tmp_path):
    """People skip the hard ones, so the labels of the others promise too much."""
    fill(store, 60, is_wrong=lambda number: False)
    asked = (
        "label",
        "--for",
        "accept",
        "--field",
        "total",
        "--labels",
        "30",
        "--store",
        store.path,
    )
    run_command(*asked, folder=tmp_path, env={}, keys="y\ns\n" * 15 + "y\n")
    text = llmeval("accept", "--field", "total", "--store", store.path).stdout
    assert "14 values that were shown have no label" in text


def test_values_are_drawn_at_random_and_labelled_by_field(store, tmp_path):
    """The draw does not follow the chances; each label keeps the chance of its draw."""
    fill(store, 200, is_wrong=lambda number: False)
    asked = (
        "label",
        "--for",
        "accept",
        "--field",
        "total",
        "--labels",
        "40",
        "--store",
        store.path,
    )
    done = run_command(*asked, folder=tmp_path, env={}, keys="y\nn\n" * 15)
    assert "30 labels stored, 30 of 40 values that were drawn have one" in done.stdout
    assert "Is this right?  total = " in done.stdout
    with StoreReader(store.path) as reader:
        labels = reader.feedback("extraction_correctness")
    numbers = sorted(int(each.target.span_id, 16) for each in labels)
    assert len(set(numbers)) == 30
    assert numbers[5] < 100 < numbers[-5]
    assert {each.evaluation.metadata["inclusion_probability"] for each in labels} == {0.2}
    again = run_command(*asked, folder=tmp_path, env={}, keys="y\n" * 40)
    assert "10 labels stored, 40 of 40" in again.stdout


# A threshold that was saved, and whether its promise still holds.


LATER_NS = time.time_ns() + 3_600_000_000_000
"""An hour from now: after whatever a test saves."""


def audit(store, number, *, right):
    """Store an accepted value that was audited, with what a person said of it."""
    span = store.span(f"{number:016x}", "read_invoice", request="Read it.", start_ns=LATER_NS)
    fields = [{"path": "total", "value": "1.50", "chance": 0.1}]
    store.evaluation(span, "extraction_risk", 0.1, metadata={"fields": fields})
    store.evaluation(span, "acceptance", "audit", metadata={"field": "total"})
    value = "yes" if right else "no"
    said = human_label(span, "extraction_correctness", value, field="total")
    add_feedback(store.path, said)


def refused(store, numbers):
    """Store values whose chance lies above every threshold."""
    for number in numbers:
        span = store.span(f"{number:016x}", "read_invoice", request="Read it.", start_ns=LATER_NS)
        fields = [{"path": "total", "value": "1.50", "chance": 0.99}]
        store.evaluation(span, "extraction_risk", 0.99, metadata={"fields": fields})


def saved(llmeval, store, *options):
    """Save a threshold of values of which a tenth is wrong, all with a high chance."""
    fill(store, 300, is_wrong=lambda number: number > 270, purpose=ACCEPT)
    return accept(llmeval, store, "--error", "2%", "--save", "sure", *options)


def test_a_saved_threshold_is_what_the_app_goes_by(llmeval, store):
    """`--save` writes what was promised into the file of state."""
    code, said = saved(llmeval, store)
    assert (code, said["now_saved"]) == (0, "sure")
    kept = acceptances.read(state_path(store.path))[None, "total"]
    assert (kept.threshold, kept.promise) == (said["sure"]["threshold"], "sure")
    assert (kept.values, kept.error) == (300, 0.02)


def test_nothing_is_saved_where_nothing_is_promised(llmeval, store):
    """The command says so, and its exit code does."""
    fill(store, 30, is_wrong=lambda number: number > 20, purpose=ACCEPT)
    done = llmeval("accept", "--field", "total", "--save", "sure", "--store", store.path)
    assert done.returncode == 1
    assert "Nothing was saved" in done.stdout
    assert not acceptances.read(state_path(store.path))


def test_a_promise_holds_while_traffic_and_audits_are_as_they_were(llmeval, store):
    """Right audits and as many accepted values as before are no reason to label anew."""
    share = saved(llmeval, store)[1]["sure"]["share"]
    for number in range(400, 480):
        audit(store, number, right=number != 420)
    refused(store, range(500, 500 + round(80 / share - 80)))
    code, said = accept(llmeval, store, "--error", "2%")
    state = said["saved"]
    assert (code, state["audited"], state["wrong"], state["exceeded"]) == (0, 80, 1, False)


def test_audits_that_are_wrong_too_often_end_the_promise(llmeval, store):
    """Labels of audited values are a sample of what is accepted: more errors show there first."""
    saved(llmeval, store)
    for number in range(400, 430):
        audit(store, number, right=number >= 406)
    code, said = accept(llmeval, store, "--error", "2%")
    assert (code, said["saved"]["exceeded"]) == (1, True)
    text = llmeval("accept", "--field", "total", "--store", store.path).stdout
    assert "it no longer holds" in text


def test_traffic_that_has_changed_ends_the_promise(llmeval, store):
    """Where another part of the values is accepted than before, the labels are of other traffic."""
    saved(llmeval, store)
    refused(store, range(400, 700))
    code, said = accept(llmeval, store, "--error", "2%")
    assert (code, said["saved"]["moved"]) == (1, True)
    assert said["saved"]["share"] < 0.1


def test_a_saved_threshold_can_be_removed(llmeval, store):
    """From then on the app accepts nothing by it; there is nothing to remove twice."""
    saved(llmeval, store)
    code, said = accept(llmeval, store, "--save", "none")
    assert (code, said["removed"]) == (0, True)
    assert not acceptances.read(state_path(store.path))
    again = llmeval("accept", "--field", "total", "--save", "none", "--store", store.path)
    assert (again.returncode, again.stdout) == (
        1, "There is no saved threshold for 'total'.\n",
    )  # fmt: skip


def test_a_threshold_stays_where_nothing_takes_its_place(llmeval, store):
    """The command says that the former one is still in use."""
    saved(llmeval, store)
    done = llmeval(
        "accept", "--field", "total", "--error", "0.01%", "--save", "sure", "--store", store.path
    )
    assert done.returncode == 1
    assert "The one that was saved before stays." in " ".join(done.stdout.split())
    assert acceptances.read(state_path(store.path))
