"""An answer that got lost is a miss where one was expected, and never looks like a result."""

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.offline import Report
from llmeval_sdk.offline.report.gate import ReportGate, checks
from llmeval_sdk.testing import FakeLLM


YES = {"rating": "yes", "rationale": "It says the same."}
NOTHING = "an answer was expected, and there is no answer: it got lost"


def rows_of(answers, **more):
    return [
        {"request_id": f"q{n}", "request": f"What is roof {n} made of?", "response": answer}
        | {"expected_response": "slate", **more}
        for n, answer in enumerate(answers)
    ]


HALF = ["slate", None] * 20
WHOLE = ["slate"] * 40


def evaluated(rows, *evaluators, **more):
    return llmeval.evaluate(rows, evaluators=evaluators, progress=False, **more)


@pytest.mark.parametrize("name", ["exact_match", "contains", "token_f1", "rouge_l"])
def test_a_lost_answer_is_a_miss_where_one_was_expected(name):
    """Every score that compares counts it as its worst value."""
    report = evaluated(rows_of(HALF), name)
    assert report.metrics[f"{name}/average"] == 0.5
    assert report.metrics["no_answer/percentage"] == 0.5
    assert report.below({f"{name}/average": 0.9}) == {f"{name}/average": 0.5}
    assert report.counts[name]["evaluated"] == 40


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_empty_cell_is_a_lost_answer_with_the_default_evaluators_too(tmp_path, suffix):
    """A null and an empty cell stand for an answer that is not there, and are no bad row."""
    file = tmp_path / f"data.{suffix}"
    if suffix == "jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of(HALF)))
    else:
        cells = (f"q{n},roof {n}?,{answer or ''},slate" for n, answer in enumerate(HALF))
        file.write_text("\n".join(("request_id,request,response,expected_response", *cells)))
    assert evaluated(file, "exact_match").metrics["exact_match/average"] == 0.5
    assert llmeval.evaluate(file, progress=False).metrics["no_answer/percentage"] == 0.5


