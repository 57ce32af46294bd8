"""From a trace of the store to a row of a golden set, and from there to a gate."""

import json
import os
import stat
import sys
import time

import pytest

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Chunk, Failure
from llmeval_sdk.offline import GoldenSet
from llmeval_sdk.store.reader import StoreReader


ROOF, WALL, FIELD = "01" * 8, "02" * 8, "03" * 8


@pytest.fixture
def filled(store):
    """A request that went well, one that failed, and one whose request is its arguments."""
    store.span(
        ROOF, "answer", request="What is the roof made of?", response="Tiles.",
        retrieved_context=(Chunk("The roof is of slate.", "survey.pdf"),), trace_id="0a" * 16,
    )  # fmt: skip
    store.span(
        WALL, "answer", request="And the walls?", error=Failure("ValueError", "no"),
        trace_id="0b" * 16,
    )  # fmt: skip
    store.span(
        FIELD, "extract", request={"field": "roofType", "page": 3}, response="slate",
        value={"type": "slate"}, trace_id="0c" * 16,
    )  # fmt: skip
    return store


@pytest.fixture
def dataset(llmeval, filled):
    """Run ``llmeval dataset`` on the store; it has to succeed."""

    def run(*args, exits=0, **env):
        done = llmeval("dataset", *args, LLMEVAL_STORE=str(filled.path), **env)
        assert done.returncode == exits, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def folder(filled):
    return filled.path.parent / "datasets"


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_trace_becomes_a_row_that_evaluate_reads(dataset, llmeval, filled, folder):
    """Marked by the beginning of its id, expected answer by hand, evaluated by name."""
    assert "1 row" in dataset("add", "answers", "0101").stdout
    dataset("set", "answers", ROOF, "--expected", "Slate.")
    where = {"LLMEVAL_STORE": str(filled.path)}
    run = ("evaluate", "--dataset", "answers", "--evaluators", "exact_match", "--json")
    done = llmeval(*run, **where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["exact_match/average"] == 0.0
    dataset("set", "answers", ROOF, "--expected", "Tiles.")
    assert json.loads(llmeval(*run, **where).stdout)["metrics"]["exact_match/average"] == 1.0
    older = llmeval("evaluate", "--dataset", "answers@2", *run[3:], **where)
    assert json.loads(older.stdout)["metrics"]["exact_match/average"] == 0.0
    by_path = llmeval("evaluate", folder / "answers" / "v0003.jsonl", *run[3:])
    assert json.loads(by_path.stdout)["metrics"]["exact_match/average"] == 1.0
    assert "answers-v0003" in json.loads(by_path.stdout)["experiment"]


def test_versions_are_files_that_never_change(dataset, folder):
    """Each change writes the next number; what was committed stays as it was."""
    dataset("add", "answers", ROOF)
    first = (folder / "answers" / "v0001.jsonl").read_bytes()
    dataset("add", "answers", WALL)
    dataset("remove", "answers", ROOF)
    assert sorted(file.name for file in (folder / "answers").iterdir()) == [
        "v0001.jsonl", "v0002.jsonl", "v0003.jsonl",
    ]  # fmt: skip
    assert (folder / "answers" / "v0001.jsonl").read_bytes() == first
    assert [row["request_id"] for row in rows_of(folder / "answers" / "v0003.jsonl")] == [WALL]


def test_a_marked_trace_survives_prune(dataset, llmeval, filled):
    """The row holds all that evaluators saw: the trace itself may go."""
    dataset("add", "answers", ROOF, FIELD, "--expected", "Slate.")
    filled.writer.close()
    where = {"LLMEVAL_STORE": str(filled.path)}
    assert llmeval("prune", "--max-days", "1", **where).returncode == 0
    with StoreReader(filled.path) as reader:
        assert reader.counts().spans == 0
    done = llmeval(
        "evaluate", "--dataset", "answers", "--evaluators", "semantic_validation,exact_match",
        "--json", **where,
    )  # fmt: skip
    assert json.loads(done.stdout)["rows"] == 2, done.stderr


def test_a_row_is_what_evaluators_saw_live(dataset, filled):
    """Also where the request is a mapping of arguments and the value is no text."""
    dataset("add", "fields", FIELD, ROOF)
    golden = GoldenSet("fields", folder=filled.path.parent / "datasets")
    field, roof = golden.records()
    assert (field.request, field.value) == ({"field": "roofType", "page": 3}, {"type": "slate"})
    assert (field.trace_id, field.span_id, field.span_name) == ("0c" * 16, FIELD, "extract")
    assert roof.retrieved_context == (Chunk("The roof is of slate.", "survey.pdf"),)
    assert roof.latency_seconds == pytest.approx(0.012)


def test_a_failed_request_can_be_a_test_case(dataset, llmeval, filled):
    """It has no answer yet; the app answers it again with --model."""
    dataset("add", "answers", WALL, "--expected", "Brick.")
    done = llmeval(
        "evaluate", "--dataset", "answers", "--evaluators", "exact_match", "--json",
        "--model", "builtins:str", LLMEVAL_STORE=str(filled.path),
    )  # fmt: skip
    assert json.loads(done.stdout)["counts"]["exact_match"]["evaluated"] == 1, done.stderr


def test_the_id_of_a_trace_means_its_request(dataset, folder):
    """As for `llmeval explain`; what is in the set already keeps the answer a person wrote."""
    dataset("add", "answers", "0a" * 16, "--expected", "Slate.")
    again = dataset("add", "answers", ROOF, "--expected", "Gold.")
    assert "already" in again.stdout
    (row,) = rows_of(folder / "answers" / "v0001.jsonl")
    assert (row["request_id"], row["expected_response"]) == (ROOF, "Slate.")
    assert not (folder / "answers" / "v0002.jsonl").exists()


def test_a_version_written_by_hand_counts(dataset, folder):
    """People may add rows of their own, and columns that nobody else reads."""
    dataset("add", "answers", ROOF)
    (folder / "answers" / "v0007.jsonl").write_text(
        '{"request": "Is it old?", "expected_response": "Yes.", "attributes": {"by": "Ann"}}\n'
    )
    shown = json.loads(dataset("show", "answers", "--json").stdout)
    assert (shown["version"], shown["rows"][0]["attributes"]) == (7, {"by": "Ann"})
    dataset("add", "answers", ROOF)
    rows = rows_of(folder / "answers" / "v0008.jsonl")
    assert [row["request"] for row in rows] == ["Is it old?", "What is the roof made of?"]


def test_sets_are_listed_and_shown(dataset):
    """A line for each set, and for each row what a person has to check."""
    dataset("add", "answers", ROOF, WALL)
    dataset("set", "answers", ROOF, "--expected", "Slate.")
    listed = dataset("list").stdout
    assert "answers" in listed
    assert "1 of 2" in listed
    shown = dataset("show", "answers").stdout
    assert ROOF in shown
    assert "Slate." in shown
    (plain,) = json.loads(dataset("list", "--json").stdout)
    assert (plain["name"], plain["version"], plain["rows"], plain["expected"]) == (
        "answers", 2, 2, 1,
    )  # fmt: skip


def test_the_latest_and_the_worst_need_no_id(dataset, filled, folder):
    """As for `llmeval explain`; an evaluator that scored nothing has no worst request."""
    for span_id, value in ((ROOF, 0.2), (WALL, 0.9)):
        with StoreReader(filled.path) as reader:
            filled.evaluation(reader.span(span_id), "groundedness", value)
    dataset("add", "answers", "--worst", "groundedness", "--last")
    ids = {row["request_id"] for row in rows_of(folder / "answers" / "v0001.jsonl")}
    assert ROOF in ids
    assert len(ids) == 2
    assert "scored no request" in dataset("add", "answers", "--worst", "x", exits=2).stderr
    assert "--last" in dataset("add", "answers", exits=2).stderr


def test_a_row_has_a_number(dataset, folder):
    """Rows that people wrote may have no id, and an id is long: `show` numbers them from 1."""
    dataset("add", "answers", ROOF, WALL)
    dataset("set", "answers", "2", "--expected", "Brick.")
    rows = rows_of(folder / "answers" / "v0002.jsonl")
    assert [row.get("expected_response") for row in rows] == [None, "Brick."]
    assert "3" in dataset("set", "answers", "3", "--expected", "x", exits=2).stderr
    (folder / "answers" / "v0003.jsonl").write_text('{"request_id": "2"}\n{"request_id": "1"}\n')
    dataset("set", "answers", "1", "--expected", "of the row with this id")
    assert "expected_response" in rows_of(folder / "answers" / "v0004.jsonl")[1]


def test_ground_truth_has_three_forms(dataset, folder):
    """A whole answer, facts, or documents; facts and an answer take each other's place."""
    dataset("add", "answers", ROOF, "--expected", "Slate.")
    dataset("set", "answers", ROOF, "--fact", "It is slate.", "--fact", "It is old.",
            "--document", "survey.pdf")  # fmt: skip
    (row,) = rows_of(folder / "answers" / "v0002.jsonl")
    assert row["expected_facts"] == ["It is slate.", "It is old."]
    assert row["expected_retrieved_context"] == [{"doc_uri": "survey.pdf"}]
    assert "expected_response" not in row
    refused = dataset("set", "answers", ROOF, "--fact", "a", "--expected", "b", exits=2)
    assert "not both" in refused.stderr


def test_an_editor_changes_the_next_version(dataset, folder, tmp_path):
    """`edit` opens $EDITOR on a copy; what it leaves unread or unchanged is no version."""
    dataset("add", "answers", ROOF)
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[-1])\n"
        "file.write_text(file.read_text().replace(sys.argv[1], sys.argv[2]))\n"
    )
    editor = f"{sys.executable} {script}"
    dataset("edit", "answers", EDITOR=f"{editor} Tiles. Slate.")
    assert rows_of(folder / "answers" / "v0002.jsonl")[0]["response"] == "Slate."
    assert "nothing" in dataset("edit", "answers", EDITOR=f"{editor} absent x").stdout
    broken = dataset("edit", "answers", EDITOR=f"{editor} {{ [", exits=2)
    assert "line 1" in broken.stderr
    assert not (folder / "answers" / "v0003.jsonl").exists()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc", "a\\b", "-x", "a" * 65, "a@0", "a@x", "a@1@2",
             "a\nb", "nul\0", ".git", "ünïcode"],
)  # fmt: skip
def test_a_name_is_no_path(dataset, folder, name):
    """Nothing is read or written outside the folder of sets."""
    done = dataset("show", "--", name, exits=2)
    assert "set" in done.stderr or "NUL" in done.stderr
    with pytest.raises(ConfigurationError):
        GoldenSet(name, folder=folder)


