"""`llmeval.accepts`: what needs no look, by a threshold that was saved, and never by mistake."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.evaluation import acceptances
from llmeval_sdk.evaluation.acceptances import AUDIT_PROBABILITY, Acceptances, SavedThreshold
from llmeval_sdk.store import state
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import SharedText, StateFile, state_path


TOTAL = SavedThreshold(
    field="total", span_name=None, threshold=0.1, error=0.02, promise="sure", share=0.8,
    values=1_000, labels=300, version="2", saved_ns=1,
)  # fmt: skip
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

    def answer(total, **asked):
        with llmeval.workflow("read_invoice") as span:
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


def decisions(path, evaluation, field=None, span_name="read_invoice", count=1):
    problems = []
    thresholds = Acceptances(path, problems.append)
    made = [
        thresholds.decide(evaluation, span_name, f"{number:016x}", field)
        for number in range(1_000, 1_000 + count)
    ]
    return made, problems


def test_a_value_below_its_threshold_needs_no_look_and_another_one_does(app, path):
    """The decision is made at once, and stored beside the score that it rests on."""
    acceptances.save(state_path(path), TOTAL)
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


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", "nonsense", '{"format": 2, "thresholds": []}',
        '{"format": 1, "thresholds": [{"field": "total"}]}',
        json.dumps({"format": 1, "thresholds": [
            {name: getattr(TOTAL, name) for name in TOTAL.__slots__} | {"threshold": 7}
        ]}),
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
    assert thresholds.decide(scored(total=0.0), "read", "1", "total") == "refused"
    acceptances.save(path, TOTAL)
    assert thresholds.decide(scored(total=0.0), "read", "1", "total") == "accepted"


@pytest.mark.parametrize("span", [None, "span", object()])
def test_it_never_raises(app, span):
    """What is no span is refused, and counted."""
    assert llmeval.accepts(span) is False
    assert any("accepts" in problem for problem in llmeval.stats().problems)


def test_a_score_of_a_former_value_accepts_no_other_value(path, without_audits):
    """Whoever asks the model again gets a decision on the new answer, and one score is kept."""
    acceptances.save(state_path(path), TOTAL)
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
    acceptances.save(state_path(path), TOTAL)
    llmeval.configure(store=path, enabled=False)
    with llmeval.workflow("read_invoice") as span:
        span.annotate(value={"total": "44.82"}, retrieved_context=[RECEIPT])
        assert llmeval.accepts(span, field="total") is False
