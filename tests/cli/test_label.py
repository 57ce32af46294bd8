"""``llmeval label`` hands out judged records, and stores labels with the chance of each."""

import json
import sqlite3
from contextlib import closing

import pytest
from command_line import run_command

from llmeval_sdk.model import Chunk, Extraction
from llmeval_sdk.store.reader import StoreReader


JUDGE = "groundedness"


def fill(store, count=30):
    for number in range(count):
        span = store.span(
            f"{number + 1:016x}", trace_id=f"{number + 1:032x}", request=f"question {number}",
            response="It is slate.\x1b[31m",
        )  # fmt: skip
        marks = {"unsupported_spans": [[6, 11]], "language": "en"}
        store.evaluation(span, "groundedness_risk", number / count, metadata=marks)
        store.evaluation(
            span, JUDGE, "no" if number % 5 == 0 else "yes", evaluator_kind="judge",
            inclusion_probability=0.5,
        )  # fmt: skip


@pytest.fixture
def label(store, tmp_path):
    """Run ``llmeval label`` with keys that somebody presses."""

    def run(*args, keys=""):
        return run_command("label", "--store", store.path, *args, folder=tmp_path, keys=keys)

    return run


def labels(store):
    with StoreReader(store.path) as reader:
        return reader.feedback(JUDGE)


def list_as_json(label, *args):
    return [json.loads(line) for line in label(*args, "--list", "--json").stdout.splitlines()]


def fill_with_passages(store, judge=JUDGE):
    """Store one judged extraction whose texts are long, and hostile to a terminal."""
    passage = Chunk("The roof is slate. " * 100 + "the end\x1b]0;title\x07")
    store.evaluation(
        store.span(
            "0a" * 8, request="What is the roof made of?\x1b[31m", value="slate",
            response="It is slate.", retrieved_context=(passage,),
            extractions=(Extraction("slate", 1, 0.9, "The roof is slate."),),
        ),
        judge, "yes", evaluator_kind="judge", inclusion_probability=0.5,
    )  # fmt: skip


def test_the_list_shows_what_is_needed_to_judge(label, store):
    """The judge's question, the request, the answer, passages and evidence, short and harmless."""
    fill_with_passages(store)
    listed = label("--list").stdout
    assert "Decide whether the chunks support the response" in listed
    assert "What is the roof made of?" in listed
    assert "Response: slate" in listed
    assert "[1] The roof is slate. The roof" in listed
    assert "Evidence for slate: The roof is slate." in listed
    assert "the end" not in listed
    assert "\x1b" not in listed
    assert max(map(len, listed.splitlines())) < 700


def test_the_list_as_json_has_the_full_texts(label, store):
    """Each line has all that somebody needs who fills in its label elsewhere."""
    fill_with_passages(store)
    (row,) = list_as_json(label)
    assert "Decide whether" in row["question"]
    assert (row["request"], row["value"]) == ("What is the roof made of?\x1b[31m", "slate")
    assert row["retrieved_context"][0]["content"].endswith("the end\x1b]0;title\x07")
    assert row["extractions"][0]["evidence"] == "The roof is slate."
    assert row["label"] is None


def test_the_question_of_a_judge_of_the_app_is_said_to_be_in_its_code(label, store):
    fill_with_passages(store, "polite")
    assert "What polite asks stands where your app defines it" in label("polite", "--list").stdout


def test_json_without_list_is_refused(label, store):
    fill_with_passages(store)
    assert label("--json").returncode == 2


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("y\n" * 30, "All 30 labels are 'yes', and the judge says otherwise of 6 of these records"),
        ("n\n" * 30, "All 30 labels are 'no', and the judge says otherwise of 24"),
    ],
)
def test_labels_that_are_all_alike_are_told(label, store, llmeval, keys, sentence):
    """In `label` and in the report, with what it means and what to do."""
    fill(store)
    assert sentence in label("--labels", 30, keys=keys).stdout
    report = llmeval("report", "--store", store.path).stdout
    assert sentence in report
    assert "`llmeval view`" in report


