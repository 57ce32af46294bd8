"""Comparing two reports: pairs, intervals, direction, regressed rows."""

from __future__ import annotations

import random

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.offline.report import compare
from llmeval_sdk.testing import FakeLLM


pytest.importorskip("numpy")
PATH = "retrieval/ground_truth/document_recall/average"


def report(scores, *, ids=True):
    """Make a report whose rows have these document recalls, 0 or 1."""
    rows = [
        {
            "request": f"q{n}",
            "retrieved_context": [{"content": "c", "doc_uri": "right" if score else "wrong"}],
            "expected_retrieved_context": [{"doc_uri": "right"}],
            **({"request_id": f"r{n}"} if ids else {}),
        }
        for n, score in enumerate(scores)
    ]
    return llmeval.evaluate(rows, evaluators=["document_recall"])


def test_what_got_worse_is_told_with_its_interval():
    """Twenty of a hundred rows lost their document: the interval is around -0.2 and holds it."""
    before, after = report([1] * 100), report([0] * 20 + [1] * 80)
    compared = after.compare(before)
    (change,) = compared.changes
    assert (change.path, change.pairs, change.verdict) == (PATH, 100, "worse")
    assert change.difference == pytest.approx(-0.2)
    assert -0.3 < change.low < -0.2 < change.high < -0.1
    assert compared.regressed == 20
    assert [each.row.id for each in compared.regressions] == [f"r{n}" for n in range(20)]
    assert compared.worse == (change,)
    (better,) = before.compare(after).changes
    assert better.verdict == "better"
    assert before.compare(after).regressed == 0


def test_no_difference_is_no_change_and_few_rows_prove_nothing():
    """Equal reports are unchanged; below twenty pairs there is no interval."""
    same = report([0, 1] * 20)
    assert [each.verdict for each in same.compare(same).changes] == ["unchanged"]
    (few,) = report([0] * 5).compare(report([1] * 5)).changes
    assert (few.low, few.high, few.verdict) == (None, None, "unsure")


def test_rows_are_paired_by_id_or_request_whatever_their_order():
    """A shuffled data set with rows added and taken away still pairs."""
    scores = [n % 2 for n in range(40)]
    before, after = report(scores, ids=False), report(scores[:30] + [1] * 5, ids=False)
    compared = after.compare(before)
    assert (compared.pairs, compared.only_before, compared.only_after) == (35, 5, 0)
    rows = [row.record for row in before.rows]
    random.Random(1).shuffle(rows)
    shuffled = llmeval.evaluate(rows, evaluators=["document_recall"])
    assert [each.verdict for each in shuffled.compare(before).changes] == ["unchanged"]
    with pytest.raises(DataError, match="no row in common"):
        report([1]).compare(llmeval.evaluate([{"request": "x", "response": "y"}]))


def test_the_interval_holds_the_truth_as_often_as_it_says(monkeypatch):
    """Of 200 simulated pairs of runs, 95 % intervals hold the true difference in 90..99 %."""
    np = pytest.importorskip("numpy")
    monkeypatch.setattr(compare, "RESAMPLES", 400)
    draw, inside = np.random.default_rng(3), 0
    for _ in range(200):
        before, after = draw.random(120) < 0.8, draw.random(120) < 0.7
        low, high = compare.interval(np, draw, after.astype(float) - before)
        inside += low <= -0.1 <= high
    assert 180 <= inside <= 198


def test_many_metrics_blame_none_by_chance():
    """Two runs of the same app: any of 20 metrics is `worse` in half of them, surely so in few."""
    np = pytest.importorskip("numpy")
    draw, looked, surely = np.random.default_rng(5), 0, 0
    for _ in range(100):
        changes = []
        for values in draw.normal(size=(20, 80)):
            mean, error = float(values.mean()), 1.96 * float(values.std(ddof=1)) / 80**0.5
            p = compare._by_chance(values)
            bounds = (mean - error, mean + error)
            changes.append(compare.Change("m", 80, 0.0, mean, *bounds, chance=p))
        looked += any(each.verdict == "worse" for each in changes)
        surely += bool(compare.surely_worse(changes))
    assert looked > 25
    assert surely <= 5


def test_a_little_is_no_reason_to_stop_a_change():
    """With many rows every difference is sure; by less than 0.01 it is told and stops nothing."""
    sure = {"low": -0.003, "high": -0.001, "chance": 1e-9}
    assert compare.surely_worse([compare.Change("m", 10_000, 0.9, 0.898, **sure)]) == ()
    much = compare.Change("m", 10_000, 0.9, 0.88, low=-0.021, high=-0.019, chance=1e-9)
    assert compare.surely_worse([much]) == (much,)


def test_an_evaluator_that_rates_no_row_any_more_is_told():
    """A judge that is down is no reason to be content."""
    rows = [{"request": f"q{n}", "response": "r"} for n in range(3)]

    def judged(llm):
        return llmeval.evaluate(rows, evaluators=["relevance_to_query"], llm=llm)

    before = judged(FakeLLM({"rating": "yes", "rationale": ""}))
    assert judged(FakeLLM("nonsense")).compare(before).lost == ("relevance_to_query",)
    assert before.compare(before).lost == ()


