"""``llmeval judges --calibrate`` as a person calls it, and what is said of probabilities."""

import json
import math
import random

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.evaluation import calibrations


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder; returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLMEVAL_STORE", str(tmp_path / ".llmeval" / "llmeval.db"))

    def call(*args):
        code = main(list(map(str, args)))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def rows(count, seed=0, **columns):
    """What a judge with a bias of 0.8 and a slope of 1.8 says, and people's labels."""
    draw = random.Random(seed)
    for number in range(count):
        true = min(max(draw.betavariate(0.8, 0.4), 1e-4), 1 - 1e-4)
        said = 1 / (1 + math.exp(-1.8 * math.log(true / (1 - true)) - 0.8))
        label = "yes" if draw.random() < true else "no"
        yield {"request_id": f"r{number}", "label": label, "probability": said, **columns}


@pytest.fixture
def labels(tmp_path):
    def write(*many):
        path = tmp_path / "labels.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for one in many for row in one))
        return path

    return write


@pytest.fixture
def written(tmp_path):
    return lambda: calibrations.read(tmp_path / ".llmeval" / "llmeval.state")


def test_a_biased_judge_is_calibrated(run, labels, written):
    """The file names the model that answered, and what it does on labels it did not see."""
    code, out, _ = run(
        "judges", "--calibrate", labels(rows(200, model="luna-1")), "--evaluator", "groundedness"
    )
    fitted = written()["groundedness"]
    assert code == 0
    assert "200 labelled answers of luna-1" in out
    assert fitted.model == "luna-1"
    assert fitted.loss_after < fitted.loss_before
    assert fitted.calibration(0.95) < 0.9


def test_a_dry_run_writes_nothing(run, labels, written):
    """It says what it would do."""
    code, out, _ = run(
        "judges",
        "--calibrate",
        labels(rows(200)),
        "--evaluator",
        "groundedness",
        "--dry-run",
        "--json",
    )
    assert code == 0
    assert json.loads(out)["accepted"]
    assert written() == {}


def test_few_labels_change_nothing_and_say_why(run, labels, written):
    """Exit code 1: there is no calibration."""
    code, out, _ = run("judges", "--calibrate", labels(rows(30)), "--evaluator", "groundedness")
    assert code == 1
    assert "30 labels are too few" in out
    assert written() == {}


def test_answers_of_two_models_are_never_mixed(run, labels, written):
    """They do not err alike; one of them is chosen by name."""
    path = labels(rows(150, model="luna-1"), rows(80, 1, model="luna-2"))
    code, _, err = run("judges", "--calibrate", path, "--evaluator", "groundedness")
    assert code == 2
    assert "choose one with --model" in err
    assert written() == {}
    assert (
        run("judges", "--calibrate", path, "--evaluator", "groundedness", "--model", "luna-1")[0]
        == 0
    )
    assert written()["groundedness"].calibration.labels == 150


def test_a_calibration_is_taken_out_again(run, labels, written):
    """The others stay."""
    path = labels(rows(200))
    for name in ("groundedness", "safety"):
        run("judges", "--calibrate", path, "--evaluator", name)
    assert run("judges", "--calibrate", "--evaluator", "safety", "--remove")[0] == 0
    assert list(written()) == ["groundedness"]
    assert run("judges", "--calibrate", "--evaluator", "safety", "--remove")[0] == 2


def test_ratings_without_a_probability_cannot_be_calibrated(run, labels):
    """The error says what could."""
    path = labels([{"label": "yes", "rating": "no"}] * 60)
    code, _, err = run("judges", "--calibrate", path, "--evaluator", "groundedness")
    assert code == 2
    assert "LLMEVAL_DECISION_MODEL" in err


def record(count, **feedback):
    """Record answers with the probability of a judge, and what somebody said of each."""
    llmeval.configure(exporters=["local"], escalations=[])
    for row in rows(count):
        with llmeval.workflow("answer", request="q") as span:
            span.response = "a"
            target = llmeval.export_span()
        llmeval.submit_evaluation(
            span=target, label="groundedness", value=row["probability"], metric_type="score"
        )
        llmeval.submit_feedback(span=target, value=row["label"], **feedback)
    assert llmeval.shutdown(timeout=30).complete


def test_labels_in_the_store_serve_as_well(run, written):
    """The probability beside each is the one that the judge gave to that span."""
    record(120, label="people", source="review")
    code, out, err = run(
        "judges", "--calibrate", "--evaluator", "groundedness", "--feedback", "people"
    )
    assert (code, err) == (0, "")
    assert "120 labelled answers" in out
    assert written()["groundedness"].calibration.labels == 120


def test_users_clicks_calibrate_nothing(run, written):
    """They choose what they rate, so what they click says nothing of all answers."""
    record(60, label="groundedness", metadata={"source": "user"})
    code, _, err = run("judges", "--calibrate", "--evaluator", "groundedness")
    assert code == 2
    assert "60 a user's click" in err
    assert written() == {}


def test_labels_that_run_against_the_judge_are_refused(run, labels, written):
    """A map that falls would turn good into bad; the labels probably mean the opposite."""
    turned = [{**row, "label": "no" if row["label"] == "yes" else "yes"} for row in rows(200)]
    code, out, _ = run("judges", "--calibrate", labels(turned), "--evaluator", "groundedness")
    assert code == 1
    assert "run against the judge" in out
    assert written() == {}


def test_a_models_name_cannot_steer_the_terminal(run, labels):
    """It is what a server calls itself."""
    name = "\x1b]0;pwn\x07\x1b[31mluna"
    out = run(
        "judges", "--calibrate", labels(rows(200, model=name)), "--evaluator", "groundedness"
    )[1]
    assert "luna" in out
    assert "\x1b" not in out


def test_agreement_says_how_far_probabilities_can_be_believed(run, labels):
    """Brier score, calibration error beside its floor, and what each threshold catches."""
    path = labels(rows(200))
    code, out, _ = run("judges", path, "--catch", "0.8")
    assert code == 0
    assert "Brier score" in out
    assert "where a perfect judge would show" in out
    assert "Failures caught below a threshold" in out
    believed = json.loads(run("judges", path, "--catch", "0.8", "--json")[1])["probabilities"]
    assert believed["proposed"]["recall"] >= 0.8
    assert believed["reliability"]["calibration_error"] > believed["reliability"]["floor"]


def test_agreement_of_plain_ratings_says_nothing_of_probabilities(run, labels):
    """A word has none."""
    path = labels([{"label": "yes", "rating": "yes"}] * 30)
    assert "Brier" not in run("judges", path)[1]
    assert json.loads(run("judges", path, "--json")[1])["probabilities"] is None
    assert run("judges", path, "--catch", "0")[0] == 2
