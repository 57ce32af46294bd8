"""`label --for accept` and `accept`: which values of a field need no look."""

import json
import time

import pytest
from command_line import run_command

from llmeval_sdk.evaluation import acceptances
from llmeval_sdk.evaluation.acceptances import Key
from llmeval_sdk.store.fields import ACCEPT
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import state_path


def fill(store, count, *, is_wrong, **label):
    """Store totals with rising chances, and a label for each where ``label`` says what it is for."""
    with store.at_once():
        for number in range(count):
            span = store.span(f"{number:016x}", "read_invoice", request="Read it.")
            chance = number / count
            fields = [{"path": "total", "value": f"{number}.50", "chance": chance}]
            store.evaluation(span, "extraction_risk", chance, metadata={"fields": fields})
            if label:
                value = "no" if is_wrong(number) else "yes"
                said = human_label(span, "extraction_correctness", value, field="total", **label)
                store.add(said)


def accept(llmeval, store, *options):
    done = llmeval("accept", "--field", "total", "--store", store.path, "--json", *options)
    return done.returncode, json.loads(done.stdout)


def test_values_below_a_threshold_need_no_look(llmeval, store):
    """Labels of values drawn at random prove it."""
    fill(store, 300, is_wrong=lambda number: number > 270, purpose=ACCEPT)
    code, said = accept(llmeval, store, "--error", "2%")
    assert (code, said["labels"]) == (0, 300)
    assert 0.5 <= said["sure"]["share"] <= 0.92
    assert said["sure"]["of_accepted"] <= 0.02
    found = said["finds_errors"]
    assert found["auroc"]["low"] < found["auroc"]["value"] == 1.0
    assert (found["errors_found"]["value"], found["accuracy"]["value"]) == (1.0, 1.0)
    text = llmeval("accept", "--field", "total", "--store", store.path).stdout
    assert "With 95 % confidence, at most 2.00% of the accepted values is wrong" in text
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
    store.add(said)


def refused(store, numbers):
    """Store values whose chance lies above every threshold."""
    with store.at_once():
        for number in numbers:
            span = store.span(
                f"{number:016x}", "read_invoice", request="Read it.", start_ns=LATER_NS
            )
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
    kept = acceptances.read(state_path(store.path))[Key(None, "total")]
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


# Groups of the traffic.


ACME = ("--where", "tag:tenant=acme")
ACME_KEY = Key(None, "total", (("tenant", "acme"),))
WRONG = {"acme": 95, "beta": 60}
"""From which number below 100 on the values of a tenant are wrong."""


def fill_tenants(store, count=600, *, other="beta", key="tenant", **label):
    """Store totals of two tenants in turn, each with labels where ``label`` says what they are for."""
    with store.at_once():
        for number in range(count):
            tenant = ("acme", other)[number % 2]
            span = store.span(
                f"{number:016x}", "read_invoice", trace_id=f"{number:032x}", request="Read it.",
                tags={key: tenant, "plan": "paid"},
            )  # fmt: skip
            place = number // 2 % 100
            chance = place / 100
            fields = [{"path": "total", "value": f"{number}.50", "chance": chance}]
            store.evaluation(span, "extraction_risk", chance, metadata={"fields": fields})
            if label:
                value = "no" if place >= WRONG.get(tenant, 60) else "yes"
                said = human_label(span, "extraction_correctness", value, field="total", **label)
                store.add(said)


def label_group(store, tmp_path, *options, labels=20):
    asked = ("label", "--for", "accept", "--field", "total", "--labels", labels)
    return run_command(
        *asked, "--store", store.path, *options, folder=tmp_path, env={}, keys="y\n" * labels
    )


def test_a_group_is_labelled_and_counted_by_the_filter_of_all_commands(store, llmeval, tmp_path):
    """Labels keep what they were drawn from; they count there, and elsewhere are left out aloud."""
    fill_tenants(store)
    done = label_group(store, tmp_path, *ACME)
    assert "20 labels stored, 20 of 20 values that were drawn have one" in done.stdout
    assert "`llmeval accept --field total --where tag:tenant=acme` says" in done.stdout
    with StoreReader(store.path) as reader:
        labels = reader.feedback("extraction_correctness")
    assert {int(each.target.span_id, 16) % 2 for each in labels} == {0}
    assert {each.evaluation.metadata["inclusion_probability"] for each in labels} == {20 / 300}
    assert labels[0].evaluation.metadata["drawn"]["where"] == ["tag:tenant=acme"]
    _, of_acme = accept(llmeval, store, *ACME)
    _, of_all = accept(llmeval, store)
    assert (of_acme["where"], of_acme["values"], of_acme["labels"]) == (
        ["tag:tenant=acme"], 300, 20,
    )  # fmt: skip
    assert (of_all["where"], of_all["values"], of_all["labels"]) == ([], 600, 0)
    text = llmeval("accept", "--field", "total", "--store", store.path).stdout
    assert "20 labels of values drawn with --since, --span-name or --where are left out" in text


