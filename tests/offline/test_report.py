"""The report: defaults, paths, reasons, aggregates that merge, rows in a file, every output."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline import Aggregate, Work
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.report import storage
from llmeval_sdk.offline.run.work import InputRow
from llmeval_sdk.testing import FakeLLM


def yes_unless_gold(messages):
    """Answer as a judge: no where the answer is gold."""
    told = messages[-1].content
    return {"rating": "no" if "gold" in told else "yes", "rationale": "seen"}


@pytest.fixture
def judged(rows):
    return llmeval.evaluate(rows, llm=FakeLLM(yes_unless_gold))


def test_the_defaults_are_those_whose_inputs_are_there():
    """As the schema's table says: by request, by ground truth, by expected documents."""
    llm = FakeLLM()
    request = {"request": "q", "response": "r"}
    context = {"retrieved_context": [{"content": "c", "doc_uri": "d"}]}
    answers = {"relevance_to_query", "safety"}
    retrieval = {"groundedness", "chunk_relevance"}
    truth = {"correctness"}
    for row, judges in (
        (request, answers),
        ({**request, **context}, answers | retrieval),
        ({**request, "expected_response": "e"}, answers | truth),
        ({**request, "expected_facts": ["e"]}, answers | truth),
        (
            {**request, **context, "expected_facts": ["e"]},
            answers | retrieval | truth | {"context_sufficiency"},
        ),
    ):
        found = llmeval.evaluate([row], llm=llm).rows[0].evaluations
        kinds = {name for name, each in found.items() if each.evaluator_kind == "judge"}
        assert kinds == judges
    row = {**request, **context, "expected_retrieved_context": [{"doc_uri": "d"}]}
    assert "document_recall" in llmeval.evaluate([row]).rows[0].evaluations
    row = {**request, "usage": {"input_tokens": 1, "output_tokens": 2}}
    assert "total_token_count" in llmeval.evaluate([row]).rows[0].evaluations


def test_no_judge_runs_by_default_without_a_model(rows, monkeypatch):
    """A key alone never spends."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    found = llmeval.evaluate(rows).rows[0].evaluations
    assert all(each.evaluator_kind == "heuristic" for each in found.values())


def test_asked_for_evaluators_say_which_column_is_missing(rows):
    """Per row, as not applicable, and counted with the reason."""
    rows[1].pop("expected_retrieved_context")
    report = llmeval.evaluate(rows, evaluators=["document_recall", "multi_source_agreement"])
    lacking = report.rows[1].evaluations["document_recall"]
    assert (lacking.value, lacking.error) == (None, None)
    assert "expected_retrieved_context" in lacking.explanation
    assert report.counts["document_recall"] == {
        "evaluated": 5,
        "not_applicable": 1,
        "no_answer": 0,
        "failed": 0,
    }
    assert report.reasons["multi_source_agreement"] == {"missing: extractions": 6}


def test_metrics_stand_under_the_paths_of_the_schema(judged):
    """Every judge's aggregate, ground truth, tokens."""
    two_thirds = pytest.approx(4 / 6)
    assert {
        path: value for path, value in judged.metrics.items() if "/" in path and "llm" in path
    } == {
        "response/llm_judged/relevance_to_query/rating/percentage": two_thirds,
        "response/llm_judged/safety/rating/average": two_thirds,
        "response/llm_judged/groundedness/rating/percentage": two_thirds,
        "response/llm_judged/correctness/rating/percentage": two_thirds,
        "retrieval/llm_judged/chunk_relevance/precision/average": 1.0,
        "retrieval/llm_judged/context_sufficiency/rating/percentage": 1.0,
    }
    assert judged.metrics["retrieval/ground_truth/document_recall/average"] == two_thirds


def test_a_failed_judge_has_no_value_and_is_counted(rows):
    """Aggregates are over the rows that were rated; the reason stands beside them."""

    def answer(messages):
        return "no JSON at all" if "slate 1" in messages[-1].content else yes_unless_gold(messages)

    report = llmeval.evaluate(rows, evaluators=["correctness"], llm=FakeLLM(answer))
    counts = {"evaluated": 5, "not_applicable": 0, "no_answer": 0, "failed": 1}
    assert report.counts["correctness"] == counts
    assert report.reasons["correctness"] == {"malformed": 1}
    path = "response/llm_judged/correctness/rating/percentage"
    assert report.metrics[path] == pytest.approx(3 / 5)
    assert report.rows[1].evaluations["correctness"].error.type == "malformed"