def test_nan_in_a_data_frame_is_a_lost_answer():
    """So pandas writes an answer that is not there."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows_of(["slate", float("nan")]))
    assert evaluated(frame, "exact_match").metrics["exact_match/average"] == 0.5


@pytest.mark.parametrize("nothing", [None, float("nan"), {"response": None, "value": None}, " "])
def test_an_app_that_returns_nothing_has_lost_its_answer(nothing):
    """Whatever stands for nothing, and even where the data holds the answers of an earlier run."""

    @llmeval.heuristic
    def polite(record):
        return True

    report = evaluated(rows_of(WHOLE), "exact_match", model=lambda request: nothing)
    assert report.metrics == {"exact_match/average": 0.0, "no_answer/percentage": 1.0}
    report = evaluated([{"request": "q"}], polite, model=lambda request: nothing)
    assert report.metrics["no_answer/percentage"] == 1.0


EMPTY = [
    {"value": None}, {}, [], [None], {"total": None}, "", " ", float("nan"), {"choices": []},
    {"choices": [{"message": {"role": "assistant", "content": None}}]}, {"role": "assistant"},
]  # fmt: skip


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
@pytest.mark.parametrize("column", ["response", "value"])
def test_what_holds_nothing_is_a_lost_answer_in_either_column(column, empty):
    """It is a miss where an answer was expected, and else not rated, so that no gate passes."""
    rows = [{**row, column: empty if n % 2 else "slate"} for n, row in enumerate(rows_of(WHOLE))]
    rows = [{name: row[name] for name in ("request", "expected_response", column)} for row in rows]
    report = evaluated(rows, "exact_match", "token_f1", "regex:.*")
    assert (report.metrics["exact_match/average"], report.metrics["token_f1/average"]) == (0.5, 0.5)
    assert report.metrics["no_answer/percentage"] == 0.5
    assert report.counts["regex"]["no_answer"] == 20
    failed = [check.evaluator for check in checks(report, ReportGate(min_rated=1.0))]
    assert failed == ["regex"]


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
def test_no_judge_is_paid_for_an_answer_that_holds_nothing(empty):
    """Neither where one was expected, nor where none was."""
    llm = FakeLLM(YES)
    polite = llmeval.LLMJudge("polite", "Is this polite? {response}")
    report = evaluated(
        rows_of([empty] * 3), "correctness", "relevance_to_query", polite, llm=llm, cache=False
    )
    assert not llm.calls
    assert report.metrics["no_answer/percentage"] == 1.0
    assert report.counts["polite"]["no_answer"] == 3


@pytest.mark.parametrize(
    "returned",
    [*EMPTY, {"response": float("nan")}, {"value": None, "confidence": "LOW"}, {"answer": None}],
    ids=repr,
)
def test_an_app_that_returns_what_holds_nothing_has_lost_its_answer(returned):
    """Whatever its form: a mapping of columns, a chat completion or a bare value."""

    class Returned:
        def model_dump(self):
            return returned

    for model in (lambda request: returned, lambda request: Returned()):
        report = evaluated(rows_of(WHOLE), "exact_match", "regex:.*", model=model)
        assert report.metrics == {"exact_match/average": 0.0, "no_answer/percentage": 1.0}
        assert {row.answer for row in report.rows} == {"lost"}


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "I cannot help with that."},
        {"content": "", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""}}]},
    ],
    ids=["refusal", "tool calls"],
)
def test_a_refusal_and_a_tool_call_are_answers(message):
    """A chat completion that has one of them did not get lost."""
    returned = {"choices": [{"message": {"role": "assistant", **message}}]}
    report = evaluated(rows_of(WHOLE), "regex:.*", model=lambda request: returned)
    assert report.metrics == {"regex/average": 1.0, "no_answer/percentage": 0.0}


@pytest.mark.parametrize("written", ["False", "false", "FALSE", "0", "0.0", "no", "No", " ", 0, 0.0, False, "None"], ids=repr)  # fmt: skip
def test_a_row_that_says_that_it_did_not_abstain_has_not(written):
    """As pandas and people write a false, also beside an answer."""
    rows = rows_of(["slate", None], abstained=written)
    report = evaluated(rows, "exact_match")
    assert [row.answer for row in report.rows] == ["given", "lost"]
    assert report.metrics["exact_match/average"] == 0.5


@pytest.mark.parametrize("written", ["True", "true", "1", "yes", 1, 1.0, True], ids=repr)
def test_a_row_may_say_that_it_abstained_without_a_reason(written):
    """As pandas and people write a true."""
    report = evaluated(rows_of([None], abstained=written), "exact_match")
    assert report.rows[0].record.abstained == "it said so"


def test_judges_that_compare_say_no_without_being_asked():
    """Correctness of an answer that is not there costs nothing, and is a no."""
    llm = FakeLLM(YES)
    same = llmeval.LLMJudge("same", "Is {response} the same as {expected_response}?")
    report = evaluated(rows_of(HALF), "correctness", same, llm=llm, cache=False)
    for name in ("correctness", "same"):
        assert {row.evaluations[name].value for row in report.rows[1::2]} == {"no"}
    assert report.metrics["response/llm_judged/correctness/rating/percentage"] == 0.5
    assert len(llm.calls) == 40


def test_facts_are_missed_too():
    """Expected facts are expected of an answer, as an expected response is."""
    rows = [{"request": "q", "response": None, "expected_facts": ["It is slate."]}]
    report = evaluated(rows, "correctness", llm=FakeLLM(YES))
    assert report.rows[0].evaluations["correctness"].value == "no"


def test_own_scores_that_compare_miss_by_what_they_return():
    """The annotation of the function says what its worst value is; else the row is not rated."""

    @llmeval.heuristic(needs=("response", "expected_response"))
    def same_words(record) -> bool:
        return record.response == record.expected_response

    @llmeval.heuristic(needs=("response", "expected_response"))
    def distance_risk(record) -> float:
        return float(record.response != record.expected_response)

    @llmeval.heuristic(needs=("response", "expected_response"))
    def unannotated(record):
        return record.response == record.expected_response

    report = evaluated(rows_of(HALF), same_words, distance_risk, unannotated)
    lost = report.rows[1].evaluations
    assert (lost["same_words"].value, lost["distance_risk"].value) == (False, 1.0)
    assert (lost["unannotated"].value, lost["unannotated"].explanation) == (None, NOTHING)
    assert report.below({"unannotated/average": 0.9}) == {"unannotated/average": None}


def test_a_lost_answer_is_not_rated_where_none_was_expected():
    """It is neither a miss nor left out: the evaluator has too few rows for a gate."""
    report = evaluated(rows_of(HALF), "regex:slate")
    assert report.counts["regex"] == {
        "evaluated": 20, "not_applicable": 0, "no_answer": 20, "failed": 0,
    }  # fmt: skip
    assert report.reasons["regex"] == {"no answer": 20}
    assert report.below({"regex/average": 0.9}) == {"regex/average": None}
    assert report.below({"regex/average": 0.9}, min_rated=0.5) == {}
    said = [check.said for check in checks(report, ReportGate(min_rated=1.0)) if not check.passed]
    too_few = "regex rated 20 of the 40 rows that had its inputs or lost their answer, 50% where at"
    assert said == [f"{too_few} least 100% is asked for: no answer (20)"]


def test_an_abstention_is_told_apart_from_a_lost_answer():
    """It has a share of its own, and is a miss where an answer was expected."""

    @llmeval.workflow
    def app(request):
        if "roof 1 " in request:
            llmeval.annotate(abstained="not in the document")
            return None
        return None if "roof 2 " in request else "slate"

    report = evaluated(rows_of(["?"] * 4), "exact_match", "regex:slate", model=app)
    assert [row.answer for row in report.rows] == ["given", "abstained", "lost", "given"]
    assert report.metrics["abstained/percentage"] == 0.25
    assert report.metrics["no_answer/percentage"] == 0.25
    assert report.metrics["exact_match/average"] == 0.5
    assert report.reasons["regex"] == {"abstained": 1, "no answer": 1}
    assert report.counts["regex"]["not_applicable"] == 1
    assert "not in the document" in report.rows[1].evaluations["exact_match"].explanation


@pytest.mark.parametrize("answer", [None, "I cannot tell from the slate."])
def test_an_abstention_is_right_where_no_answer_was_expected(answer):
    """An empty expected response says so; a lost answer is right nowhere."""
    rows = rows_of([answer], expected_response="", abstained="not there")
    report = evaluated(rows, "exact_match", "contains", "correctness", llm=FakeLLM(YES))
    assert {each.value for each in report.rows[0].evaluations.values()} == {True, "yes"}
    lost = evaluated(rows_of([None], expected_response=""), "exact_match")
    assert lost.rows[0].evaluations["exact_match"].value is None
    assert lost.counts["exact_match"]["no_answer"] == 1


def test_an_app_may_return_its_abstention():
    """A mapping of columns has one for it."""
    report = evaluated(
        rows_of(WHOLE), "exact_match", model=lambda request: {"abstained": "no such"}
    )
    assert report.metrics["abstained/percentage"] == 1.0
    assert report.metrics["exact_match/average"] == 0.0


def test_a_request_that_failed_is_no_lost_answer():
    """It is counted as raised; the share of lost answers is over the other rows."""

    def app(request):
        if "roof 0 " in request:
            raise LookupError(request)
        return None if "roof 1 " in request else "slate"

    report = evaluated(rows_of(["?"] * 5), "exact_match", model=app)
    assert report.errors == {"LookupError": 1}
    assert report.metrics["no_answer/percentage"] == 0.25


def test_data_of_retrievals_alone_has_no_answers_to_lose():
    """The share is only there where an answer is."""
    rows = [{"request": "q", "retrieved_context": [{"doc_uri": "a"}], "expected_retrieved_context": [{"doc_uri": "a"}]}]  # fmt: skip
    report = evaluated(rows, "document_recall")
    assert "no_answer/percentage" not in report.metrics


def test_a_comparison_counts_lost_answers_and_rows_that_are_no_longer_rated():
    """Both fail the gate: the share of lost answers, and what an evaluator no longer rates."""
    before = evaluated(rows_of(WHOLE), "exact_match", "regex:slate")
    now = evaluated(rows_of(HALF), "exact_match", "regex:slate")
    compared = now.compare(before)
    assert compared.unrated == {"regex": 20}
    assert "regex: 20 rows rated before, and not now" in str(compared)
    assert {change.path for change in compared.worse} == {
        "exact_match/average", "no_answer/percentage",
    }  # fmt: skip
    failed = {
        check.name for check in checks(now, ReportGate(compared=compared)) if not check.passed
    }
    assert {"regex rates what it rated before", "no_answer/percentage no worse"} <= failed
    assert all(
        check.passed for check in checks(before, ReportGate(compared=before.compare(before)))
    )


def test_a_comparison_counts_rows_that_left_the_data():
    """A row that was rated before and is not there now may be the one that failed."""
    before = evaluated(rows_of(WHOLE), "exact_match")
    now = evaluated(rows_of(WHOLE)[:20], "exact_match")
    compared = now.compare(before)
    assert (compared.gone, compared.unrated) == ({"exact_match": 20}, {})
    assert "exact_match: 20 rows rated before, and not in the data now" in str(compared)
    (check,) = checks(now, ReportGate(compared=compared))
    assert check.word == "LOST"
    assert check.said == (
        "exact_match does not rate 20 of the 40 rows that it rated before: 20 of them are not in"
        " the data now"
    )
    few = evaluated(rows_of(WHOLE)[:38], "exact_match")
    (check,) = checks(few, ReportGate(compared=few.compare(before)))
    assert check.passed
    assert "2 ratings of before missing" in check.said


def test_a_gate_bounds_the_share_of_lost_answers_from_above(tmp_path, capsys):
    """In Python, on the command line and in every form of a report."""
    path = "no_answer/percentage"
    report = evaluated(rows_of(HALF), "exact_match")
    assert report.above({path: 0.4}) == {path: 0.5}
    assert report.above({path: 0.5, "abstained/percentage": 0.0}) == {}
    assert report.below({path: 0.6}) == {path: 0.5}
    said = "no_answer/percentage is 0.5, above 0.4 (40 rows, 20 without an answer)"
    assert said in report.to_html(at_most={path: 0.4})
    assert f"**FAILED** {said}" in report.to_markdown(at_most={path: 0.4})
    assert 'name="no_answer/percentage &lt;= 0.4"' in report.to_junit(at_most={path: 0.4})
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of(HALF)))
    save = ["--save", str(tmp_path / "r.jsonl"), "--no-progress"]
    for most, code in (("0.4", 1), ("0.5", 0)):
        bound = ["--fail-over", f"{path}={most}"]
        assert main(["evaluate", str(file), "--evaluators", "exact_match", *bound, *save]) == code
    assert said in capsys.readouterr().out
    with pytest.raises(llmeval.errors.ConfigurationError, match="did you mean 'no_answer/percent"):
        report.above({"no_answer": 0.1})


def test_an_upper_bound_counts_only_where_enough_rows_are_rated():
    """As a lower one does: few rows do not stand for the rest."""
    report = evaluated(rows_of(HALF), "regex:slate")
    assert report.above({"regex/average": 1.0}) == {"regex/average": None}
    retrievals = [{"request": "q", "retrieved_context": [{"doc_uri": "a"}], "expected_retrieved_context": [{"doc_uri": "a"}]}]  # fmt: skip
    report = evaluated(retrievals, "document_recall")
    assert report.above({"no_answer/percentage": 0.5}) == {"no_answer/percentage": None}


def test_a_saved_report_keeps_the_share(tmp_path):
    """What is loaded has the metrics of what was saved."""
    path = tmp_path / "report.jsonl"
    report = evaluated(rows_of(HALF), "exact_match", save=path)
    assert Report.load(path).metrics == report.metrics


def test_a_parts_shares_add_up():
    """Parts of a data set merge into the share of the whole."""
    whole, half = evaluated(rows_of(WHOLE), "exact_match"), evaluated(rows_of(HALF), "exact_match")
    whole.aggregate.merge(half.aggregate)
    assert whole.metrics["no_answer/percentage"] == 0.25


def test_the_share_stands_in_every_form_of_a_report():
    """In the table, on the page, in Markdown and in a notebook."""
    report = evaluated(rows_of(HALF), "exact_match")
    for text in (report.to_html(), report.to_markdown(), report._repr_html_()):
        assert "no_answer/percentage" in text.replace("<wbr>", "")


def test_a_column_for_the_answer_is_still_needed():
    """Where no row could have one, the data is not what was meant."""
    with pytest.raises(llmeval.errors.DataError, match="'response' is missing"):
        llmeval.evaluate([{"request": "q"}], progress=False)


def test_requests_of_the_store_without_an_answer_are_rows_and_not_bad_ones(tmp_path, capsys):
    """With the default evaluators too: an app that answers nothing passes no gate."""
    store = str(tmp_path / "traces.db")
    llmeval.configure(exporters=["local"], store=store, escalations=[])
    for number in range(10):
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(
                response="Slate." if number % 2 else None,
                retrieved_context=[{"content": "a slate roof", "score": 0.5}],
            )
    llmeval.shutdown()
    gate = ["evaluate", "--from-store", "--store", store, "--no-progress", "--min-rated", "1.0"]
    assert main([*gate, "--save", str(tmp_path / "rows.jsonl")]) == 1
    printed = capsys.readouterr()
    assert "10 rows; no answer on 5 rows" in printed.out + printed.err
