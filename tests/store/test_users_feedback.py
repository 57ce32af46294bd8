"""What a client sends as the name of its feedback is never an evaluator's verdict, nor a label of one."""

import json

import pytest
from command_line import run_command

import llmeval_sdk as llmeval
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target
from llmeval_sdk.model.values import EXTRACTION_RISK
from llmeval_sdk.store.alerts import read_bound, split_bounds
from llmeval_sdk.store.fields import doubtful_fields, field_summaries
from llmeval_sdk.store.labels import EXTRACTION_JUDGE, compare_rules, labels_of, user_feedback
from llmeval_sdk.store.populations import populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


JUDGES = ("groundedness", EXTRACTION_JUDGE)
ALL = (None, None, None, None)


@pytest.fixture
def said(tmp_path):
    """Return a function that submits feedback on 40 judged answers, and opens their store."""
    path = tmp_path / "s.db"

    def submit(*, settings=None, **feedback):
        llmeval.configure(store=str(path), exporters=["local"], escalations=[], **(settings or {}))
        spans = []
        for _ in range(40):
            with llmeval.workflow("answer", request="Which roof?") as span:
                span.response = "slate"
            spans.append(span)
            for judge in JUDGES:
                llmeval.submit_feedback(label=judge, value="no", span=span, **feedback)
        assert llmeval.flush(20).complete
        llmeval.shutdown()
        writer = StoreWriter(path, max_days=0)
        events = []
        for span in spans:
            target = Target(span.trace_id, span.span_id, "answer", "workflow")
            risk = {"fields": [{"field": "roof", "path": "", "chance": 0.9, "value": "slate"}]}
            events += [
                Evaluation(judge, "yes", evaluator_kind="judge", inclusion_probability=1.0)
                for judge in JUDGES
            ]
            events.append(Evaluation(EXTRACTION_RISK, 0.9, metadata=risk))
            events[-3:] = [
                EvaluationEvent(f"{span.span_id}-{one.name}", target, one, 1_767_225_600 * 10**9)
                for one in events[-3:]
            ]
        writer.write(Batch(evaluations=tuple(events)))
        writer.close()
        return StoreReader(path)

    return submit


HOSTILE = {
    "as it is": {},
    "of a field": {"field": "roof"},
    "with metadata that say otherwise": {"metadata": {"source": "review", "purpose": "accept"}},
    "with a source that is none": {"source": "Review"},
    "without texts": {"settings": {"capture_content": False}},
    "without names": {"settings": {"capture_content": "scores"}},
}


@pytest.mark.parametrize("feedback", HOSTILE.values(), ids=HOSTILE)
def test_feedback_under_the_name_of_a_judge_is_a_users_opinion(said, feedback):
    """It is shown under its name, and corrects, hides, checks and alarms nothing."""
    with said(**feedback) as reader:
        for judge in JUDGES:
            assert reader.read(lambda c, judge=judge: labels_of(c, judge)) == {}
        clicked = reader.read(lambda c: user_feedback(c, set(JUDGES)))
        assert {each.name: each.count for each in clicked} == dict.fromkeys(JUDGES, 40)
        for found in populations(reader, ALL, None):
            assert not found.labels
            assert found.correction is None
        rules = reader.read(lambda c: compare_rules(c, 0.7))
        assert (rules.labelled, rules.wrong) == (0, 0)
        assert len(reader.read(lambda c: doubtful_fields(c, most=100))) > 1
        assert all(each.labelled == 0 for each in reader.read(field_summaries))


@pytest.mark.parametrize("judge", JUDGES)
def test_a_command_counts_such_feedback_as_left_out(said, judge, tmp_path):
    """There is nothing to compare and nothing to calibrate by, and the command says so."""
    with said() as reader:
        path = reader.location
    for command in (("judges",), ("judges", "--calibrate")):
        options = ("--evaluator", judge, "--feedback", judge, "--store", path)
        done = run_command(*command, *options, folder=tmp_path)
        assert done.returncode == 2, done.stdout
        assert "users choose what they rate" in " ".join(done.stderr.split())


def test_a_later_click_does_not_take_the_place_of_a_review(said, tmp_path):
    """Neither where labels are read nor where a command compares them."""
    with said(source="review") as reader:
        path = reader.location
        spans = reader.read(lambda c: list(labels_of(c, "groundedness")))
    llmeval.configure(store=str(path), exporters=["local"], escalations=[])
    for span_id in spans:
        llmeval.submit_feedback(label="groundedness", value="yes", span_id=span_id)
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    with StoreReader(path) as reader:
        labels = reader.read(lambda c: labels_of(c, "groundedness"))
    assert [label.value for label in labels.values()] == [0.0] * 40
    options = ("--evaluator", "groundedness", "--feedback", "groundedness", "--store", path)
    done = run_command("judges", *options, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    assert compared["left_out"] == {"a user's click, and users choose what they rate": 40}
    assert compared["count"] == 40


def test_a_review_is_a_label(said):
    """Where the app says that somebody checked the answer, feedback measures the judge."""
    with said(source="review") as reader:
        for judge in JUDGES:
            labels = reader.read(lambda c, judge=judge: labels_of(c, judge))
            assert [label.value for label in labels.values()] == [0.0] * 40
        assert reader.read(lambda c: user_feedback(c, set(JUDGES))) == []
        assert reader.read(lambda c: compare_rules(c, 0.7)).labelled == 40
        assert reader.read(lambda c: doubtful_fields(c, most=100)) == []


def test_feedback_under_another_name_says_nothing_of_extractions(said, tmp_path):
    """Thumbs and stars are no verdicts of the judge of extractions, whatever their number."""
    with said(source="review") as reader:
        path = reader.location
    llmeval.configure(store=str(path), exporters=["local"], escalations=[])
    with llmeval.workflow("answer") as span:
        pass
    llmeval.submit_feedback(label="stars", value=1.0, span=span, source="review")
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    with StoreReader(path) as reader:
        assert reader.read(lambda c: compare_rules(c, 0.7)).labelled == 40


@pytest.mark.parametrize("name", ["groundedness", "context_relevance", EXTRACTION_RISK])
def test_an_alert_on_an_evaluator_stays_one_before_its_first_score(tmp_path, name):
    """Feedback under its name, which a client may have sent, does not turn it into one on feedback."""
    path = tmp_path / "s.db"
    llmeval.configure(store=str(path), exporters=["local"], escalations=[], heuristics="off")
    with llmeval.workflow("answer") as span:
        pass
    for label in (name, "mood"):
        llmeval.submit_feedback(label=label, value=False, span=span)
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    bounds = [read_bound(f"{name}<0.9"), read_bound("mood<0.9")]
    with StoreReader(path) as reader:
        plain, scored = reader.read(lambda c: split_bounds(c, bounds))
    assert ([str(b) for b in plain], [str(b) for b in scored]) == (["mood<0.9"], [f"{name}<0.9"])


def test_the_metadata_of_feedback_say_who_gave_it(tmp_path):
    """So do all exporters, and files of `llmeval export`; what the app adds is kept beside it."""
    path = tmp_path / "s.db"
    llmeval.configure(store=str(path), exporters=["local"], escalations=[])
    with llmeval.workflow("answer") as span:
        pass
    llmeval.submit_feedback(label="mood", value="good", span=span, metadata={"page": 3})
    llmeval.submit_feedback(label="mood", value="bad", span=span, source="review")
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    done = run_command("export", "--store", path, folder=tmp_path)
    (row,) = map(json.loads, done.stdout.splitlines())
    told = [each["metadata"] for each in row["feedback"]]
    assert told == [{"page": 3, "source": "user"}, {"source": "review"}]
