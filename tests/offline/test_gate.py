"""A gate is never green because its judge failed: shares of rated rows, budgets, metrics' names."""

from __future__ import annotations

import json
import sys
from xml.etree import ElementTree

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.testing import FakeLLM
from llmeval_sdk.testing.judge_server import JudgeServer, stand_in


PICKY = "response/llm_judged/picky/rating/percentage"
CORRECT = "response/llm_judged/correctness/rating/percentage"


def many(count=30):
    """Make rows that every judge has its inputs for."""
    return [
        {
            "request_id": f"q{n}",
            "request": f"What is roof {n} made of?",
            "response": "slate",
            "expected_response": "slate",
        }
        for n in range(count)
    ]


def picky():
    return llmeval.LLMJudge("picky", "Is it so?\n\n{request}\n\n{response}")


def failing_on(bad):
    """A judge that gives no verdict on the rows of some numbers."""

    def answer(messages):
        number = int(messages[-1].content.split("roof ")[1].split()[0])
        return "no JSON at all" if bad(number) else {"rating": "yes", "rationale": "seen"}

    return FakeLLM(answer)


@pytest.fixture
def one_of_thirty():
    """A report whose judge erred on 29 of 30 rows."""
    return llmeval.evaluate(many(), evaluators=[picky()], llm=failing_on(lambda n: n > 0))


def test_a_judge_that_failed_on_most_rows_misses_every_bound(one_of_thirty):
    """The one row that it did rate says nothing of the others."""
    assert one_of_thirty.metrics[PICKY] == 1.0
    assert one_of_thirty.below({PICKY: 0.9}) == {PICKY: None}
    assert one_of_thirty.below({PICKY: 0.9}, min_rated=0.03) == {}
    with pytest.raises(ConfigurationError, match="min_rated"):
        one_of_thirty.below({PICKY: 0.9}, min_rated=90)


def test_a_few_failures_are_let_pass_and_are_told():
    """Of thirty rows, three may fail by default; the line says how many did."""
    report = llmeval.evaluate(many(), evaluators=[picky()], llm=failing_on(lambda n: n < 3))
    assert report.below({PICKY: 0.9}) == {}
    assert "at least 0.9 (27 rows rated, 3 failed)" in report.to_markdown(at_least={PICKY: 0.9})
    report = llmeval.evaluate(many(), evaluators=[picky()], llm=failing_on(lambda n: n < 4))
    assert report.below({PICKY: 0.9}) == {PICKY: None}


def test_rows_without_inputs_do_not_count_against_a_judge():
    """The share is of the rows that had what the judge needs."""
    rows = [{**row, "retrieved_context": ["slate"]} for row in many(10)] + many(30)[10:]
    judge = llmeval.LLMJudge(
        "picky", "Is it so?\n\n{request}\n\n{response}", needs=("response", "retrieved_context")
    )
    report = llmeval.evaluate(rows, evaluators=[judge], llm=failing_on(lambda n: False))
    counts = {"evaluated": 10, "not_applicable": 20, "no_answer": 0, "failed": 0}
    assert report.counts["picky"] == counts
    assert report.below({PICKY: 0.9}) == {}


def test_chunks_that_were_not_rated_count_against_a_chunk_judge():
    """One rated chunk of five is no rated row."""
    row = {
        "request": "What is the roof made of?",
        "retrieved_context": [{"content": f"roof {n} is slate"} for n in range(5)],
    }

    def answer(messages):
        first = "roof 0" in messages[-1].content
        return {"rating": "yes", "rationale": "seen"} if first else "no JSON at all"

    path = "retrieval/llm_judged/chunk_relevance/precision/average"
    report = llmeval.evaluate([row], evaluators=["chunk_relevance"], llm=FakeLLM(answer))
    assert report.metrics[path] == 1.0
    assert report.below({path: 0.5}) == {path: None}
    assert "in part, 20%" in report.to_markdown(at_least={path: 0.5})


