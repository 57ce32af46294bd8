"""``llmeval judges`` on files and on the store, as a person calls it."""

from __future__ import annotations

import json
import re
import sys

import pytest

import llmeval_sdk as llmeval
from benchmarks.quality import judge_quality
from llmeval_sdk.cli import main
from llmeval_sdk.model import Evaluation, EvaluationEvent, Failure, Target
from llmeval_sdk.testing import FakeLLM, capture
from llmeval_sdk.testing.judge_server import JudgeServer


@pytest.fixture
def run(capsys):
    """Run the command; returns its exit code and what it printed."""

    def call(*args):
        code = main(["judges", *map(str, args)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def labelled(tmp_path):
    """Write rows as JSON lines."""

    def write(rows):
        path = tmp_path / "labels.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


ROWS = [
    {"request_id": f"r{n}", "label": n % 2, "score": 0.9 if n % 2 else 0.2, "response": f"text {n}"}
    for n in range(30)
]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (lambda n: "yes", "All 30 labels are 'yes', and the judge says otherwise of 15"),
        (lambda n: 1 - n % 2, "All 30 labels contradict the judge"),
    ],
)
def test_labels_that_nobody_can_have_meant_are_told(run, labelled, label, sentence):
    """All alike, or all against the judge: a sentence says so, in the text and as JSON."""
    rows = labelled([{**row, "label": label(n)} for n, row in enumerate(ROWS)])
    assert sentence in run(rows)[1]
    assert sentence in json.loads(run(rows, "--json")[1])["doubt"]
    assert "rely on them" not in run(labelled(ROWS))[1]


def test_scores_of_a_file_are_compared(run, labelled):
    """Figures, table and the disagreements with id and text."""
    rows = [
        *ROWS,
        {"request_id": "odd one", "label": "no", "score": 0.97, "response": "it is wrong"},
    ]
    code, out, _ = run(labelled(rows))
    assert code == 0
    assert "31 labelled records" in out
    assert "kappa" in out
    assert "Disagreements (1, worst first)" in out
    assert next(line for line in out.splitlines() if "odd one" in line).split()[2:5] == [
        "no",
        "yes",
        "(0.97)",
    ]
    assert "it is wrong" in out


def test_json_has_it_all(run, labelled):
    """For scripts: the same, without NaN."""
    code, out, _ = run(labelled(ROWS), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["estimates"]["kappa"]["value"] == 1.0
    assert told["estimates"]["auroc"]["value"] == 1.0


def test_a_risk_is_read_the_other_way_round(run, labelled):
    """A high risk is a no."""
    rows = [{**row, "score": 1 - row["score"]} for row in ROWS]
    assert json.loads(run(labelled(rows), "--json")[1])["estimates"]["kappa"]["value"] == -1.0
    told = json.loads(run(labelled(rows), "--json", "--risk")[1])
    assert told["estimates"]["kappa"]["value"] == 1.0
    assert told["estimates"]["auroc"]["value"] == 1.0


def test_one_class_only_says_so(run, labelled):
    """No NaN, a sentence."""
    code, out, _ = run(labelled([{"label": "yes", "rating": "yes"} for _ in range(25)]))
    assert code == 0
    assert "all labels are 'yes'" in out
    assert "nan" not in out.lower()


def test_a_heuristic_is_run_on_the_rows(run, labelled):
    """The input schema plus a label."""
    rows = [
        {
            "request_id": str(n),
            "label": bool(n % 2),
            "request": "q",
            "extractions": [{"value": "x"}, {"value": "x" if n % 2 else "y"}],
        }
        for n in range(20)
    ]
    code, out, _ = run(
        labelled(rows), "--evaluator", "multi_source_agreement", "--threshold", 0.9, "--json"
    )
    assert code == 0
    assert json.loads(out)["estimates"]["accuracy"]["value"] == 1.0


def test_ratings_that_stand_in_the_file_need_no_judge(run, labelled, monkeypatch):
    """Who names a judge for a file of ratings, without a model, is told what to leave out."""
    monkeypatch.delenv("LLMEVAL_JUDGE_MODEL", raising=False)
    path = labelled(ROWS)
    code, _, err = run(path, "--evaluator", "groundedness")
    assert code == 2
    assert f"to compare the ratings that stand in {path}, leave --evaluator out" in err
    assert run(path)[0] == 0


def test_a_judge_is_asked_over_http(run, labelled, monkeypatch):
    """Rows it cannot rate are left out and counted."""
    context = [{"content": "The mill at the river was built in 1786."}]
    row = {
        "request": "When?",
        "response": "The mill was built in 1786.",
        "retrieved_context": context,
    }
    rows = [
        {**row, "label": "yes"},
        {**row, "label": "no", "response": "Penguins fly."},
        {**row, "label": "yes"},
    ]
    del rows[2]["retrieved_context"]
    with JudgeServer() as server:
        monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", server.base_url)
        code, out, _ = run(labelled(rows), "--evaluator", "groundedness", "--model", "stand-in")
    assert code == 0
    assert "2 labelled records, groundedness against people" in out
    assert "1 left out: not applicable" in out
    assert "no interval from fewer than 20 rows" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"label": "yes"}', "neither rating, score nor probability"),
        ('{"score": 1}', "line 1 of"),
        ("{broken", "is not JSON"),
        ('{"label": [], "score": 1}', "is not a label"),
        ("", "nothing to compare"),
    ],
)
def test_a_bad_file_is_told_by_its_line(line, words, run, tmp_path):
    """Exit code 2 and what to do."""
    path = tmp_path / "labels.jsonl"
    path.write_text(line)
    code, _, err = run(path)
    assert code == 2
    assert words in err