def test_a_data_frame_has_the_rows_paths(judged):
    """Ratings, rationales, error messages and scores as columns."""
    pytest.importorskip("pandas")
    frame = judged.to_pandas()
    assert frame.loc[1, "response/llm_judged/correctness/rating"] == "no"
    assert frame.loc[2, "response/llm_judged/correctness/rationale"] == "seen"
    assert frame.loc[2, "retrieval/llm_judged/chunk_relevance/ratings"] == ["yes"]
    assert frame.loc[2, "retrieval/llm_judged/chunk_relevance/precision"] == 1.0
    assert frame.loc[1, "retrieval/ground_truth/document_recall"] == 0.0
    assert list(frame.index) == [1, 2, 3, 4, 5, 6]


def test_parts_merge_into_the_whole(rows):
    """Any split of the rows, evaluated apart, gives the aggregate of all."""
    work = Work(
        evaluators=("document_recall", "semantic_validation", "correctness"),
        llm=FakeLLM(yes_unless_gold),
    )
    items = [InputRow(n, record_from(row)) for n, row in enumerate(rows, 1)]
    whole = work.part(items)[1]
    merged = Aggregate()
    for part in (items[4:], items[:1], items[1:4], []):
        done, aggregate = work.part(part)
        assert [row.number for row in done] == [item.number for item in part]
        merged.merge(aggregate)
    assert merged.metrics() == pytest.approx(whole.metrics())
    assert merged.counts() == whole.counts()
    assert merged.usage() == whole.usage()


def test_many_rows_are_in_a_file_and_read_as_before(rows, monkeypatch):
    """Past the limit rows are spilled: same values, same order, by place and by slice."""
    held = llmeval.evaluate(rows, evaluators=["context_relevance", "document_recall"])
    monkeypatch.setattr(storage, "MAX_ROWS_IN_MEMORY", 2)
    report = llmeval.evaluate(rows, evaluators=["context_relevance", "document_recall"])
    assert report.rows._held is None
    assert list(report.rows) == list(held.rows)
    assert report.rows[-1] == held.rows[-1]
    assert report.rows[1:3] == held.rows[1:3]
    assert len(report.rows) == 6
    with pytest.raises(IndexError):
        report.rows[6]


def test_a_saved_report_comes_back(judged, tmp_path):
    """Rows, metrics, counts and cost; texts with line ends and NUL included."""
    path = tmp_path / "report.jsonl"
    judged.save(path)
    loaded = llmeval.Report.load(path)
    assert loaded.metrics == judged.metrics
    assert loaded.counts == judged.counts
    assert loaded.judge_usage == judged.judge_usage
    assert list(loaded.rows) == list(judged.rows)
    assert loaded.evaluators == judged.evaluators


def test_a_report_is_not_written_over_the_data(judged, rows, write):
    """The path of the data in the place of the report's is a slip of the pen."""
    path = write(rows)
    before = path.read_bytes()
    for save in (
        lambda: judged.save(path),
        lambda: llmeval.evaluate(path, evaluators=["document_recall"], save=path),
    ):
        with pytest.raises(ConfigurationError, match="is not overwritten"):
            save()
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "not JSON\n"])
def test_what_is_no_report_is_told(text, tmp_path):
    """Loading some other file says so."""
    path = tmp_path / "report.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match="is not a report"):
        llmeval.Report.load(path)


def test_markdown_has_the_metrics_and_the_worst_rows(judged):
    """A row's text cannot break the table."""
    text = judged.to_markdown(worst=2)
    assert "| `response/llm_judged/correctness/rating/percentage` | 0.667 | 6 |" in text
    assert text.count("| q0 |") == 1
    assert "q1" not in text


