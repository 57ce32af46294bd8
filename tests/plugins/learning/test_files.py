"""A file that cannot be believed is ignored with a reason, and shipped weights stay."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from llmeval_sdk import registry
from llmeval_sdk.heuristics.risk import _features
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.plugins.learning import fits
from llmeval_sdk.plugins.learning import outcomes as outcomes_module
from llmeval_sdk.plugins.learning.background import Learning
from llmeval_sdk.plugins.learning.fits import Fit, FitCheck, FitState, Source
from llmeval_sdk.plugins.learning.fitting import Weights
from llmeval_sdk.plugins.learning.outcomes import TABLES, Entry, Outcomes
from llmeval_sdk.process import shield
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import SharedText, StateFile, state_path, text_in


WIDTH = len(_features.RESPONSE_FEATURES)
RECORD = Record(
    request="When was it built?",
    response="It was built in 1921 by nine brave sailors.",
    retrieved_context=(Chunk("The lighthouse was built in 1874."),),
    span_name="answer",
)
SOURCE = Source("groundedness", "1", "gpt-4o")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "llmeval.db"


@pytest.fixture(autouse=True)
def _counted():
    """Count what is ignored for this test alone."""
    shield.caught.clear()
    yield
    shield.caught.clear()


def weights(bias=3.0):
    zeros, ones = (0.0,) * WIDTH, (1.0,) * WIDTH
    return Weights(bias, 1.0, zeros, ones, zeros)


def state(**changes):
    check = FitCheck(50, 0.7, 0.8, 0.01, 2e9)
    return FitState(in_use=Fit(weights(**changes), SOURCE, 120, 120, 2e9, check))


def learner(store):
    learning = Learning(store)
    heuristic = learning.taught(registry.evaluator("groundedness_risk"))
    return learning, heuristic


def put(store, text):
    with closing(SharedText(StateFile(state_path(store)), fits.TEXT)) as kept:
        kept.update(lambda _: (text, None))


def written(store, **changes):
    """Write the file of a host that has learned, and return what reads it."""
    learning, heuristic = learner(store)
    (score,) = learning.scores
    parts = {"groundedness_risk/en": (score.features, {"": state(**changes)})}
    put(store, fits.text_of(parts))
    return learning, heuristic


def studied(learning):
    while learning.study():
        pass


def test_weights_in_the_file_apply_and_are_named(store):
    """The evaluation says which weights it used, and what the shipped ones would have said."""
    shipped = registry.evaluator("groundedness_risk")(RECORD)
    learning, heuristic = written(store)
    assert heuristic(RECORD) == shipped
    studied(learning)
    evaluation = heuristic(RECORD)
    assert evaluation.value > shipped.value
    assert evaluation.metadata["shipped_risk"] == shipped.value
    assert evaluation.metadata["learned"] == weights().version
    assert evaluation.metadata["learned_from"] == 120
    own = registry.evaluator("groundedness_risk")
    assert (heuristic.name, heuristic.version) == (own.name, own.version)


def test_a_file_that_is_deleted_brings_the_shipped_weights_back(store):
    """Deleting it is how somebody begins anew."""
    learning, heuristic = written(store)
    studied(learning)
    state_path(store).unlink()
    learning._due = 0.0
    studied(learning)
    assert "learned" not in heuristic(RECORD).metadata


def changed(store, change):
    data = json.loads(text_in(state_path(store), fits.TEXT))
    change(data)
    put(store, json.dumps(data))


def in_weights(**fields):
    def change(data):
        groups = data["parts"]["groundedness_risk/en"]["groups"]
        groups[""]["in_use"]["weights"].update(fields)

    return change


def set_part(**fields):
    return lambda data: data["parts"]["groundedness_risk/en"].update(fields)


CHANGES = {
    "version": (lambda data: data.update(version=99), "other_version"),
    "parts": (lambda data: data.update(parts=[]), "unreadable"),
    "features": (set_part(features="0000"), "other_features"),
    "no groups": (set_part(groups=None), "unreadable"),
    "many groups": (set_part(groups={str(n): {} for n in range(99)}), "unreadable"),
    "text": (in_weights(bias="1"), "unreadable"),
    "nan": (in_weights(bias=float("nan")), "unreadable"),
    "infinite": (in_weights(slope=float("inf")), "unreadable"),
    "enormous": (in_weights(slope=10**400), "unreadable"),
    "bool": (in_weights(bias=True), "unreadable"),
    "one too few": (in_weights(weights=[0.0] * (WIDTH - 1)), "unreadable"),
    "huge weights": (in_weights(weights=[1e300] * WIDTH), "unreadable"),
    "string": (in_weights(weights="x" * WIDTH), "unreadable"),
    "no spread": (in_weights(spreads=[0.0] * WIDTH), "unreadable"),
    "turned round": (in_weights(stretch=-1.0), "unreadable"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_what_no_fit_can_have_written_is_ignored(store, change, reason):
    """The reason is counted, and the shipped weights stay."""
    learning, heuristic = written(store)
    changed(store, change)
    studied(learning)
    assert "learned" not in heuristic(RECORD).metadata
    assert shield.caught.snapshot() == {f"learned weights: {reason}": 1}
    learning._due = 0.0
    studied(learning)
    assert shield.caught.total == 1  # the same file is not read again


CONTENTS = {
    "deep": ("[" * 100_000, "unreadable"),
    "digits": ("9" * 100_000, "unreadable"),
    "null": ("null", "unreadable"),
    "huge": (" " * (fits.MAX_CHARACTERS + 1), "too_large"),
}


@pytest.mark.parametrize(("content", "reason"), CONTENTS.values(), ids=CONTENTS)
def test_any_other_content_is_ignored(store, content, reason):
    """Damaged, foreign or huge: nothing raises."""
    learning, heuristic = learner(store)
    put(store, content)
    studied(learning)
    assert "learned" not in heuristic(RECORD).metadata
    assert shield.caught.snapshot() == {f"learned weights: {reason}": 1}


def test_weights_that_nothing_has_checked_are_ignored(store):
    """A file that claims otherwise was not written by us."""
    learning, _ = written(store)

    def unchecked(data):
        data["parts"]["groundedness_risk/en"]["groups"][""]["in_use"]["check"] = None

    changed(store, unchecked)
    studied(learning)
    assert "learned weights: unreadable" in shield.caught.snapshot()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_its_place_does_not_hang_the_worker(store):
    """Opening it would wait for somebody who writes."""
    learning, _ = learner(store)
    os.mkfifo(state_path(store))
    studied(learning)
    assert shield.caught.snapshot()["learned weights: untrusted"] == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
def test_a_file_that_others_can_write_is_not_believed(store):
    """Nor is a link."""
    learning, _ = written(store)
    path = state_path(store)
    path.chmod(0o666)
    studied(learning)
    assert shield.caught.snapshot()["learned weights: untrusted"] == 1
    path.rename(store.with_suffix(".elsewhere"))
    path.symlink_to(store.with_suffix(".elsewhere"))
    learning._due = 0.0
    studied(learning)
    assert shield.caught.snapshot()["learned weights: untrusted"] == 2


def entry(place, *, source=SOURCE, part="groundedness_risk/en", bad=1.0, name="answer"):
    return Entry(part, "f", source, f"{place:016x}", name, bad, 0.5, 0.1, (1.0, 2.0))


def read(outcomes, name=None, width=2, source=SOURCE):
    slices = outcomes.of("groundedness_risk/en", "f", source, name, width=width)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def test_processes_share_outcomes_and_one_of_them_fits(store):
    """What one adds another reads, and the right to fit is held by one until it is given back."""
    path = state_path(store)
    one, other = [Outcomes(StateFile(path, TABLES)) for _ in range(2)]
    one.add([entry(1), entry(2, name="other")])
    other.add([entry(3, bad=0.0)])
    assert [row.bad for row in read(one)] == [1.0, 1.0, 0.0]
    assert [row.bad for row in read(other, "answer")] == [1.0, 0.0]
    assert one.lease("one", 100.0)
    assert not other.lease("other", 150.0)
    assert other.lease("other", 300.0)  # the first one died
    other.release("other")
    assert one.lease("one", 301.0)


def test_a_verdict_that_comes_twice_counts_once(store):
    """Records are delivered at least once; of two, the later one counts."""
    outcomes = Outcomes(StateFile(state_path(store), TABLES))
    outcomes.add([entry(1), entry(1, bad=0.0)])
    assert [row.bad for row in read(outcomes)] == [0.0]


def test_a_label_of_a_judged_record_has_the_features_of_its_verdict(store):
    """It stands for itself, as what people say, with the chance of both draws."""
    outcomes = Outcomes(StateFile(state_path(store), TABLES))
    outcomes.add([entry(1)])
    labels = [("groundedness", f"{1:016x}", 0.0, 0.5), ("groundedness", "unknown", 0.0, 0.5)]
    outcomes.label(labels)
    (row,) = read(outcomes, source=Source("groundedness", "", "people"))
    assert (row.bad, row.chance, row.features) == (0.0, 0.25, (1.0, 2.0))


def test_rows_that_hold_something_else_are_left_out(store):
    """A damaged vector, or a chance of 0, is no outcome."""
    path = state_path(store)
    outcomes = Outcomes(file := StateFile(path, TABLES))
    outcomes.add([entry(n) for n in range(6)])
    file.close()
    with sqlite3.connect(path) as database:
        for seq, column, value in (
            (1, "vector", b"abc"), (2, "vector", b""), (3, "chance", 0.0), (4, "bad", "text"),
            (5, "logit", float("inf")),
        ):  # fmt: skip
            database.execute(f"UPDATE outcomes SET {column} = ? WHERE seq = ?", (value, seq))
    assert [row.seq for row in read(outcomes)] == [6]


def test_somebody_elses_database_is_left_alone(store):
    """Learning goes on in memory, for this process alone."""
    path = state_path(store)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE precious (value)")
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(Unusable):
        Outcomes(StateFile(path, TABLES)).add([entry(1)])
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
def test_where_the_folder_cannot_be_used_learning_goes_on_in_memory(tmp_path):
    """Others can write it, or a file has its name."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").write_text("")
    for name in ("open", "file"):
        learning, _ = learner(tmp_path / name / "llmeval.db")
        for place in (1, 2):
            learning._collector.outcomes.append(entry(place))
            learning._due = 0.0
            studied(learning)
        assert [row.seq for row in read(learning._outcomes)] == [1, 2]
        assert not (tmp_path / name / "llmeval.state").exists()
    assert shield.caught.snapshot()["learned weights: outcomes"] == 2


def test_the_oldest_outcomes_make_room(store, monkeypatch):
    """The file stays bounded whatever the traffic is."""
    monkeypatch.setattr(outcomes_module, "MOST_KEPT", 10)
    outcomes = Outcomes(StateFile(state_path(store), TABLES))
    for start in range(0, 40, 5):
        outcomes.add([entry(place) for place in range(start, start + 5)])
    assert [row.seq for row in read(outcomes)] == list(range(31, 41))