def test_feedback_in_the_store_is_compared(run, tmp_path):
    """What people said with submit_feedback, against what the judge said of the same spans."""
    store = str(tmp_path / "s.db")
    verdicts = FakeLLM({"rationale": "all there", "rating": "yes"})
    with capture(
        llm=verdicts,
        evaluators=["groundedness"],
        escalations=[],
        exporters=["local"],
        store=store,
        heuristics="off",
    ) as seen:
        for number in range(24):
            with llmeval.workflow("answer", request=f"question {number}") as span:
                span.retrieved_context = [{"content": f"fact {number}"}]
                span.response = f"answer {number}"
            llmeval.submit_feedback(
                label="thumbs", value="down" if number == 7 else "up", span=span
            )
        with llmeval.workflow("answer", request="not judged") as span:
            pass
        llmeval.submit_feedback(label="thumbs", value="up", span=span)
        seen.drain()
    code, out, _ = run("--store", store, "--evaluator", "groundedness")
    assert code == 0
    assert "24 labelled records" in out
    assert "1 left out: not evaluated" in out
    assert "Disagreements (1, worst first)" in out
    assert "answer 7" in out
    assert "all there" in out


def test_several_kinds_of_feedback_have_to_be_told_apart(run, tmp_path):
    """The message names them."""
    store = str(tmp_path / "s.db")
    with capture(exporters=["local"], store=store, heuristics="off") as seen:
        with llmeval.workflow("answer", request="q") as span:
            llmeval.submit_feedback(label="thumbs", value="up", span=span)
            llmeval.submit_feedback(label="stars", value=4.0, span=span)
        seen.drain()
    code, _, err = run("--store", store, "--evaluator", "groundedness")
    assert (code, "--feedback stars | thumbs" in err) == (2, True)
    code, _, err = run("--store", store)
    assert (code, "--evaluator NAME" in err) == (2, True)


MILL = {
    "request": "When?",
    "response": "The mill was built in 1786.",
    "retrieved_context": [{"content": "The mill at the river was built in 1786."}],
}
MILLS = [
    {**MILL, "request_id": str(n), "label": "yes"}
    if n % 2
    else {**MILL, "request_id": str(n), "label": "no", "response": "Penguins fly."}
    for n in range(30)
]


@pytest.fixture
def stand_in(monkeypatch):
    """Serve the rule-based stand-in as the judge model."""
    with JudgeServer() as server:
        monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", server.base_url)
        yield server


