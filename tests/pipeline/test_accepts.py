"""`llmeval.accepts`: what needs no look, by a threshold that was saved, and never by mistake."""

import json
import timeit
from contextlib import closing
from dataclasses import asdict, replace

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.evaluation import acceptances
from llmeval_sdk.evaluation.acceptances import (
    AUDIT_PROBABILITY,
    Acceptances,
    Key,
    SavedThreshold,
)
from llmeval_sdk.evaluation.groups import NO_TAGS
from llmeval_sdk.heuristics.extraction.risk import extraction_risk
from llmeval_sdk.store import state
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import SharedText, StateFile, state_path, text_in


TOTAL = SavedThreshold(
    field="total", span_name=None, threshold=0.1, error=0.02, promise="sure", share=0.8,
    values=1_000, labels=300, version="2", saved_ns=1,
)  # fmt: skip
VERSION = extraction_risk.version
RECEIPT = "Subtotal 41.50\nTax 3.32\nTotal due 44.82"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store" / "llmeval.db"


@pytest.fixture
def without_audits(monkeypatch):
    """Keep the one value in a hundred that is refused at random out of a test of one value."""
    monkeypatch.setattr(acceptances, "AUDIT_PROBABILITY", 0.0)


@pytest.fixture
def app(path, without_audits):
    """Return a function that answers under tracing and asks whether that needs no look."""
    llmeval.configure(store=path, exporters=["local"])

    def answer(total, tags=None, **asked):
        with llmeval.workflow("read_invoice", tags=tags) as span:
            span.annotate(value={"total": total}, retrieved_context=[RECEIPT])
            accepted = llmeval.accepts(span, **asked)
        return span, accepted

    yield answer
    llmeval.shutdown(10)


def scored(version="2", **chances):
    entries = [{"path": path, "chance": chance} for path, chance in chances.items()]
    return llmeval.Evaluation(
        "extraction_risk", 0.5, metadata={"fields": entries}, evaluator_version=version
    )


def decisions(path, evaluation, field=None, span_name="read_invoice", count=1, tags=NO_TAGS):
    problems = []
    thresholds = Acceptances(path, problems.append)
    made = [
        thresholds.decide(evaluation, span_name, f"{number:016x}", field, tags).decision
        for number in range(1_000, 1_000 + count)
    ]
    return made, problems


def test_a_value_below_its_threshold_needs_no_look_and_another_one_does(app, path):
    """The decision is made at once, and stored beside the score that it rests on."""
    acceptances.save(state_path(path), replace(TOTAL, version=VERSION))
    right, is_right_accepted = app("44.82", field="total")
    wrong, is_wrong_accepted = app("41.50", field="total")
    assert (is_right_accepted, is_wrong_accepted) == (True, False)
    assert right.evaluations["extraction_risk"].value <= 0.1
    llmeval.flush(10)
    with closing(StoreReader(path)) as reader:
        stored = [
            evaluation.evaluation.value
            for span in (right, wrong)
            for evaluation in reader.evaluations_of(span.span_id)
            if evaluation.evaluation.name == "acceptance"
        ]
    assert stored == ["accepted", "refused"]


def test_nothing_is_accepted_without_a_threshold(app):
    """Neither where none was saved, nor for a field that has none or is not there."""
    assert app("44.82")[1] is False
    assert app("44.82", field="total")[1] is False
    assert app("44.82", field="missing")[1] is False


def test_all_fields_of_an_answer_must_be_accepted(tmp_path):
    """A field without a threshold, without a chance or above its threshold refuses the answer."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, TOTAL)
    acceptances.save(path, replace(TOTAL, field="lines.amount", threshold=0.5))
    answer = {"total": 0.05, "lines[0].amount": 0.4, "lines[1].amount": 0.45}
    assert decisions(path, scored(**answer))[0] == ["accepted"]
    for refused in (
        {**answer, "lines[1].amount": 0.6}, {**answer, "vendor": 0.01}, {**answer, "total": None},
    ):  # fmt: skip
        assert decisions(path, scored(**refused))[0] == ["refused"]
        assert decisions(path, scored(**refused), "lines[0].amount")[0] == ["accepted"]


def test_a_threshold_of_a_span_name_is_of_its_spans_alone(tmp_path):
    """It goes before one for all names, and accepts nothing of others."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, replace(TOTAL, span_name="read_receipt", threshold=0.9))
    assert decisions(path, scored(total=0.8), span_name="read_receipt")[0] == ["accepted"]
    assert decisions(path, scored(total=0.0))[0] == ["refused"]
    acceptances.save(path, TOTAL)
    assert decisions(path, scored(total=0.8))[0] == ["refused"]
    assert decisions(path, scored(total=0.05))[0] == ["accepted"]