def test_less_is_better_where_it_is():
    """More seconds and more risk are worse; more of a category that is neither is a change."""

    def timed(seconds):
        rows = [{"request": f"q{n}", "latency_seconds": seconds + n / 100} for n in range(30)]
        return llmeval.evaluate(rows, evaluators=["latency_seconds"])

    compared = timed(3.0).compare(timed(2.0))
    assert [each.verdict for each in compared.changes] == ["worse"]
    assert compared.worse == (), "another machine is no reason to stop a change"

    def toned(word):
        judge = llmeval.LLMJudge("tone", "Tone? {response}", output=["calm", "loud"])
        llm = FakeLLM({"rating": word, "rationale": ""})
        rows = [{"request": f"q{n}", "response": "r"} for n in range(30)]
        return llmeval.evaluate(rows, evaluators=[judge], llm=llm)

    changes = {each.path: each for each in toned("loud").compare(toned("calm")).changes}
    assert {path: each.verdict for path, each in changes.items()} == {
        "tone/calm/percentage": "changed",
        "tone/loud/percentage": "changed",
    }
    assert all(each.pairs == 30 for each in changes.values())


def test_a_row_that_raises_now_has_regressed():
    """The app's own failure is the worst regression."""
    rows = [{"request": f"q{n}"} for n in range(3)]

    def works(request):
        return "r"

    def breaks(request):
        if request == "q1":
            raise ValueError("broken")
        return "r"

    judge = {"evaluators": ["correctness_of"], "llm": FakeLLM()}
    judge["evaluators"] = [llmeval.LLMJudge("polite", "Polite? {response}")]
    before = llmeval.evaluate(rows, model=works, **judge)
    after = llmeval.evaluate(rows, model=breaks, **judge)
    (regression,) = after.compare(before).regressions
    assert (regression.row.record.request, regression.after) == ("q1", None)


def test_a_comparison_prints_as_a_few_lines():
    """Whatever its rows hold: they are looked at by name."""

    def rows(answer):
        return [{"request_id": f"q{n}", "request": "q", "response": answer * 2_000,
                 "value": answer, "retrieved_context": [{"content": "slate " * 2_000}]} for n in range(60)]  # fmt: skip

    names = ["semantic_validation", "groundedness_risk"]
    before, after = (llmeval.evaluate(rows(each), evaluators=names) for each in ("slate ", "gold "))
    compared = after.compare(before)
    assert compared.regressed == 60
    assert str(compared).startswith("60 rows in both, 0 only before, 0 only now; 60 rows got worse")
    assert "semantic_validation/pass/percentage: 1 to 0" in str(compared)
    assert max(len(str(compared)), len(repr(compared)), len(repr(compared.regressions[0]))) < 2_000
    assert repr(compared.regressions[0]).startswith("<Regression q0: ")


def answers(texts, **more):
    """Make a report of rows with these answers."""
    rows = [
        {"request_id": f"r{n}", "request": f"q{n}", "response": text, "expected_response": "slate"}
        for n, text in enumerate(texts)
    ]
    return llmeval.evaluate(rows, evaluators=["exact_match"], **more)


def test_rows_stand_side_by_side_the_worst_change_first():
    """What got worse comes first, then another answer of the same worth, then what got better."""
    before = answers(["slate", "tile", "brick", "slate"])
    after = answers(["slate", "slate", "copper", "straw"])
    compared = after.compare(before)
    assert compared.changed == 3
    assert [(pair.after.id, pair.change) for pair in compared.rows] == [
        ("r3", -1.0), ("r2", 0.0), ("r1", 1.0),
    ]  # fmt: skip
    assert next(
        (pair.before.record.response, pair.after.record.response) for pair in compared.rows
    ) == ("slate", "straw")
    assert not after.compare(after).rows


def test_a_row_that_raises_is_the_worst_change():
    """A row without an answer now comes before every score, and one that works again comes last."""

    def broken(request):
        if request == "q1":
            raise OSError("no route")
        return "slate"

    working, failing = (
        llmeval.evaluate(
            [{"request_id": f"r{n}", "request": f"q{n}", "expected_response": "slate"}
             for n in range(3)],
            model=model, evaluators=["exact_match"],
        )
        for model in (lambda request: "slate", broken)
    )  # fmt: skip
    (pair,) = failing.compare(working).rows
    assert (pair.after.id, pair.change) == ("r1", -2.0)
    (pair,) = working.compare(failing).rows
    assert pair.change == 2.0


def test_the_page_of_a_report_shows_both_answers():
    """HTML has the rows that changed with the answers of both reports, escaped."""
    before = answers(["slate", "slate"])
    after = answers(["<script>alert(1)</script>", "slate"])
    page = after.to_html(compared=after.compare(before))
    assert "1 row got worse; 1 of 1 that changed" in page
    part = page[page.index("Before and now") :]
    assert part.index("<h3>before</h3>") < part.index("slate") < part.index("<h3>now</h3>")
    assert "&lt;script&gt;alert(1)" in part
    assert "<script>" not in page


def test_a_saved_report_says_of_what_data_and_when(tmp_path):
    """Data set, judge and time are kept by a run's file and by `Report.save`."""
    import time

    begin = time.time_ns()
    data = tmp_path / "golden.jsonl"
    data.write_text('{"request": "q", "response": "slate", "expected_response": "slate"}\n')
    run = tmp_path / "run.jsonl"
    llmeval.evaluate(data, evaluators=["exact_match"], save=run)
    loaded = llmeval.Report.load(run)
    assert (loaded.run.data, loaded.run.judge) == ("golden", None)
    assert begin <= loaded.run.created_ns <= time.time_ns()
    loaded.save(tmp_path / "copy.jsonl")
    assert llmeval.Report.load(tmp_path / "copy.jsonl").run == loaded.run


def test_nothing_in_common_is_no_good_comparison():
    """Where no metric has a value in both, it says so: no row that got worse is then no news."""
    rows = [{"request_id": "a", "request": "q", "response": "x", "expected_response": "x"}]
    rated = llmeval.evaluate(rows, evaluators=["exact_match"], progress=False)
    unrated = llmeval.evaluate(rows, evaluators=["mrr"], progress=False)
    assert "nothing was compared" in str(rated.compare(unrated))
    assert "nothing was compared" not in str(rated.compare(rated))