def test_a_link_in_place_of_a_set_is_refused(dataset, folder, tmp_path):
    """Neither a folder nor a version may be a symbolic link to somewhere else."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "v0001.jsonl").write_text("{}\n")
    folder.mkdir()
    (folder / "linked").symlink_to(elsewhere)
    (folder / "inner").mkdir()
    (folder / "inner" / "v0001.jsonl").symlink_to(elsewhere / "v0001.jsonl")
    for name in ("linked", "inner"):
        assert "link" in dataset("show", name, exits=2).stderr
        assert "link" in dataset("add", name, ROOF, exits=2).stderr
    assert [file.name for file in elsewhere.iterdir()] == ["v0001.jsonl"]


def test_two_writers_lose_nothing(filled):
    """Who comes second builds upon the version of the first."""
    one, two = (GoldenSet("answers", folder=filled.path.parent / "datasets") for _ in range(2))
    one.add(ROOF, store=filled.path)
    two.add(WALL, store=filled.path)
    assert [row["request_id"] for row in one] == [ROOF, WALL]
    assert one.versions == (1, 2)


def test_a_version_that_somebody_else_wrote_meanwhile_is_kept(filled, monkeypatch):
    """The number is taken between reading and writing: the change is made again on top."""
    golden = GoldenSet("answers", folder=filled.path.parent / "datasets")
    golden.add(ROOF, store=filled.path)
    other, link, raced = GoldenSet(golden.name, folder=golden.folder), os.link, []

    def late(source, target):
        if not raced:
            raced.append(True)
            other.add(WALL, store=filled.path)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    golden.add(FIELD, store=filled.path)
    assert [row["request_id"] for row in golden] == [ROOF, WALL, FIELD]
    assert golden.versions == (1, 2, 3)


def test_files_are_private_and_whole(dataset, folder):
    """Only their owner reads them, and nothing half-written is left."""
    dataset("add", "answers", ROOF)
    (file,) = (folder / "answers").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_of_the_team_can_be_committed(dataset, llmeval, tmp_path):
    """--folder says where; nothing there is hidden from git."""
    dataset("add", "answers", ROOF, "--expected", "Tiles.", "--folder", "evals")
    assert [file.name for file in (tmp_path / "evals").rglob("*")] == ["answers", "v0001.jsonl"]
    done = llmeval("evaluate", "--dataset", "answers", "--folder", "evals", "--json",
                   "--evaluators", "exact_match")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_named(dataset):
    """An id, a set, a version, a row: with what there is instead."""
    assert "no span or trace" in dataset("add", "answers", "ffff", exits=2).stderr
    assert "several" in dataset("add", "answers", "0", exits=2).stderr
    dataset("add", "answers", ROOF)
    assert "'answers'" in dataset("show", "answer", exits=2).stderr
    assert "v0001" in dataset("show", "answers@9", exits=2).stderr
    assert ROOF in dataset("set", "answers", "f" * 16, "--expected", "x", exits=2).stderr


def test_nothing_is_added_where_one_id_is_wrong(dataset, folder):
    """All or nothing: a list of ids that is half right is a mistake."""
    dataset("add", "answers", ROOF, "ffff", exits=2)
    assert not (folder / "answers").exists()


def test_a_set_is_bounded(filled, monkeypatch):
    """A set that grows without end is no golden set."""
    from llmeval_sdk.offline import golden

    monkeypatch.setattr(golden, "MAX_ROWS", 1)
    some = GoldenSet("answers", folder=filled.path.parent / "datasets")
    some.add(ROOF, store=filled.path)
    with pytest.raises(ConfigurationError, match="at most 1 row"):
        some.add(WALL, store=filled.path)
    assert some.versions == (1,)


def test_only_one_source_of_rows(llmeval, write_row):
    """FILE, --from-store and --dataset exclude one another."""
    done = llmeval("evaluate", write_row, "--dataset", "answers")
    assert done.returncode == 2
    assert "--dataset" in done.stderr


@pytest.fixture
def write_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"request": "q", "response": "r", "at": time.time()}) + "\n")
    return path


def test_an_agents_run_keeps_its_steps(dataset, filled):
    """What it called, with which arguments and results, is a part of the row."""
    run = filled.span("04" * 8, "assistant", kind="agent", request="Refund order 7.",
                      response="Done.", trace_id="0d" * 16)  # fmt: skip
    filled.span("05" * 8, "refund", kind="tool", parent_id=run.span_id, trace_id=run.trace_id,
                request={"order": 7}, response="ok")  # fmt: skip
    dataset("add", "runs", run.span_id)
    (record,) = GoldenSet("runs", folder=filled.path.parent / "datasets").records()
    (call,) = [step for step in record.steps if step.role == "tool"]
    assert (call.name, call.arguments, call.result) == ("refund", {"order": 7}, "ok")