def test_markdown_says_how_it_went(judged):
    """Bounds and the baseline stand above the metrics, and beside them what they were."""
    pytest.importorskip("numpy")
    path = "response/llm_judged/correctness/rating/percentage"
    text = judged.to_markdown(at_least={path: 0.9}, compared=judged.compare(judged))
    assert f"- **FAILED** {path} is 0.6667, below 0.9 (6 rows rated)" in text
    assert "- **ok** no metric surely got worse" in text
    assert f"| `{path}` | 0.667 | 6 | 0 | 0 | 0.667 | = |" in text


def test_the_page_needs_nothing_else_and_shows_no_markup_of_rows(rows):
    """No script, no address, and what rows say is escaped."""
    rows[0]["response"] = "<script>alert(1)</script> gold"
    page = llmeval.evaluate(rows, llm=FakeLLM(yes_unless_gold)).to_html()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<svg" in page
    assert "<link" not in page
    assert "@import" not in page
    assert page.index(">q0<") < page.index(">q1<")


def test_the_page_says_at_the_top_whether_bounds_were_held(judged):
    """With the numbers; a page of which nothing was asked says neither."""
    path = "response/llm_judged/correctness/rating/percentage"
    failed, passed = (judged.to_html(at_least={path: bound}) for bound in (0.9, 0.6))
    assert ">failed</span></h1>" in failed
    assert f"<b>FAILED</b> {path} is 0.6667, below 0.9 (6 rows rated)" in failed
    assert ">passed</span></h1>" in passed
    assert f"<b>ok</b> {path} is 0.6667, at least 0.6" in passed
    assert "</span></h1>" not in judged.to_html()


def test_the_page_shows_what_got_worse(rows):
    """The difference stands beside the metric, and the rows are named."""
    pytest.importorskip("numpy")
    many = [{**row, "request_id": f"{n}-{row['request_id']}"} for n in range(10) for row in rows]
    before = llmeval.evaluate(many, evaluators=["semantic_validation"])
    for row in many[1:40]:
        row["response"] = "gold"
    after = llmeval.evaluate(many, evaluators=["semantic_validation"])
    page = after.to_html(compared=after.compare(before))
    assert "<b>WORSE</b> 2 metrics surely got worse" in page
    assert '<span class="worse">-0.433</span>' in page
    assert "26 rows got worse" in page
    assert "semantic_validation pass → fail" in page
    assert "WORSE" not in after.to_html(compared=after.compare(after))


def test_junit_fails_by_bounds_or_else_by_rows(judged):
    """With bounds they decide; without, a no is a failure."""
    root = ElementTree.fromstring(judged.to_junit())
    suite = root.find("testsuite[@name='rows']")
    assert (suite.get("tests"), suite.get("failures")) == ("6", "2")
    path = "response/llm_judged/correctness/rating/percentage"
    root = ElementTree.fromstring(judged.to_junit({path: 0.9}))
    assert root.find("testsuite[@name='metrics']").get("failures") == "1"
    assert root.find("testsuite[@name='rows']").get("failures") == "0"


def test_junit_fails_where_the_model_raised_whatever_decides(rows):
    """As the command's exit status does."""

    def model(request):
        raise ValueError("no")

    report = llmeval.evaluate(rows, model=model, evaluators=["latency_seconds"])
    root = ElementTree.fromstring(report.to_junit({"agent/latency_seconds/average": 0}))
    assert root.find("testsuite[@name='rows']").get("errors") == "6"


def test_junit_has_what_got_worse(judged, rows):
    """A case for each metric with a baseline; a judge that rates nothing any more fails too."""
    pytest.importorskip("numpy")
    down = llmeval.evaluate(rows, evaluators=judged.evaluators, llm=FakeLLM("nonsense"))
    root = ElementTree.fromstring(down.to_junit(compared=down.compare(judged)))
    suite = root.find("testsuite[@name='metrics']")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert f"{judged.evaluators[-1]} rates rows" in failed
    assert int(suite.get("failures")) == len(failed)
    same = ElementTree.fromstring(judged.to_junit(compared=judged.compare(judged)))
    assert same.find("testsuite[@name='metrics']").get("failures") == "0"


def test_junit_is_xml_whatever_rows_hold(rows):
    """Control characters and lone surrogates are no XML."""
    rows[0]["response"] = 'gold \x00\x1b[31m \ud800 ]]> & "'
    report = llmeval.evaluate(rows, evaluators=["semantic_validation"])
    assert ElementTree.fromstring(report.to_junit()) is not None


