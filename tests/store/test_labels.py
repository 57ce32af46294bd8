"""Labels of people correct what a judge says of all traffic; thumbs of users do not."""

import json
import re

import pytest

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target
from llmeval_sdk.store.labels import labels_from, labels_of, user_feedback
from llmeval_sdk.store.populations import SharedReadings, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.text.terminal import percent


ALL = (None, None, None, None)


@pytest.fixture
def path(tmp_path):
    """A hundred judged answers that the judge passes; people labelled 40 and failed 10."""
    path = tmp_path / "store" / "llmeval.db"
    events = []
    for place in range(100):
        target = Target("ab" * 16, f"{place:016x}", "answer", "workflow")
        said = Evaluation("groundedness", "yes", evaluator_kind="judge", inclusion_probability=0.5)
        events.append(EvaluationEvent(f"{place}-g", target, said, 1_000 + place))
        if place < 40:
            label = Evaluation(
                "groundedness", "no" if place % 4 == 0 else "yes", evaluator_kind="human"
            )
            events.append(EvaluationEvent(f"{place}-label", target, label, 2_000 + place))
        if place >= 90:
            click = Evaluation(
                "groundedness", "no", evaluator_kind="human", metadata={"source": "user"}
            )
            events.append(EvaluationEvent(f"{place}-click", target, click, 3_000 + place))
            thumb = Evaluation("helpful", "up", evaluator_kind="human")
            events.append(EvaluationEvent(f"{place}-thumb", target, thumb, 3_000 + place))
    writer = StoreWriter(path, max_days=0)
    writer.write(Batch(evaluations=tuple(events)))
    writer.close()
    return path


def test_labels_correct_the_mean_and_clicks_do_not(path):
    """A quarter of what it passes people fail; what users clicked is apart, with its share."""
    with StoreReader(path) as reader:
        (found,) = populations(reader, ALL, None)
        clicked = reader.read(lambda c: user_feedback(c, {"groundedness"}))
    assert found.estimate.mean == 1
    assert found.labels == 40
    assert found.correction.estimate.mean == pytest.approx(0.75)
    assert found.correction.passed_wrongly == pytest.approx(0.25)
    assert {each.name: each.mean for each in clicked} == {"groundedness": 0.0, "helpful": 1.0}


def test_clicks_about_sessions_count_each_time(path):
    """They name no trace, so none takes the place of another; nothing says that one is unknown."""
    writer = StoreWriter(path, max_days=0)
    outcomes = [Evaluation("thumbs", float(n % 2), evaluator_kind="human") for n in range(10)]
    events = [
        EvaluationEvent(f"s{n}", Target(), each, 5_000 + n) for n, each in enumerate(outcomes)
    ]
    writer.write(Batch(evaluations=tuple(events)))
    writer.close()
    with StoreReader(path) as reader:
        clicked = reader.read(lambda c: user_feedback(c, set()))
    (said,) = (each for each in clicked if each.name == "thumbs")
    assert (said.count, said.mean, said.unmatched) == (10, 0.5, 0)


def test_labels_of_another_name_or_of_a_file_are_used_when_asked_for(path, tmp_path):
    """Named feedback, or JSON lines with the chance that a record was chosen."""
    file = tmp_path / "labels.jsonl"
    rows = [{"span_id": f"{place:016x}", "label": place % 2} for place in range(30)]
    rows[0]["inclusion_probability"] = 0.5
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = labels_from(str(file))
    assert labels[f"{0:016x}"].chance == 0.5
    assert labels[f"{1:016x}"].chance is None
    with StoreReader(path) as reader:
        (by_file,) = populations(reader, ALL, SharedReadings(reader, labels=labels))
        (by_name,) = populations(reader, ALL, SharedReadings(reader, labels="helpful"))
    assert by_file.labels == 30
    assert by_file.correction is not None
    assert (by_name.labels, by_name.correction) == (10, None)


@pytest.mark.parametrize(
    "line", ["[1]", "no json", '{"span_id": "a"}', '{"span_id": "a", "label": 7}']
)
def test_a_line_that_is_no_label_is_named(tmp_path, line):
    """With its number and what was expected."""
    file = tmp_path / "labels.jsonl"
    file.write_text('{"span_id": "a", "label": "yes"}\n' + line)
    with pytest.raises(DataError, match=re.escape("line 2 of")):
        labels_from(str(file))


def test_metadata_of_a_stranger_is_no_trouble(path):
    """Broken or hostile metadata is a label with an unknown chance."""
    import sqlite3

    with sqlite3.connect(path) as store:
        store.execute("UPDATE feedback SET metadata = '[[[[' WHERE name = 'groundedness'")
    with StoreReader(path) as reader:
        assert len(reader.read(lambda c: labels_of(c, "groundedness"))) == 50


def test_two_versions_of_a_judge_are_said_to_be_mixed(path):
    """The mean over both is shown with a note, never silently."""
    import sqlite3

    with sqlite3.connect(path) as store:
        store.execute("UPDATE evaluations SET evaluator_version = '2' WHERE seq % 2")
    with StoreReader(path) as reader:
        (found,) = populations(reader, ALL, None)
    assert "2 versions of it answered (1, 2)" in found.note


@pytest.mark.parametrize(
    ("share", "text"), [(-0.0, "0%"), (-0.004, "0%"), (-0.02, "-2%"), (1, "100%")]
)
def test_no_share_is_minus_nothing(share, text):
    """A judge that is off by a rounding error is not off by -0 %."""
    assert percent(share) == text


def test_numbers_without_bounds_have_a_mean_that_json_can_hold(path):
    """Two numbers near the largest there is do not add up to infinity."""
    writer = StoreWriter(path, max_days=0)
    outcomes = [Evaluation("stars", 1e308, evaluator_kind="human") for _ in range(3)]
    events = [
        EvaluationEvent(f"s{n}", Target(), each, 5_000 + n) for n, each in enumerate(outcomes)
    ]
    writer.write(Batch(evaluations=tuple(events)))
    writer.close()
    with StoreReader(path) as reader:
        users = {said.name: said for said in reader.read(lambda c: user_feedback(c, set()))}
    assert users["stars"].mean == pytest.approx(1e308)