def test_every_output_says_that_and_why_the_judge_failed(one_of_thirty):
    """Markdown, HTML and JUnit; rows on which it failed are errors there."""
    bounds = {PICKY: 0.9}
    said = "picky rated 1 of the 30 rows that had its inputs, 3% where at least 90% is asked for"
    assert f"**FAILED** {PICKY} does not count: {said}: malformed (29)" in (
        one_of_thirty.to_markdown(at_least=bounds)
    )
    page = one_of_thirty.to_html(at_least=bounds)
    assert said in page
    assert "picky failed on 29 rows (malformed 29)" in page
    root = ElementTree.fromstring(one_of_thirty.to_junit(bounds))
    assert root.find("testsuite[@name='metrics']").get("failures") == "1"
    rows = root.find("testsuite[@name='rows']")
    assert rows.get("errors") == "29"
    assert "malformed" in rows.find("testcase/error").get("message")


def test_junit_shows_errors_that_the_gate_lets_pass_as_skipped():
    """They are seen, and do not make a job red that the command calls green."""
    report = llmeval.evaluate(many(), evaluators=[picky()], llm=failing_on(lambda n: n < 3))
    rows = ElementTree.fromstring(report.to_junit({PICKY: 0.9})).find("testsuite[@name='rows']")
    assert (rows.get("errors"), rows.get("failures"), rows.get("skipped")) == ("0", "0", "3")
    assert "malformed" in rows.find("testcase/skipped").get("message")


def test_a_judge_that_fails_now_does_not_pass_the_comparison(one_of_thirty):
    """The few rows rated in both reports look as before."""
    pytest.importorskip("numpy")
    before = llmeval.evaluate(many(), evaluators=[picky()], llm=failing_on(lambda n: False))
    text = one_of_thirty.to_markdown(compared=one_of_thirty.compare(before))
    assert "**FAILED** picky rated 1 of the 30 rows" in text
    assert "no metric surely got worse" not in text