def test_what_a_stand_in_scored_says_so_and_what_it_cost(run, labelled, stand_in, monkeypatch):
    """Rules on words are no model: nobody takes their figures for a judge's."""
    monkeypatch.setenv("LLMEVAL_PRICES", "stand-in=1000,1000")
    args = (labelled(MILLS), "--evaluator", "groundedness", "--model", "stand-in")
    code, out, _ = run(*args)
    assert code == 0
    assert "NO MODEL: rules on shared words (the stand-in) scored this" in out
    assert re.search(r"cost: [\d,]+ tokens, \$\d+\.\d{4}, \$\d+\.\d{6} a record", out)
    told = json.loads(run(*args, "--json")[1])
    assert told["stand_in"] is True
    assert (told["cached"], told["usage"]) == (30, None)


def test_a_price_that_nobody_knows_is_said(run, labelled, stand_in):
    """The tokens are known all the same, and how to set the price."""
    out = run(labelled(MILLS), "--evaluator", "groundedness", "--model", "stand-in")[1]
    assert "tokens, price unknown (LLMEVAL_PRICES sets one)" in out


def test_several_evaluators_are_compared_one_after_the_other(run, labelled, stand_in):
    """One command, one set of labels, a comparison for each."""
    names = "groundedness,relevance_to_query"
    args = (labelled(MILLS), "--evaluator", names, "--model", "stand-in")
    _, out, _ = run(*args)
    assert "30 labelled records, groundedness against people" in out
    assert "30 labelled records, relevance_to_query against people" in out
    assert list(json.loads(run(*args, "--json")[1])) == names.split(",")


def test_a_sample_bounds_what_is_paid_for(run, labelled, stand_in):
    """So many rows are drawn, the same ones each time."""
    args = (labelled(MILLS), "--evaluator", "groundedness", "--model", "stand-in", "--sample", 5)
    first = json.loads(run(*args, "--json")[1])
    assert first["count"] == 5
    assert stand_in.calls == 5
    assert json.loads(run(*args, "--json")[1])["confusion"] == first["confusion"]
    code, _, err = run(*args[:-1], 0)
    assert code != 0
    assert "--sample" in err


def test_make_judge_quality_runs_end_to_end(tmp_path, monkeypatch, capsys):
    """The development sets become labelled rows, and the command's own figures are printed."""
    receipts = [
        {
            "key": {"total": "44.82", "date": "25/12/2018"},
            "text": f"No {n}\nDATE 25/12/2018\nSUBTOTAL 41.50\nTOTAL 44.82\nCASH 50.00",
        }
        | {"id": f"{n:03}"}
        for n in range(10)
    ]
    (tmp_path / "sroie.json").write_text(json.dumps(receipts))
    monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", "")  # which the command sets
    command = ["judge_quality", "--data", str(tmp_path), "--stand-in"]
    monkeypatch.setattr(sys, "argv", [*command, "--judge", "extraction_correctness"])
    code = judge_quality.main()
    told = capsys.readouterr()
    assert code == 0, told.err
    assert "=== extraction_correctness (receipts)" in told.out
    assert "40 labelled records, extraction_correctness against people" in told.out
    assert "NO MODEL" in told.out
    assert "recall of no" in told.out


def right(count, wrong=0):
    """Rows of which a judge has all right but some."""
    return [
        {"request_id": f"r{n}", "label": "yes" if n % 2 else "no",
         "rating": "yes" if bool(n % 2) != (n < wrong) else "no"}
        for n in range(count)
    ]  # fmt: skip


def test_a_limit_is_met_by_the_lower_end_of_the_interval(run, labelled):
    """Ninety-five of a hundred prove 0.88 and not 0.9; the sentence says where the interval begins."""
    rows = labelled(right(100, wrong=5))
    assert run(rows, "--fail-under", "accuracy=0.88", "--fail-under", "kappa=0.7")[0] == 0
    code, out, _ = run(rows, "--fail-under", "accuracy=0.9")
    assert code == 1
    assert (
        "FAILED: the evaluator: accuracy: its interval begins at 0.888, which is below 0.9" in out
    )