def test_labels_drawn_over_all_traffic_count_in_each_group(store, llmeval):
    """A group with few wrong values has a threshold where all traffic has none."""
    fill_tenants(store, purpose=ACCEPT)
    code, of_acme = accept(llmeval, store, *ACME)
    assert (code, of_acme["labels"]) == (0, 300)
    assert of_acme["sure"]["share"] > 0.8
    assert accept(llmeval, store)[1]["sure"]["share"] < of_acme["sure"]["share"]
    text = llmeval("accept", "--field", "total", "--store", store.path, *ACME).stdout
    assert text.startswith("total of read_invoice where tag:tenant=acme: 300 values")


def test_a_threshold_of_a_group_is_saved_shown_and_removed_beside_that_of_all(store, llmeval):
    """Each has its own place in the file of state, and its own state when it is asked for."""
    fill_tenants(store, purpose=ACCEPT)
    assert accept(llmeval, store, "--error", "5%", "--save", "sure")[0] == 0
    code, said = accept(llmeval, store, "--error", "2%", "--save", "sure", *ACME)
    assert (code, said["now_saved"]) == (0, "sure")
    known = acceptances.read(state_path(store.path))
    assert set(known) == {Key(None, "total"), ACME_KEY}
    assert known[ACME_KEY].threshold == said["sure"]["threshold"]
    shown = accept(llmeval, store, *ACME)[1]["saved"]["saved"]
    assert (shown["where"], shown["error"]) == ({"tag:tenant": "acme"}, 0.02)
    assert accept(llmeval, store)[1]["saved"]["saved"]["error"] == 0.05
    assert accept(llmeval, store, "--where", "tag:tenant=beta")[1]["saved"] is None
    removed = accept(llmeval, store, "--save", "none", *ACME)[1]
    assert (removed["removed"], removed["where"]) == (True, ["tag:tenant=acme"])
    assert set(acceptances.read(state_path(store.path))) == {Key(None, "total")}
    again = llmeval("accept", "--field", "total", "--save", "none", "--store", store.path, *ACME)
    assert again.stdout == "There is no saved threshold for 'total' where tag:tenant=acme.\n"


def test_a_group_is_one_group_however_its_conditions_are_written(store, llmeval):
    """Their order, their quotes and how often each stands there do not matter."""
    fill_tenants(store, purpose=ACCEPT, key="ten ant")
    first = ("--where", "tag:plan=paid", "--where", "tag:ten ant=acme")
    again = ("--where", 'tag:"ten ant"="acme"', "--where", "tag:plan=paid", *first)
    assert accept(llmeval, store, "--save", "sure", *first)[0] == 0
    assert set(acceptances.read(state_path(store.path))) == {
        Key(None, "total", (("plan", "paid"), ("ten ant", "acme")))
    }
    assert accept(llmeval, store, *again)[1]["saved"]["values"] == 0
    assert accept(llmeval, store, "--save", "none", *again)[1]["removed"] is True


