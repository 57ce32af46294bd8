"""Requests without an answer are counted by what a store knows of them, whoever wrote it."""

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.evaluation.scoring import answer_of
from llmeval_sdk.exporters import memory
from llmeval_sdk.offline.data.spans import stored
from llmeval_sdk.store.dump import DumpScope, dump
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traffic import Unanswered, unanswered
from llmeval_sdk.testing import FakeLLM


@pytest.fixture
def path(tmp_path):
    """Return a store that everything traced from here on goes to."""
    path = tmp_path / "s.db"
    llmeval.configure(store=str(path), exporters=["local"])
    return path


def counted(path, **scope):
    assert llmeval.flush(20).complete
    with StoreReader(path) as reader:
        return reader.read(lambda store: unanswered(store, **scope))


@llmeval.workflow
def answer(question, response="slate", why=None):
    llmeval.annotate(request=question, abstained=why)
    return response


def test_lost_answers_are_told_apart_from_abstentions_and_failures(path):
    """Each has a count of its own, and what failed is not among the requests."""
    answer("a")
    answer("b", None)
    answer("c", "")
    answer("d", None, "not in the document")
    answer("e", "I do not know.", "not in the document")
    with pytest.raises(LookupError), llmeval.workflow("answer", request="f"):
        raise LookupError
    assert counted(path) == [Unanswered("answer", 5, lost=2, abstained=2)]


def test_an_app_may_say_that_it_does_not_abstain(path):
    """A false is none, and a true one without a reason."""
    for why in (False, "False", "", 0, True):
        answer("q", None, why)
    assert counted(path) == [Unanswered("answer", 5, lost=4, abstained=1)]


EMPTY = [
    " \n", float("nan"), {"value": None}, {"value": float("nan")}, {}, [], [None], {"choices": []},
    {"choices": [{"message": {"role": "assistant", "content": None}}]},
    {"role": "assistant", "content": ""}, {"value": None, "confidence": "LOW"},
]  # fmt: skip


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
def test_what_holds_nothing_is_lost_in_the_store_and_where_it_is_read_again(path, empty):
    """As a response or an annotated value, and in an evaluation of the store's requests."""
    answer("a", empty)
    answer("b", {"choices": [{"message": {"content": None, "tool_calls": [{"id": "1"}]}}]})
    with llmeval.workflow("answer", request="c"), llmeval.task("aggregate"):
        llmeval.annotate(value=empty)
    assert counted(path) == [Unanswered("answer", 3, lost=2, abstained=0)]
    with StoreReader(path) as reader:
        assert [answer_of(record) for record in stored(reader)] == ["lost", "given", "lost"]


def test_what_an_app_returned_in_place_of_an_answer_stays_readable(path):
    """The span is read back with it, so that a person sees what came."""
    returned = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    answer("cancelled", returned)
    answer("b", {"cancelled": None})
    assert counted(path) == [Unanswered("answer", 2, lost=2, abstained=0)]
    with StoreReader(path) as reader:
        spans = [each.span for each in dump(reader, DumpScope())]
    assert [span.response for span in spans] == [returned, {"cancelled": None}]
    assert [span.attributes for span in spans] == [{}, {}]


def test_a_step_may_give_the_value_or_say_that_there_is_none(path):
    """What a task below a request annotates belongs to the request."""
    for number, note in enumerate(({"value": "slate"}, {"abstained": "not there"}, {})):
        with llmeval.workflow("extract", request=str(number)), llmeval.task("aggregate"):
            llmeval.annotate(**note)
    assert counted(path) == [Unanswered("extract", 3, lost=1, abstained=1)]


def test_an_answer_of_the_whole_outweighs_a_step_that_abstained():
    """The record of a request that has an answer has not abstained because a part of it did."""
    records = []

    @llmeval.heuristic
    def note(record):
        records.append(record)

    llmeval.configure(evaluators=[note], exporters=["memory"])
    for response in ("slate", None):
        with llmeval.workflow("w", request="q") as span:
            with llmeval.task("t"):
                llmeval.annotate(abstained="not there")
            span.response = response
    llmeval.flush(20)
    assert [record.abstained for record in records] == [None, "not there"]