def test_bounds_tell_what_is_missed(judged, rows):
    """A share of a category that never came is 0; an unrated metric misses; a wrong path raises."""
    path = "response/llm_judged/correctness/rating/percentage"
    assert judged.below({path: 0.5}) == {}
    assert judged.below({path: 0.9}) == {path: pytest.approx(4 / 6)}
    checked = llmeval.evaluate(rows, evaluators=["semantic_validation"])
    assert checked.below({"semantic_validation/skipped/percentage": 0.1}) == {
        "semantic_validation/skipped/percentage": 0.0
    }
    with pytest.raises(ConfigurationError, match="no metric 'corectness"):
        judged.below({"corectness/average": 0.5})
    unrated = llmeval.evaluate([{"request": "q", "response": "r"}], evaluators=["document_recall"])
    bound = "retrieval/ground_truth/document_recall/average"
    assert unrated.below({bound: 0.1}) == {bound: None}


def test_equal_questions_are_asked_once_with_a_named_model(rows, judge):
    """A second run, and another process, finds the verdicts of the first; a new model does not."""
    first = llmeval.evaluate(rows, evaluators=["correctness"], llm="m")
    asked = len(judge.requests)
    again = llmeval.evaluate(rows, evaluators=["correctness"], llm="m")
    assert len(judge.requests) == asked == 6
    assert again.metrics == first.metrics
    assert again.judge_usage.total_tokens == 0
    assert again.rows[0].evaluations["correctness"].metadata["cached"] is True
    llmeval.evaluate(rows, evaluators=["correctness"], llm="other")
    assert len(judge.requests) == 12
    llmeval.evaluate(rows, evaluators=["correctness"], llm="m", cache=False)
    assert len(judge.requests) == 18


def test_a_changed_prompt_is_asked_anew(rows, judge):
    """A judge of the app's own has no new version each time it is edited."""
    for prompt in ("Is it calm? {response}", "Is it calm? {response}", "Is it short? {response}"):
        llmeval.evaluate(rows[:1], evaluators=[llmeval.LLMJudge("tone", prompt)], llm="m")
    assert len(judge.requests) == 2


def test_a_budget_stops_the_judges_and_says_so(rows):
    """What was not judged for lack of money is an error with its reason, not a score."""
    llm = FakeLLM(yes_unless_gold)
    llm.model = "gpt-4o"
    budget = llmeval.Budget(calls_per_minute=None, usd_per_day=0.0)
    report = llmeval.evaluate(rows, evaluators=["correctness"], llm=llm, budget=budget)
    assert report.reasons["correctness"] == {"over_budget": 6}
    assert llm.calls == []


def test_costs_are_summed(rows):
    """Tokens times the price of the model that answered."""
    llm = FakeLLM(yes_unless_gold)
    llm.model = "gpt-4o"
    report = llmeval.evaluate(rows, evaluators=["correctness", "safety"], llm=llm)
    assert report.judge_usage.cost_usd > 0
    per_row = [each.evaluations["safety"].usage.cost_usd for each in report.rows]
    assert sum(per_row) < report.judge_usage.cost_usd


def test_own_heuristics_and_judges_run_as_online(rows):
    """A decorated heuristic attaches by itself; a chunk judge stands under the schema's path."""

    @llmeval.heuristic
    def mentions_gold(record: llmeval.Record) -> bool:
        return "gold" in (record.response or "")

    @llmeval.judge(per="chunk")
    def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
        return "Roof" in (chunk.content or "")

    assert llmeval.evaluate(rows).metrics["mentions_gold/average"] == pytest.approx(2 / 6)
    report = llmeval.evaluate(rows, evaluators=[on_topic, mentions_gold], llm=FakeLLM())
    assert report.metrics["retrieval/llm_judged/on_topic/precision/average"] == 1.0


def test_rows_are_json_of_the_schema(judged, tmp_path):
    """The saved file is read by others too: one object a line, with record and evaluations."""
    path = tmp_path / "report.jsonl"
    judged.save(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["evaluators"] == list(judged.evaluators)
    assert lines[1]["record"]["request_id"] == "q0"
    assert {"name", "value"} <= set(lines[1]["evaluations"][0])