@pytest.mark.parametrize(
    "where",
    [
        ["score:extraction_risk<0.5"], ["latency<2s"], ["tag:tenant~acm"], ["tag:tenant!=beta"],
        ["tag:tenant"], ["tag:tenant="], ["tag:tenant=acme,beta"], ["user=u-1"],
        ["tag:user_id=u-1"], ["tag:session_id=s-1"], ["name=read_invoice"],
        ["tag:tenant=acme", "tag:tenant=beta"], ["tag:a=1", "tag:b=2", "tag:c=3"],
        ["tag:tenant=acme", "score:extraction_risk<0.5"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("save", ["sure", "none"])
def test_a_filter_that_an_app_cannot_decide_at_once_is_not_saved(store, llmeval, where, save):
    """The sentence says what can be saved, before anything is read."""
    fill_tenants(store, 2)
    options = [word for text in where for word in ("--where", text)]
    done = llmeval("accept", "--field", "total", "--save", save, "--store", store.path, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--save takes one or two tags with one value each" in done.stderr
    assert "--where tag:tenant=acme" in done.stderr
    assert not acceptances.read(state_path(store.path))


def test_a_filter_that_cannot_be_saved_can_be_counted(store, llmeval):
    """It has no saved state."""
    fill_tenants(store, purpose=ACCEPT)
    _, said = accept(llmeval, store, "--where", "tag:tenant~ACM", "--where", "latency<2s")
    assert (said["values"], said["labels"], said["saved"]) == (300, 300, None)


@pytest.mark.parametrize(
    "tenant",
    ["a'b", 'say "x", y', "tag:x=y", "née\u202e", "$(rm)", "\x1b[31mred", "z" * 3_000, "%s"],
)
def test_the_value_of_a_tag_may_be_anything(store, tmp_path, tenant):
    """It is stored as it is, compared as it is, and shown so that it steers no terminal."""
    fill_tenants(store, 400, other=tenant, purpose=ACCEPT)
    quoted = tenant.replace('"', '""')
    options = ("--where", f'tag:tenant="{quoted}"')
    done = run_command(
        "accept", "--field", "total", "--error", "5%", "--save", "sure", "--store", store.path,
        *options, folder=tmp_path, env={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "200 values" in done.stdout
    assert not set("\x1b\u202e") & set(done.stdout)
    assert set(acceptances.read(state_path(store.path))) == {
        Key(None, "total", (("tenant", tenant),))
    }
    labelled = label_group(store, tmp_path, *options)
    assert not set("\x1b\u202e") & set(labelled.stdout)


def test_what_is_missing_in_a_group_is_asked_for_with_its_filter(store, llmeval):
    """The command that is shown can be copied: its words are quoted for a shell."""
    fill_tenants(store, 60, other="a b")
    done = llmeval(
        "accept", "--field", "total", "--error", "5%", "--store", store.path,
        "--where", "tag:tenant=a b", "--span-name", "read_invoice",
    )  # fmt: skip
    assert (
        "--labels 117 --span-name read_invoice --where 'tag:tenant=a b'"
        in " ".join(done.stdout.split())
    )  # fmt: skip


def test_a_field_that_a_group_does_not_have_is_named_with_the_group(store, llmeval, tmp_path):
    """Otherwise the sentence would deny what the store has."""
    fill_tenants(store, 4)
    options = ("--where", "tag:tenant=gamma")
    for done in (
        llmeval("accept", "--field", "total", "--store", store.path, *options),
        label_group(store, tmp_path, *options),
    ):
        assert done.returncode == 2
        assert "scored in this store where tag:tenant=gamma" in done.stderr


def test_spans_without_the_tag_of_their_request_are_told(store, llmeval):
    """An app goes by the span's own tags, so that the promise is about other values there."""
    fill_tenants(store, 40)
    parent = store.span("f" * 16, "answer", trace_id=f"{1:032x}", tags={"tenant": "acme"})
    assert parent.tags == {"tenant": "acme"}
    _, said = accept(llmeval, store, *ACME)
    assert (said["values"], said["spans_without_tags"]) == (21, 1)
    text = llmeval("accept", "--field", "total", "--store", store.path, *ACME).stdout
    assert "1 span with such values lack" in text


def audit_of_group(store, number, thresholds, *, right):
    """Store an audited value of acme, accepted by thresholds that were saved at some times."""
    span = store.span(
        f"{number:016x}", "read_invoice", trace_id=f"{number:032x}", request="Read it.",
        start_ns=LATER_NS, tags={"tenant": "acme"},
    )  # fmt: skip
    fields = [{"path": "total", "value": "1.50", "chance": 0.1}]
    store.evaluation(span, "extraction_risk", 0.1, metadata={"fields": fields})
    said = (
        {"field": "total"} if thresholds is None else {"field": "total", "thresholds": thresholds}
    )
    store.evaluation(span, "acceptance", "audit", metadata=said)
    value = "yes" if right else "no"
    add_feedback(
        store.path, human_label(span, "extraction_correctness", value, field="total")
    )  # fmt: skip


def test_audits_count_for_the_threshold_by_which_their_values_were_accepted(store, llmeval):
    """Those of a group say nothing of the threshold for all, which accepted none of them."""
    fill_tenants(store, purpose=ACCEPT)
    accept(llmeval, store, "--error", "5%", "--save", "sure")
    accept(llmeval, store, "--error", "2%", "--save", "sure", *ACME)
    known = acceptances.read(state_path(store.path))
    of_all, of_acme = known[Key(None, "total")].saved_ns, known[ACME_KEY].saved_ns
    for number in range(1_000, 1_030):
        audit_of_group(store, number, [of_acme], right=number >= 1_010)
    for number in range(1_030, 1_050):
        audit_of_group(store, number, [17, of_all], right=True)
    for number in range(1_050, 1_057):
        audit_of_group(store, number, None, right=True)  # of release 0.1.0
    for odd in ("all", [str(of_acme)], [[of_acme]]):
        audit_of_group(store, 1_060 + len(str(odd)), odd, right=False)
    code, said = accept(llmeval, store, *ACME)
    state = said["saved"]
    assert (code, state["audited"], state["wrong"], state["exceeded"]) == (1, 30, 10, True)
    state = accept(llmeval, store)[1]["saved"]
    assert (state["audited"], state["wrong"], state["exceeded"]) == (27, 0, False)


def test_the_promise_on_average_is_refused_with_a_sentence(llmeval, store):
    """Whoever wrote it before learns that there is one promise."""
    fill(store, 60, is_wrong=lambda number: number > 50, purpose=ACCEPT)
    done = llmeval("accept", "--field", "total", "--store", store.path, "--save", "average")
    assert done.returncode == 2
    assert "the promise on average is made no longer" in done.stderr