def test_there_is_no_figure_where_content_is_not_captured(path):
    """Whether there was an answer is then not known."""
    llmeval.configure(store=str(path), exporters=["local"], capture_content=False)
    answer("a", None)
    assert counted(path) == []


def test_the_report_of_a_store_has_the_share(path, capsys):
    """As a table, and as a figure of each span name in JSON; what has none is no line."""
    answer("a")
    answer("b", None)
    with llmeval.workflow("other", request="c") as span:
        span.response = "slate"
    llmeval.flush(20)
    main(["report", "--store", str(path)])
    out = capsys.readouterr().out
    at = out.splitlines().index("Requests without an answer, though they did not fail")
    assert out.splitlines()[at + 2].split() == ["answer", "2", "1", "50.0%", "0"]
    main(["report", "--store", str(path), "--json"])
    answers = {each["span_name"]: each for each in json.loads(capsys.readouterr().out)["answers"]}
    assert (answers["answer"]["no_answer"], answers["other"]["no_answer"]) == (0.5, 0.0)


def test_counting_reads_an_index(path):
    """A large store is not read for the few requests that lack an answer."""
    from llmeval_sdk.store import traffic as module

    answer("a", None)
    llmeval.flush(20)
    scope = {"since": 0, "until": 1 << 62, "name": None, "most": 1}
    with StoreReader(path) as reader:
        for question, index in ((module._STATES, "spans_unanswered"), (module._LOST_REQUESTS, "spans_unanswered"), (module._REQUESTS_BY_NAME, "COVERING INDEX spans_summed")):  # fmt: skip
            plan = reader.read(
                lambda store, question=question: [
                    row[3] for row in store.execute(f"EXPLAIN QUERY PLAN {question}", scope)
                ]
            )
            assert index in plan[0], plan


def test_a_live_score_that_compares_counts_a_lost_answer_as_a_miss():
    """A judge says no without being asked, a free score its worst value; not where it failed."""
    llm = FakeLLM({"rating": "yes", "rationale": "fine"})
    llmeval.configure(llm=llm, exporters=["memory"])

    @llmeval.workflow(evaluators=["exact_match", "correctness"])
    def app(question, fails):
        llmeval.annotate(request=question, expected_response="slate")
        return 1 / 0 if fails else None

    app("a", fails=False)
    with pytest.raises(ZeroDivisionError):
        app("b", fails=True)
    llmeval.flush(20)
    said = [
        (event.evaluation.name, event.evaluation.value)
        for event in memory.evaluations()
        if event.evaluation.value is not None
        and event.evaluation.name in ("exact_match", "correctness")
    ]
    assert sorted(said) == [("correctness", "no"), ("exact_match", False)]
    assert not llm.calls


@pytest.mark.parametrize(
    "empty", ["", " ", float("nan"), {"value": None}, {"choices": []}], ids=repr
)
def test_no_live_judge_is_paid_for_an_answer_that_holds_nothing(empty):
    """Where an answer was expected it is a miss, and else nothing is said."""
    llm = FakeLLM({"rating": "yes", "rationale": "fine"})
    polite = llmeval.LLMJudge("polite", "Is this polite? {response}")
    llmeval.configure(llm=llm, exporters=["memory"])
    memory.clear()

    @llmeval.workflow(evaluators=["exact_match", "correctness", polite])
    def app(question, expected):
        llmeval.annotate(request=question, expected_response=expected)
        return empty

    app("a", "slate")
    app("b", None)
    llmeval.flush(20)
    said = [
        (event.evaluation.name, event.evaluation.value)
        for event in memory.evaluations()
        if event.evaluation.value is not None
        and event.evaluation.name in ("exact_match", "correctness", "polite")
    ]
    assert sorted(said) == [("correctness", "no"), ("exact_match", False)]
    assert not llm.calls