def test_answers_are_stored_with_their_chances(label, store):
    """Yes and no are stored, a skipped one is not, and marks stand around what is unsupported."""
    fill(store)
    done = label("--labels", 10, keys="y\ns\nn\nq\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "It is >>slate<<." in done.stdout
    assert "\x1b" not in done.stdout
    assert "2 labels stored, 2 of 10 chosen records have one" in done.stdout
    stored = [each.evaluation for each in labels(store)]
    assert [each.value for each in stored] == ["yes", "no"]
    assert all(0 < each.metadata["inclusion_probability"] <= 1 for each in stored)
    listed = list_as_json(label, "--labels", 10)
    assert len(listed) == 8
    known = {each.target.span_id for each in labels(store)}
    assert not known & {each["span_id"] for each in listed}


def test_the_last_answer_can_be_undone(label, store):
    """An answer that was undone is never stored; the end of the input stores what stands."""
    fill(store)
    done = label("--labels", 10, keys="u\ny\nu\nn\ny\n")
    assert done.returncode == 0, done.stderr
    assert "nothing to undo" in done.stdout
    assert [each.evaluation.value for each in labels(store)] == ["no", "yes"]


def test_labels_correct_the_judges_mean(label, store, llmeval):
    """The report takes them into what people would say."""
    fill(store)
    assert label("--labels", 30, keys="y\n" * 30).returncode == 0
    report = llmeval("report", "--store", store.path)
    assert "people would say" in report.stdout
    assert "All 30 chosen records have a label" in label("--labels", 30).stdout


def fill_tenants(store):
    """Store thirty judged records of each of two tenants."""
    for number in range(60):
        span = store.span(
            f"{number + 1:016x}", trace_id=f"{number + 1:032x}", request=f"question {number}",
            response="slate", tags={"tenant": "globex" if number % 2 else "acme"},
        )  # fmt: skip
        store.evaluation(
            span, JUDGE, "yes", evaluator_kind="judge", inclusion_probability=0.5,
            probability=0.9,
        )  # fmt: skip


ACME = ("--where", "tag:tenant=acme")


def test_labels_drawn_under_a_filter_correct_reports_with_it_and_no_others(label, store, llmeval):
    """Each command that reads labels says what it leaves out and what to do."""
    fill_tenants(store)
    done = label(*ACME, "--labels", 30, keys="y\nn\n" * 15)
    assert done.returncode == 0, done.stderr
    assert "They count in reports on this part of the traffic: tag:tenant=acme." in done.stdout
    (first, *_) = labels(store)
    assert first.evaluation.metadata["drawn_from"] == {"where": ["tag:tenant=acme"], "since_ns": 0}

    def text(*args):
        return " ".join(llmeval(*args, "--store", store.path).stdout.split())

    left_out = "30 labels drawn from a part of the traffic (tag:tenant=acme) are left out"
    assert "people would say" in text("report", *ACME)
    assert left_out not in text("report", *ACME)
    for whole in (("report",), ("report", "--labels", JUDGE), ("report", "--by", "request")):
        assert left_out in text(*whole)
        assert "people would say" not in text(*whole)
    by_tenant = text("report", "--by", "tag:tenant")
    assert "people would say" in by_tenant
    assert left_out not in by_tenant
    compared = llmeval("judges", "--store", store.path, "--evaluator", JUDGE)
    assert compared.returncode == 2
    assert "30 drawn from tag:tenant=acme alone" in " ".join(compared.stderr.split())
    assert "30 labelled records" in text("judges", "--evaluator", JUDGE, *ACME)
    calibrated = llmeval(
        "judges", "--calibrate", "--store", store.path, "--evaluator", JUDGE, "--dry-run"
    )
    assert "drawn from tag:tenant=acme alone" in " ".join(calibrated.stderr.split())


def test_labels_of_a_period_correct_reports_on_it_and_are_compared(label, store, llmeval):
    """A comparison with people has no period that one could ask for, so it takes them."""
    fill_tenants(store)
    done = label("--since", "2025-12-01T00:00Z", "--labels", 60, keys="y\nn\n" * 30)
    assert "part of the traffic: judged since 2025-12-01 00:00" in " ".join(done.stdout.split())
    where = ("--store", store.path)
    assert "60 labels drawn from a part" in " ".join(llmeval("report", *where).stdout.split())
    of_period = llmeval("report", *where, "--since", "2025-12-01T00:00Z").stdout
    assert "people would say" in of_period
    compared = llmeval("judges", *where, "--evaluator", JUDGE).stdout
    assert "60 labelled records" in compared


def test_labels_filled_in_elsewhere_keep_what_they_were_drawn_from(label, store, llmeval, tmp_path):
    """The list says it in each row, and the report reads it there."""
    fill_tenants(store)
    rows = list_as_json(label, *ACME, "--labels", 30)
    file = tmp_path / "queue.jsonl"
    file.write_text("".join(json.dumps({**row, "label": "yes"}) + "\n" for row in rows))
    report = ("report", "--store", store.path, "--labels", file)
    assert "30 labels drawn from a part" in " ".join(llmeval(*report).stdout.split())
    assert "people would say" in llmeval(*report, *ACME).stdout
    assert all("drawn_from" not in row for row in list_as_json(label))


def test_records_whose_spans_were_pruned_are_said_to_be_gone(label, store):
    """With all of them gone a sentence and exit code 2; with some, how many were passed over."""
    fill(store)
    with closing(sqlite3.connect(store.path)) as rows:
        rows.execute("DELETE FROM spans WHERE span_id < ?", (f"{16:016x}",))
        rows.commit()
        done = label("--labels", 30, keys="y\n" * 30)
        assert done.returncode == 0
        assert "15 chosen records were passed over: their spans were pruned" in done.stdout
        rows.execute("DELETE FROM spans")
        rows.commit()
    done = label("--labels", 30, keys="y\n" * 30)
    assert done.returncode == 2
    assert "none of the 15 records that wait for a label is in the store any more" in done.stderr


def test_what_cannot_be_labelled_is_said(label, store):
    """No judged traffic, no such judge, a number that is none: a sentence and exit code 2."""
    span = store.span("01" * 8)
    store.evaluation(span, "context_precision", 0.5)
    for args, sentence in (
        ((), "nothing to label"),
        (("correctness",), "there is no verdict of 'correctness'"),
        (("--labels", "none"), "no number of labels"),
        (("--labels", "0"), "no number of labels"),
    ):
        done = label(*args)
        assert done.returncode == 2
        assert sentence in done.stderr
    store.evaluation(span, "stars", 4.0, evaluator_kind="judge", inclusion_probability=1.0)
    assert "leave 0..1" in label("stars").stderr