def test_few_labels_meet_no_limit(run, labelled):
    """Twenty that all agree prove 0.83; nineteen prove nothing."""
    assert run(labelled(right(20)), "--fail-under", "accuracy=0.9")[0] == 1
    assert run(labelled(right(20)), "--fail-under", "accuracy=0.8")[0] == 0
    code, out, _ = run(labelled(right(19)), "--fail-under", "accuracy=0.5")
    assert code == 1
    assert "fewer than 20 rows, so that nothing shows that it is 0.500" in " ".join(out.split())


def test_a_gate_fails_where_the_judge_failed_on_a_labelled_record(run, store, tmp_path):
    """Agreement on the others says nothing of it; without a limit it is told and no failure."""
    for number in range(1, 61):
        span = store.span(f"{number:016x}", trace_id=f"{number:032x}")
        value, error = "yes" if number % 2 else "no", None
        label = Evaluation("thumbs", value, evaluator_kind="human", metadata={"source": "review"})
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        store.add(EvaluationEvent(f"{number}-label", target, label, span.end_ns))
        if number > 57:
            value, error = None, Failure("unavailable", "no connection")
        store.evaluation(span, "groundedness", value, error=error, evaluator_kind="judge")
    on = ("--store", store.path, "--evaluator", "groundedness")
    code, out, _ = run(*on)
    assert code == 0
    assert "3 left out: unavailable" in " ".join(out.split())
    saved = tmp_path / "agreed.json"
    saved.write_text(run(*on, "--json")[1])
    for gate in (("--fail-under", "accuracy=0.5"), ("--compare", saved)):
        code, out, _ = run(*on, *gate)
        assert code == 1
        assert "the judge failed on 3 labelled records" in " ".join(out.split())


def test_a_judge_that_says_yes_to_all_fails_the_limit_of_kappa(run, labelled):
    """Where nearly all is good, its accuracy is high."""
    rows = labelled([{"label": "no" if n < 10 else "yes", "rating": "yes"} for n in range(300)])
    assert run(rows, "--fail-under", "accuracy=0.9")[0] == 0
    assert run(rows, "--fail-under", "kappa=0.1")[0] == 1


def test_agreement_that_fell_since_a_saved_report_fails(run, labelled, tmp_path):
    """The same labels and ratings pass, and better ones; one more mistake does not."""
    saved = tmp_path / "agreed.json"
    saved.write_text(run(labelled(right(200, wrong=10)), "--json")[1])
    for wrong, expected in ((10, 0), (5, 0), (11, 1), (40, 1)):
        code, out, _ = run(labelled(right(200, wrong=wrong)), "--compare", saved, "--json")
        assert code == expected, wrong
        assert bool(json.loads(out)["missed"]) is bool(expected)
    out = " ".join(run(labelled(right(200, wrong=40)), "--compare", saved)[1].split())
    assert "accuracy fell: its interval begins at 0.739, and began at 0.910 in the saved" in out
    assert "kappa fell" in out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"estimates": {}}',
        "[" * 100_000,
        '{"estimates": {"accuracy": 1}}',
        '{"evaluator": "safety", "estimates": {}}',
        '{"estimates": {"accuracy": {"low": NaN}, "kappa": {"low": null}}}',
    ],
)
def test_what_is_no_saved_report_is_said(run, labelled, tmp_path, text):
    """Nothing passes for want of something to compare with."""
    saved = tmp_path / "agreed.json"
    saved.write_text(text)
    code, _, err = run(labelled(right(40)), "--compare", saved)
    assert code == 2
    assert "is no report of `llmeval judges --json`" in err
    assert run(labelled(right(40)), "--compare", tmp_path / "nowhere")[0] == 2


def test_limits_that_nobody_can_mean_are_refused(run, labelled):
    """A figure that is none, a number that is none, and options that go with others."""
    rows = labelled(right(40))
    for limit in ("accuracy", "accuracy=x", "mood=0.5", "kappa=nan", "kappa=7"):
        with pytest.raises(SystemExit) as ended:
            run(rows, "--fail-under", limit)
        assert ended.value.code == 2
    for options in (
        ("--remove",), ("--dry-run",), ("--calibrate",),
        ("--calibrate", "--evaluator", "x", "--fail-under", "kappa=0.5"),
    ):  # fmt: skip
        assert run(rows, *options)[0] == 2