@pytest.mark.parametrize("empty", [" ", float("nan"), {"value": None}, {"choices": []}], ids=repr)
def test_a_comparison_of_versions_says_what_no_judge_could_see(path, empty, capsys):
    """Judges never saw the requests whose answer holds nothing: their share is compared instead."""
    polite = llmeval.LLMJudge("polite", "Is this polite? {response}")
    llmeval.configure(
        store=str(path), exporters=["local"], llm=FakeLLM({"rating": "yes", "rationale": "fine"}),
        evaluators=[polite], sampling_rules=[llmeval.SamplingRule(1.0)],
        budget=llmeval.Budget(calls_per_minute=100_000, usd_per_day=None),
    )  # fmt: skip
    for number in range(300):
        for version in ("v1", "v2"):
            with llmeval.annotation_context(tags={"ver": version}):
                answer(f"q{number}", empty if version == "v2" and number % 2 else "slate")
    assert llmeval.flush(60).complete
    main(["compare", "--by", "tag:ver", "--store", str(path)])
    said = " ".join(capsys.readouterr().out.split())
    assert "50.0% of the requests of v2 got no answer" in said
    assert "300 +0.500 [" in said
    assert "left out" not in said  # the judge's own calls are no requests of the app
    assert "would have been seen" not in said


@pytest.fixture
def two_releases(path):
    """Ten requests of each of two releases; of the second, four lost their answer."""
    for number in range(10):
        for release in ("1", "2"):
            with llmeval.annotation_context(tags={"release": release}):
                lost = release == "2" and number < 4
                answer(f"q{number}", {"value": None} if lost else "slate")
    assert llmeval.flush(20).complete
    return str(path)


@pytest.mark.plugin("watch")
def test_an_alert_may_be_on_the_share_of_lost_answers(two_releases, capsys):
    """For a single look and for watching, and of one span name."""
    for command in (["report"], ["watch", "--once"]):
        for bound, code in (("no_answer>0.1", 1), ("no_answer>0.3", 0)):
            assert main([*command, "--store", two_releases, "--alert", bound]) == code
    capsys.readouterr()
    alert = ["report", "--store", two_releases, "--alert", "no_answer>0.1", "--json"]
    main(alert)
    (told,) = json.loads(capsys.readouterr().out)["alerts"]
    assert (told["value"], told["count"], told["holds"]) == (0.2, 20, True)
    assert main([*alert, "--span-name", "other"]) == 2
    (told,) = json.loads(capsys.readouterr().out)["alerts"]
    assert told["detail"] == "no request with content is known"


def test_traffic_by_a_tag_shows_the_share_of_lost_answers(two_releases, path, capsys):
    """In a column that is there where any was lost, and in JSON."""
    assert main(["report", "--by", "tag:release", "--store", two_releases, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["traffic"]["groups"]
    assert {group["key"]: group["no_answer"] for group in groups} == {"1": 0.0, "2": 0.4}
    main(["report", "--by", "tag:release", "--store", two_releases])
    out = capsys.readouterr().out.splitlines()
    (row,) = (line.split() for line in out if line.startswith("2 "))
    assert row[:4] == ["2", "10", "0", "40.0%"]
    main(["report", "--by", "name", "--store", two_releases, "--json"])
    (group,) = json.loads(capsys.readouterr().out)["traffic"]["groups"]
    assert group["no_answer"] == 0.2


def test_lists_and_explanations_say_that_an_answer_got_lost(path, capsys):
    """And tell it apart from one that the app did not give."""
    answer("roof?", {"value": None})
    answer("wall?", None, "not in the document")
    answer("door?")
    assert llmeval.flush(20).complete
    store = ["--store", str(path)]
    main(["traces", *store])
    said = {line.split()[-2]: line for line in capsys.readouterr().out.splitlines()[1:]}
    main(["traces", *store, "--json"])
    rows = {each["request"]: each for each in json.loads(capsys.readouterr().out)}
    assert [rows[f'"{what}?"']["no_answer"] for what in ("roof", "wall", "door")] == ["lost", "abstained", None]  # fmt: skip
    assert any(line.endswith("no answer") for line in said.values())
    assert any(line.endswith("abstained") for line in said.values())
    main(["explain", rows['"roof?"']["span_id"], *store])
    assert "answer   none: it got lost" in capsys.readouterr().out
    main(["explain", rows['"wall?"']["span_id"], *store, "--json"])
    assert json.loads(capsys.readouterr().out)["no_answer"] == "abstained"