def test_one_in_a_hundred_is_refused_as_an_audit_and_stays_refused(tmp_path):
    """Asking again does not change the decision; what is refused anyway is no audit."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, TOTAL)
    made, _ = decisions(path, scored(total=0.05), "total", count=20_000)
    share = made.count("audit") / len(made)
    assert abs(share - AUDIT_PROBABILITY) < 4 * (AUDIT_PROBABILITY / len(made)) ** 0.5
    assert made == decisions(path, scored(total=0.05), "total", count=20_000)[0]
    assert set(decisions(path, scored(total=0.5), "total", count=2_000)[0]) == {"refused"}


def test_another_version_of_the_score_accepts_nothing_and_says_so(tmp_path):
    """Nobody knows what the chances of the new version mean below the old threshold."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, TOTAL)
    made, problems = decisions(path, scored(total=0.0, version="3"))
    assert made == ["refused"]
    assert len(problems) == 1
    assert "run again" in problems[0]


def test_a_threshold_with_a_promise_on_average_accepts_nothing_and_says_so(tmp_path):
    """0.1.0 saved such thresholds; what they promised is promised no longer."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, replace(TOTAL, promise="average"))
    made, problems = decisions(path, scored(total=0.0))
    assert made == ["refused"]
    assert len(problems) == 1
    assert "promise on average" in problems[0]


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", "nonsense", '{"format": 3, "thresholds": []}',
        '{"format": 1, "thresholds": [{"field": "total"}]}',
        json.dumps({"format": 1, "thresholds": [
            {name: getattr(TOTAL, name) for name in TOTAL.__slots__} | {"threshold": 7}
        ]}),
        *(
            json.dumps({"format": 2, "thresholds": [asdict(TOTAL) | {"where": where}]})
            for where in (
                None, [], ["tag:tenant=acme"], "tag:tenant", {"tenant": "acme"}, {"tag:": "acme"},
                {"tag:tenant": 5}, {"tag:tenant": ["acme"]}, {"tag:a": "1", "tag:b": "2", "tag:c": "3"},
            )
        ),
    ],
)  # fmt: skip
def test_thresholds_that_cannot_be_read_accept_nothing_and_say_so(tmp_path, text):
    """A damaged text never passes for a permission."""
    path = tmp_path / "llmeval.state"
    with closing(SharedText(StateFile(path), acceptances.TEXT)) as kept:
        kept.update(lambda _: (text, None))
    made, problems = decisions(path, scored(total=0.0))
    assert made == ["refused"]
    assert len(problems) == 1


def test_a_threshold_that_is_saved_later_is_seen_by_a_running_app(tmp_path, monkeypatch):
    """The app looks again after half a minute; nobody has to start it anew."""
    monkeypatch.setattr(state, "LOOK_AGAIN_SECONDS", 0.0)
    path = tmp_path / "llmeval.state"
    thresholds = Acceptances(path, pytest.fail)
    assert thresholds.decide(scored(total=0.0), "read", "1", "total").decision == "refused"
    acceptances.save(path, TOTAL)
    assert thresholds.decide(scored(total=0.0), "read", "1", "total").decision == "accepted"


# Thresholds of groups.


ACME = {"tag:tenant": "acme"}
PAID = {"tag:plan": "paid"}


def saved_for(path, *groups):
    """Save a threshold for each name, group and highest chance."""
    for name, where, threshold in groups:
        acceptances.save(path, replace(TOTAL, span_name=name, where=where, threshold=threshold))


@pytest.mark.parametrize(
    ("tags", "span_name", "highest"),
    [
        ({"tenant": "acme", "plan": "paid"}, "read_invoice", 0.70),
        ({"tenant": "acme"}, "read_invoice", 0.60),
        ({"tenant": "acme", "plan": "paid"}, "other", 0.50),
        ({"tenant": "acme", "plan": "free"}, "other", 0.40),
        ({"tenant": "beta"}, "read_invoice", 0.30),
        ({"tenant": "beta"}, "other", 0.20),
        ({}, "other", 0.20),
    ],
)
def test_the_most_specific_threshold_counts(tmp_path, tags, span_name, highest):
    """Span name and group, then group, then span name, then all; two tags go before one."""
    path = tmp_path / "llmeval.state"
    saved_for(
        path, ("read_invoice", ACME | PAID, 0.70), ("read_invoice", ACME, 0.60),
        (None, PAID | ACME, 0.50), (None, ACME, 0.40), ("read_invoice", {}, 0.30), (None, {}, 0.20),
    )  # fmt: skip
    for chance, decision in ((highest, "accepted"), (highest + 0.01, "refused")):
        made, _ = decisions(path, scored(total=chance), "total", span_name, tags=tags)
        assert made == [decision]


def test_of_two_groups_that_fit_equally_the_lower_threshold_counts(tmp_path):
    """Nobody promised anything of the values that are in both."""
    path = tmp_path / "llmeval.state"
    saved_for(path, (None, ACME, 0.4), (None, PAID, 0.2))
    both = {"tenant": "acme", "plan": "paid"}
    assert decisions(path, scored(total=0.3), tags=both)[0] == ["refused"]
    assert decisions(path, scored(total=0.2), tags=both)[0] == ["accepted"]
    assert decisions(path, scored(total=0.3), tags={"tenant": "acme"})[0] == ["accepted"]


def test_a_group_of_an_older_score_refuses_and_falls_back_on_nothing(tmp_path):
    """A broader threshold is no substitute for one that was made for the group."""
    path = tmp_path / "llmeval.state"
    saved_for(path, (None, {}, 0.9))
    acceptances.save(path, replace(TOTAL, where=ACME, version="1"))
    made, problems = decisions(path, scored(total=0.0), tags={"tenant": "acme"})
    assert (made, len(problems)) == (["refused"], 1)


@pytest.mark.parametrize(
    "value", ["ACME", "acme ", "", None, True, 1.0, ["acme"], {"a": "acme"}, float("nan"), b"acme"]
)
def test_a_tag_with_another_value_is_of_no_group(tmp_path, value):
    """Whatever the app sets, the broader threshold holds, and nothing is raised."""
    path = tmp_path / "llmeval.state"
    saved_for(path, (None, ACME, 0.9), (None, {"tag:tenant": "1"}, 0.9))
    assert decisions(path, scored(total=0.5), tags={"tenant": value})[0] == ["refused"]
    saved_for(path, (None, {}, 0.6))
    assert decisions(path, scored(total=0.5), tags={"tenant": value})[0] == ["accepted"]


@pytest.mark.parametrize("value", ["a,b", 'say "x"', "née", "=", "x\n", "\x1b[31m", "y" * 5_000])
def test_any_text_can_be_the_value_of_a_group(tmp_path, value):
    """It comes back from the file as it was."""
    path = tmp_path / "llmeval.state"
    saved_for(path, (None, {"tag:odd key": value}, 0.9))
    assert decisions(path, scored(total=0.5), tags={"odd key": value})[0] == ["accepted"]
    assert decisions(path, scored(total=0.5), tags={"odd key": value + "x"})[0] == ["refused"]


def test_a_file_without_a_group_is_what_release_0_1_0_writes_and_reads(tmp_path):
    """Both go by the same file beside the store, before and after an update."""
    path = tmp_path / "llmeval.state"
    of_0_1_0 = (
        '{"format": 1, "thresholds": [{"field": "total", "span_name": null, "threshold": 0.1,'
        ' "error": 0.02, "promise": "sure", "share": 0.8, "values": 1000, "labels": 300,'
        ' "version": "2", "saved_ns": 1}]}'
    )
    acceptances.save(path, TOTAL)
    assert text_in(path, acceptances.TEXT) == of_0_1_0
    assert acceptances.read(path) == {Key(None, "total"): TOTAL}
    acceptances.save(path, replace(TOTAL, where=ACME))
    assert json.loads(text_in(path, acceptances.TEXT))["format"] == 2
    assert acceptances.remove(path, Key(None, "total", (("tenant", "acme"),)))
    assert text_in(path, acceptances.TEXT) == of_0_1_0


def test_what_would_make_the_file_unreadable_is_not_saved(tmp_path):
    """The thresholds that are there stay in use."""
    path = tmp_path / "llmeval.state"
    saved_for(path, (None, {}, 0.5))
    with pytest.raises(DataError, match="too long"):
        saved_for(path, (None, {"tag:tenant": "x" * acceptances.MAX_CHARACTERS}, 0.5))
    assert decisions(path, scored(total=0.4))[0] == ["accepted"]


def test_a_thousand_groups_are_told_apart_in_microseconds(tmp_path):
    """An app asks at each answer; the bound is far above what it takes on an idle machine."""
    path = tmp_path / "llmeval.state"
    thresholds = [
        replace(TOTAL, where={"tag:tenant": f"t{n}"}, threshold=0.5) for n in range(1_000)
    ]
    text = acceptances._written({each.key: each for each in thresholds})
    with closing(SharedText(StateFile(path), acceptances.TEXT)) as kept:
        kept.update(lambda _: (text, None))
    known, answer = Acceptances(path, pytest.fail), scored(total=0.3)
    tags = {"tenant": "t777", **{f"tag{n}": "x" for n in range(30)}}

    def ask():
        return known.decide(answer, "read_invoice", "1", "total", tags)

    assert ask().decision == "accepted"
    assert min(timeit.repeat(ask, number=100, repeat=5)) / 100 < 200e-6


def test_the_tags_of_a_span_say_which_threshold_holds_and_its_audits_name_it(app, path):
    """Those of the blocks around it count as well; the decision says when its threshold was saved."""
    acceptances.save(state_path(path), replace(TOTAL, version=VERSION, threshold=0.0))
    acceptances.save(
        state_path(path), replace(TOTAL, version=VERSION, where=ACME, threshold=0.9, saved_ns=7)
    )
    _, is_others_accepted = app("44.82", field="total")
    own, is_own_accepted = app("44.82", tags={"tenant": "acme"}, field="total")
    with llmeval.annotation_context(tags={"tenant": "acme"}):
        around, is_accepted_around = app("44.82", field="total")
    assert (is_others_accepted, is_own_accepted, is_accepted_around) == (False, True, True)
    llmeval.flush(10)
    with closing(StoreReader(path)) as reader:
        by = [
            each.evaluation.metadata["thresholds"]
            for span in (own, around)
            for each in reader.evaluations_of(span.span_id)
            if each.evaluation.name == "acceptance"
        ]
    assert by == [[7], [7]]


@pytest.mark.parametrize("span", [None, "span", object()])
def test_it_never_raises(app, span):
    """What is no span is refused, and counted."""
    assert llmeval.accepts(span) is False
    assert any("accepts" in problem for problem in llmeval.stats().problems)


def test_a_score_of_a_former_value_accepts_no_other_value(path, without_audits):
    """Whoever asks the model again gets a decision on the new answer, and one score is kept."""
    acceptances.save(state_path(path), replace(TOTAL, version=VERSION))
    llmeval.configure(store=path, exporters=["local"])
    with llmeval.workflow("read_invoice") as span:
        span.annotate(value={"total": "44.82"}, retrieved_context=[RECEIPT])
        assert llmeval.accepts(span, field="total") is True
        assert llmeval.accepts(span) is True
        span.annotate(value={"total": "41.50"})
        assert llmeval.accepts(span, field="total") is False
    assert [e.name for e in span.scored].count("extraction_risk") == 1
    llmeval.shutdown(10)


def test_values_that_were_not_read_are_not_accepted(tmp_path):
    """Beyond the bounds on fields, and on the items of one field, nobody has looked."""
    path = tmp_path / "llmeval.state"
    acceptances.save(path, TOTAL)
    cut = scored(total=0.0)
    cut.metadata["fields_cut"] = 7
    assert decisions(path, cut)[0] == ["refused"]
    assert decisions(path, cut, "total")[0] == ["accepted"]
    many = scored(total=0.0)
    many.metadata["fields"][0]["values_cut"] = True
    assert decisions(path, many, "total")[0] == ["refused"]


def test_an_app_that_is_not_traced_accepts_nothing(path):
    """Where nothing is scored, everything has to be looked at."""
    acceptances.save(state_path(path), replace(TOTAL, version=VERSION))
    llmeval.configure(store=path, enabled=False)
    with llmeval.workflow("read_invoice") as span:
        span.annotate(value={"total": "44.82"}, retrieved_context=[RECEIPT])
        assert llmeval.accepts(span, field="total") is False