def test_a_report_of_a_file_decides_as_the_run_did(one_of_thirty, tmp_path):
    """Saved and loaded, its judge has failed as often."""
    one_of_thirty.save(tmp_path / "report.jsonl")
    loaded = llmeval.Report.load(tmp_path / "report.jsonl")
    assert loaded.below({PICKY: 0.9}) == {PICKY: None}
    assert loaded.outputs == one_of_thirty.outputs


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("picky/percentage", PICKY),
        ("picky", PICKY),
        ("document_recal", "retrieval/ground_truth/document_recall/average"),
        ("document_recall", "retrieval/ground_truth/document_recall/average"),
        ("response/llm_judged/picky/rating/average", PICKY),
        ("semantic_validation/passs/percentage", "semantic_validation/pass/percentage"),
        ("total_token_count", "agent/total_token_count/average"),
    ],
)
def test_a_metric_that_is_not_there_is_an_error_with_the_full_path(path, meant):
    """Also where it is the short name of one that is: no 0, and nothing is paid for."""
    names = [picky(), "document_recall", "semantic_validation", "total_token_count"]
    report = llmeval.evaluate(many(2), evaluators=names, llm=failing_on(lambda n: False))
    with pytest.raises(ConfigurationError, match=f"no metric '{path}': did you mean '{meant}'"):
        report.below({path: 0.0})


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, write):
    """Run ``llmeval evaluate`` over thirty rows; returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    data = write(many(), "golden.jsonl")

    def call(*args):
        code = main(["evaluate", str(data), "--no-cache", *map(str, args)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def broken_judge(monkeypatch):
    """A judge model over HTTP that answers about the first row, and else nothing of use."""

    def answer(request):
        is_first = "roof 0" in request["messages"][-1]["content"]
        return stand_in(request) if is_first else "no JSON at all"

    with JudgeServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


JUDGED = ("--evaluators", "correctness", "--model-judge", "gpt-4o-mini", "--concurrency", "1")


def test_the_command_fails_when_the_judge_failed(run, broken_judge, tmp_path):
    """Exit code 1 with a sentence, a JUnit file with errors; a lower share lets it pass."""
    xml = tmp_path / "report.xml"
    bounds = ("--fail-under", f"{CORRECT}=0.9", "--junit", xml)
    code, out, _ = run(*JUDGED, *bounds)
    assert code == 1
    assert "FAILED" in out
    assert "correctness rated 1 of the 30 rows" in out
    rows = ElementTree.parse(xml).getroot().find("testsuite[@name='rows']")
    assert rows.get("errors") == "29"
    assert run(*JUDGED, *bounds, "--min-rated", "0.01")[0] == 0
    with pytest.raises(SystemExit) as stop:
        run(*JUDGED, *bounds, "--min-rated", "90")
    assert stop.value.code == 2


def test_the_command_fails_when_the_money_ran_out(run, judge):
    """A run that --max-usd stopped is no passed run, with or without a bound."""
    limit = ("--max-usd", "0.003")
    for bounds in ((), ("--fail-under", f"{CORRECT}=0.9"), ("--min-rated", "0")):
        code, out, _ = run(*JUDGED, *limit, *bounds, "--json")
        told = json.loads(out)
        assert 0 < told["counts"]["correctness"]["evaluated"] < 30
        assert code == 1
        failed = [check["said"] for check in told["gate"] if not check["passed"]]
        assert any("the budget was used up" in said for said in failed)


@pytest.mark.parametrize("path", ["correctness/percentage", "correctnes", "document_recal"])
def test_the_command_refuses_a_metric_that_is_not_there(run, judge, path):
    """Exit code 2 and the full path, before the judge is asked."""
    names = ("--evaluators", "correctness,document_recall", "--model-judge", "gpt-4o-mini")
    code, _, err = run(*names, "--fail-under", f"{path}=.9")
    assert code == 2
    assert f"no metric '{path}': did you mean 'ret" in err or f"did you mean '{CORRECT}'" in err
    assert judge.requests == []


UNPRICED = ("--evaluators", "correctness", "--model-judge", "house-model", "--concurrency", "1")


def test_a_limit_in_money_needs_a_price(run, judge):
    """Without one it would be no limit; the message says how to give it."""
    code, _, err = run(*UNPRICED, "--max-usd", "1")
    assert code == 2
    assert "--price 'house-model=INPUT,OUTPUT'" in err
    assert judge.requests == []


def test_a_price_of_the_command_line_makes_the_limit_hold(run, judge):
    """A dear model stops soon, a cheap one not at all; what it cost is said."""
    dear = ("--price", "house-model=100,100", "--max-usd", "0.5", "--json")
    code, out, _ = run(*UNPRICED, *dear)
    told = json.loads(out)
    assert code == 1
    assert 0 < told["counts"]["correctness"]["evaluated"] < 30
    assert 0 < told["judge_usage"]["cost_usd"] <= 0.5
    code, out, _ = run(*UNPRICED, "--price", "house-model=0,0.001", "--max-usd", "0.5", "--json")
    assert (code, json.loads(out)["counts"]["correctness"]["evaluated"]) == (0, 30)


@pytest.mark.parametrize("price", ["house-model", "house-model=1", "m=a,b", "m=-1,1", "=1,2"])
def test_a_price_that_is_none_is_refused(run, price, capsys):
    """As every option that cannot be read."""
    with pytest.raises(SystemExit) as stop:
        run(*UNPRICED, "--price", price)
    assert stop.value.code == 2
    assert "expected MODEL=INPUT,OUTPUT" in capsys.readouterr().err


def test_prices_are_an_option_of_evaluate_too(rows):
    """They win over the environment and are checked."""
    options = {"evaluators": ["correctness"], "llm": FakeLLM({"rationale": "r", "rating": "yes"})}
    budget = llmeval.Budget(calls_per_minute=None, usd_per_day=5.0)
    each = llmeval.Budget(usd_per_day=1, per="tag:tenant")
    for limited in (budget, llmeval.Budget(usd_per_day=None, groups=[each])):
        with pytest.raises(ConfigurationError, match="price of the judge model 'fake'"):
            llmeval.evaluate(rows, **options, budget=limited)
    report = llmeval.evaluate(rows, **options, budget=budget, prices={"fake": (1, 1)})
    assert report.judge_usage.cost_usd > 0
    with pytest.raises(ConfigurationError, match="prices: "):
        llmeval.evaluate(rows, **options, prices={"fake": 3})
